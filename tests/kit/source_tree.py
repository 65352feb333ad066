"""The files of this checkout, as the tidy and layout tests see them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("protocol", "storage", "hosts", "actors", "cli")  # the linked folders of src/duly
_SOURCES = (*PACKAGES, "src", "examples", "benchmarks", "docs", "tests", ".ci")
_TEXTS = {".py", ".md", ".toml", ".yaml", ".yml", ".in", ".json", ".sql", ".txt", ""}
_BUILT = {"__pycache__", "duly.egg-info", "build", "dist"}


@cache
def texts() -> tuple[Path, ...]:
    """Every text file of the source tree, top level included, links not followed."""
    found = [path for path in CHECKOUT.iterdir() if path.is_file() and path.suffix in _TEXTS]
    for folder in _SOURCES:
        found += [path for path in _walk(CHECKOUT / folder) if path.suffix in _TEXTS]
    return tuple(sorted(found))


@cache
def modules(*folders: str) -> tuple[Path, ...]:
    """The Python files below these top-level folders."""
    roots = tuple(CHECKOUT / folder for folder in folders)
    return tuple(
        path for path in texts() if path.suffix == ".py" and any(path.is_relative_to(root) for root in roots)
    )


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def shown(path: Path, line: int | None = None) -> str:
    """A path from the root of the checkout, with a line where there is one."""
    name = path.relative_to(CHECKOUT).as_posix()
    return name if line is None else f"{name}:{line}"


def functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, inner ones included."""
    return (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _walk(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or path.name in _BUILT:
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield path
