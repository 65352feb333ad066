"""What the machine writes into events, read from its source: for every kind the facts and the artifacts.

An event is written by a call ``event(kind, attached, fact=…)``. A kind or a map of artifacts that is a variable is looked
up in the function around the call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MACHINE = "protocol/machine"


@dataclass
class Written:
    """Facts and artifacts of one kind, over all places that write it."""

    facts: list[str] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)

    def add(self, facts: list[str], artifacts: list[str]) -> None:
        self.facts = list(dict.fromkeys([*self.facts, *facts]))
        self.artifacts = list(dict.fromkeys([*self.artifacts, *artifacts]))


def written(root: Path) -> dict[str, Written]:
    """Kind of event → what is written into it."""
    found: dict[str, Written] = {}
    for path in sorted((root / MACHINE).rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for call in _calls(function):
                    facts = [
                        keyword.arg for keyword in call.keywords if keyword.arg not in (None, "attached")
                    ]
                    artifacts = [name for node in call.args[1:2] for name in _keys(node, function)]
                    for kind in _texts(call.args[0], function):
                        found.setdefault(kind, Written()).add([str(name) for name in facts], artifacts)
    return found


def _calls(function: ast.FunctionDef) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "event"
            and node.args
        ):
            yield node


def _texts(node: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    """The texts that an expression can be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, function)
        yield from _texts(node.orelse, function)
    elif isinstance(node, ast.Name):
        for value in _assigned(node.id, function):
            yield from _texts(value, function)


def _keys(node: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    """The keys that a map can have."""
    if isinstance(node, ast.Dict):
        yield from (
            key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
        )
    elif isinstance(node, ast.DictComp):
        for one in ast.walk(node.generators[0].iter):
            if isinstance(one, ast.Tuple) and isinstance(one.elts[0], ast.Constant):
                yield str(one.elts[0].value)
    elif isinstance(node, ast.IfExp):
        yield from _keys(node.body, function)
        yield from _keys(node.orelse, function)
    elif isinstance(node, ast.Name):
        for value in _assigned(node.id, function):
            yield from _keys(value, function)
        yield from _set_later(node.id, function)


def _assigned(name: str, function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        else:
            continue
        if any(isinstance(one, ast.Name) and one.id == name for one in targets) and node.value is not None:
            yield node.value


def _set_later(name: str, function: ast.FunctionDef) -> Iterator[str]:
    """Keys that are set one by one: ``attached["receipt"] = …``."""
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if (
                isinstance(target, ast.Subscript)
                and isinstance(target.value, ast.Name)
                and target.value.id == name
            ):
                yield from _text_of(target.slice)


def _text_of(node: ast.expr) -> Iterator[str]:
    """A key, with N where a number is filled in: ``output.N``."""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(one.value) if isinstance(one, ast.Constant) else "N" for one in node.values)
