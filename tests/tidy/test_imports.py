"""Imports point one way and are written one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from source_tree import CHECKOUT, PACKAGES, modules, shown, tree


def test_inside_a_folder_imports_are_relative_and_across_they_are_absolute():
    odd = []
    for folder in PACKAGES:
        for path in modules(folder):
            depth = len(path.relative_to(CHECKOUT / folder).parts)
            for node in ast.walk(tree(path)):
                if not isinstance(node, ast.ImportFrom):
                    continue
                module = node.module or ""
                if node.level > depth:
                    odd.append(f"{shown(path, node.lineno)}: climbs out of {folder}/")
                if node.level == 0 and (module == f"duly.{folder}" or module.startswith(f"duly.{folder}.")):
                    odd.append(f"{shown(path, node.lineno)}: {module} from within {folder}/")
    assert not odd, "\n".join(odd)


def test_nobody_imports_a_folder_by_its_bare_name():
    """``import protocol`` next to ``import duly.protocol`` would make a second copy of every class.

    Ruff's banned-api rule cannot say this: it takes the relative imports inside a linked folder for bare ones.
    """
    bare = []
    for path in modules(*PACKAGES, "src", "tests", "examples", "benchmarks", "docs"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            bare += [
                f"{shown(path, node.lineno)}: {name}" for name in names if name.partition(".")[0] in PACKAGES
            ]
    assert not bare, "write duly.<folder>:\n" + "\n".join(bare)


def test_the_layers_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    command = [sys.executable, str(linter), "--no-cache"]
    done = subprocess.run(command, check=False, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Contracts: " in done.stdout
    assert " 0 broken" in done.stdout
