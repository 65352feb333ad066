"""What a report says of parts of a change: for every dimension the segments with their share and its interval.

Which dimensions there are, the report's statements say, by the places that their values come from; how they go on behind
the stated ones, the outputs at those places say, which the verifier computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..judgement.report import Report, Statement
from ..machine.run import DONE, Run
from .result import report_of

VALUE_MAX = 1e15  # beyond it a float has no decimals left, and a picture no scale
SEGMENTS_SHOWN_MAX = 10  # more bars than that say nothing more to the eye


@dataclass(frozen=True, slots=True)
class Part:
    """A segment's contribution in the unit of the change, and the interval from its own missing rows."""

    segment: str
    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Contributions:
    """The parts of one dimension, the largest first; ``more`` segments that are not shown add up to ``rest``."""

    step_id: str
    dimension: str
    change: float | None
    unit: str
    parts: tuple[Part, ...]
    more: int = 0
    rest: float = 0.0


def contributions(run: Run) -> list[Contributions]:
    """One entry a dimension that the report states contributions of, in the order of its statements."""
    report = report_of(run)
    if report is None:
        return []
    stated: dict[str, list[Part]] = {}
    names: dict[str, tuple[str, str]] = {}
    for step_id, part, dimension, unit in _stated(report):
        stated.setdefault(step_id, []).append(part)
        names.setdefault(step_id, (dimension, unit))
    return [_whole(run, step_id, parts, *names[step_id]) for step_id, parts in stated.items()]


def _stated(report: Report) -> list[tuple[str, Part, str, str]]:
    """(step, part, dimension, unit) of every statement that gives a contribution with its interval."""
    found = []
    for statement in report.statements:
        part = _of_statement(statement)
        if part is not None:
            value = statement.values["contribution"]
            dimension = statement.values.get("plural") or statement.values.get("dimension")
            name = "" if dimension is None else str(dimension.value)
            found.append((value.source.partition("#")[0], part, name, value.unit))
    return found


def _of_statement(statement: Statement) -> Part | None:
    given = {name: value.value for name, value in statement.values.items()}
    return _part(given)


def _part(given: Mapping[str, Any]) -> Part | None:
    """A part from its fields, ``None`` where one is missing or no number."""
    numbers = [given.get(name) for name in ("contribution", "low", "high")]
    if given.get("segment") is None or any(type(number) not in (int, float) for number in numbers):
        return None
    value, low, high = (float(number or 0) for number in numbers)
    if any(abs(number) > VALUE_MAX for number in (value, low, high)):
        return None
    return Part(str(given["segment"]), str(given.get("label") or ""), value, low, high)


def _whole(run: Run, step_id: str, stated: list[Part], dimension: str, unit: str) -> Contributions:
    """The decomposition behind the statements, or these alone where it is not at hand."""
    state = run.steps.get(step_id)
    output = run.output(step_id) if state is not None and state.status in DONE else None
    segments = output.get("segments") if isinstance(output, dict) else None
    parts = [_part(one) for one in segments if isinstance(one, dict)] if isinstance(segments, list) else []
    found = [part for part in parts if part is not None]
    if not isinstance(output, dict) or len(found) < len(stated):
        return Contributions(step_id, dimension, None, unit, tuple(stated))
    change = output.get("change")
    rest = found[SEGMENTS_SHOWN_MAX:]
    return Contributions(
        step_id=step_id,
        dimension=str(output.get("dimension_plural") or dimension),
        change=float(change) if isinstance(change, int | float) else None,
        unit=unit,
        parts=tuple(found[:SEGMENTS_SHOWN_MAX]),
        more=len(rest),
        rest=sum(part.value for part in rest),
    )
