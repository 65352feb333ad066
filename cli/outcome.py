"""How a run stopped, as Python sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a report; ``values`` maps names to ``(value, unit)``."""

    kind: str
    text: str
    level: str | None
    values: Mapping[str, tuple[Any, str]]
    query: str | None


@dataclass(frozen=True, slots=True)
class Result:
    """How a run stopped. ``data`` is the whole object as ``--json`` prints it."""

    run_id: str
    phase: str
    verdict: str
    reason: str
    next_owner: str
    statements: Sequence[Statement]
    needs: Mapping[str, Any] | None
    data: Mapping[str, Any] = field(repr=False)

    @property
    def completed(self) -> bool:
        return self.phase == "COMPLETED"

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        report = data.get("report") or {}
        return cls(
            run_id=data["run_id"],
            phase=data["phase"],
            verdict=data["verdict"],
            reason=data["reason"],
            next_owner=data["next_owner"],
            statements=[_statement(one) for one in report.get("statements", ())],
            needs=data.get("needs"),
            data=data,
        )


def _statement(data: Mapping[str, Any]) -> Statement:
    values = {name: (one["value"], one["unit"]) for name, one in data["values"].items()}
    return Statement(data["kind"], data["text"], data["level"], values, data["query"])
