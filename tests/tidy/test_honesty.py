"""Nothing unfinished, nothing swallowed, nothing that runs what it was sent, nothing of one machine."""

from __future__ import annotations

import ast
import re

from source_tree import CHECKOUT, PACKAGES, functions, modules, shown, texts, tree

PRODUCT = (*PACKAGES, "src", "examples")
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "time.sleep", "os.system", "yaml.load", "yaml.unsafe_load"}
ASSERTING = ("assert", "raises", "check", "expect", "warns")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~)\]}])/(?:home|root|work|Users|private/var)/[\w.-]")
REGISTRY = re.compile("py" r"pi\.org|pythonhosted" r"\.org|registry\.npm" r"js\.org")


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{shown(path, number)}: {line.strip()[:100]}"
        for path in texts()
        if path.name != "LICENSE"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_is_left_for_later():
    marks = _lines_with(UNFINISHED)
    for path in modules(*PRODUCT, "benchmarks"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node):
                marks.append(f"{shown(path, node.lineno)}: NotImplementedError")
    assert not marks, "\n".join(marks)


def test_no_path_of_one_machine():
    found = _lines_with(MACHINE_PATH)
    assert not found, "\n".join(found)


def test_no_registry_is_named():
    found = _lines_with(REGISTRY)
    assert not found, "\n".join(found)


def test_product_code_never_runs_what_it_was_sent():
    found = []
    for path in modules(*PRODUCT):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = {(node.module or "").partition(".")[0]}
                names |= {f"{node.module}.{alias.name}" for alias in node.names} & FORBIDDEN_CALLS
            elif isinstance(node, ast.Call):
                names = {ast.unparse(node.func)} & FORBIDDEN_CALLS
            else:
                continue
            found += [
                f"{shown(path, node.lineno)}: {name}"
                for name in names & (FORBIDDEN_MODULES | FORBIDDEN_CALLS)
            ]
    assert not found, "\n".join(found)


def test_no_error_is_swallowed():
    found = []
    for path in modules(*PRODUCT, "benchmarks", "docs"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler) and all(_does_nothing(each) for each in node.body):
                found.append(f"{shown(path, node.lineno)}: an error is swallowed")
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                found.append(f"{shown(path, node.lineno)}: a bare except")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("contextlib.suppress", "suppress"):
                wide = {"Exception", "BaseException"} & {ast.unparse(arg) for arg in node.args}
                found += [f"{shown(path, node.lineno)}: suppress({name})" for name in wide]
    assert not found, "\n".join(found)


def _does_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def test_every_test_can_fail():
    idle = []
    for path in modules("tests"):
        if not path.name.startswith("test_"):
            continue
        for node in functions(tree(path)):
            text = ast.unparse(node)
            if node.name.startswith("test_") and not any(
                word in text.partition("\n")[2] for word in ASSERTING
            ):
                idle.append(f"{shown(path, node.lineno)} {node.name}")
    assert not idle, "these tests assert nothing:\n" + "\n".join(idle)


def test_no_test_waits_by_sleeping():
    found = []
    for path in modules("tests"):
        if path.is_relative_to(CHECKOUT / "tests/kit"):
            continue  # polling with a bound is written once, there
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep":
                found.append(shown(path, node.lineno))
    assert not found, "wait for the thing itself:\n" + "\n".join(found)
