"""The bounds of ``protocol/wire/limits.py`` with their reasons, which are its comments."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Limit:
    name: str
    value: str
    reason: str


def limits(path: Path) -> list[Limit]:
    """Every assignment of the module in its order; the reason is the comment inside or behind it."""
    source = path.read_text(encoding="utf-8")
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found: dict[str, Limit] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            reason = " ".join(comments[line] for line in lines if line in comments)
            name = node.targets[0].id
            found.pop(name, None)
            found[name] = Limit(name, _shown(name, _value(node.value)), reason)
    return list(found.values())


def _value(node: ast.expr) -> float:
    """The number of an expression of numbers."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.LShift):
            return int(left) << int(right)
    raise SystemExit(f"protocol/wire/limits.py line {node.lineno}: {ast.unparse(node)} is no plain number")


def _shown(name: str, value: float) -> str:
    """With thousands apart; powers of two of bytes in their unit."""
    if "BYTES" in name:
        for size, unit in _BYTES:
            if value >= size and value % size == 0:
                return f"{value // size:,.0f} {unit}"
    return f"{value:,}"
