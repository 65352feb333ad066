"""Files and functions stay small enough to be read at one go, and names say what a thing is."""

from __future__ import annotations

import ast
import re

from source_tree import CHECKOUT, PACKAGES, functions, modules, shown, texts, tree

MODULE_LINES_MAX = 300
TEST_MODULE_LINES_MAX = 400  # a table of cases may be long; a reader skips it
FUNCTION_LINES_MAX = 60
PRODUCT = (*PACKAGES, "src", "examples", "benchmarks", "docs")
NO_NAMES = {"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "constants"}


def test_no_module_is_too_long():
    long = []
    for path in modules(*PRODUCT, "tests"):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > (TEST_MODULE_LINES_MAX if path.is_relative_to(CHECKOUT / "tests") else MODULE_LINES_MAX):
            long.append(f"{shown(path)}: {lines} lines")
    assert not long, "split by noun:\n" + "\n".join(long)


def test_no_function_is_too_long():
    long = []
    for path in modules(*PRODUCT):
        for node in functions(tree(path)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                long.append(f"{shown(path, node.lineno)} {node.name}: {lines} lines")
    assert not long, "\n".join(long)


def test_names_say_what_a_thing_is():
    vague = [shown(path) for path in texts() if NO_NAMES.intersection(re.split(r"[_.]", path.name.lower()))]
    vague += [
        shown(path)
        for path in modules(*PRODUCT, "tests")
        if NO_NAMES.intersection(part.lower() for part in path.relative_to(CHECKOUT).parts)
    ]
    for path in modules(*PRODUCT, "tests"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and re.search(r"(Utils?|Common|Helpers?|Manager)$", node.name):
                vague.append(f"{shown(path, node.lineno)} {node.name}")
    assert not vague, "\n".join(vague)


def test_every_module_says_what_it_is():
    silent = [
        shown(path)
        for path in modules(*PRODUCT, "tests")
        if not ast.get_docstring(tree(path)) and path.read_text(encoding="utf-8").strip()
    ]
    assert not silent, "these modules have no docstring:\n" + "\n".join(silent)


def test_every_limit_has_its_reason():
    path = CHECKOUT / "protocol/wire/limits.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = []
    limits = 0
    for node in tree(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            limits += 1
            if not re.search(r"#\s*\S.{6,}", "\n".join(lines[node.lineno - 1 : node.end_lineno])):
                bare.append(f"{shown(path, node.lineno)}: {lines[node.lineno - 1]}")
    assert limits > 20
    assert not bare, "\n".join(bare)
