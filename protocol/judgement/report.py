"""The report of a run: typed statements over named values, each value with the place that it came from.

A statement's ``text`` is its ``template`` with the values filled in, and nothing else: ``{name}`` shows a value with its
unit, ``{name:2}`` with two decimals, ``{name:n}`` and ``{name:2n}`` without the unit. A value's ``source`` is a reference
as in ``plan/refs`` (``s2#/change``), so a reader, and the verifier, can look at where every number stands.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

from pydantic import Field

from ..plan.semantics import MONTHS
from ..wire.errors import ToolError
from ..wire.model import Model

Kind = Literal["observation", "hypothesis", "missing_evidence", "follow_up", "recommendation"]
Level = Literal["observation", "association", "causal"]
LEVELS: tuple[Level, ...] = ("observation", "association", "causal")
DECIMALS = 3
_FORMAT = re.compile(r"([0-9]?)(n?)")


class Value(Model):
    """A named value. ``unit`` is a unit of a metric, ``points``, ``rows``, or ``text``, ``date`` for what is no number."""

    value: str | int | float | bool | list[str] | None
    unit: str
    source: str


class Statement(Model):
    """One thing that the report says. ``artifacts`` are the steps whose outputs it rests on."""

    kind: Kind
    template: str
    text: str
    level: Level | None
    values: dict[str, Value] = Field(default_factory=dict)
    artifacts: list[str] = Field(default_factory=list)
    query: str | None = None


class Choice(Model):
    """Something concrete that a person can do next where the report is not complete."""

    template: str
    text: str
    values: dict[str, Value] = Field(default_factory=dict)


class Report(Model):
    """Everything that is said about a run. ``withheld``: an attribution was asked for and could not be made."""

    kind: Literal["report"] = "report"
    status: Literal["complete", "withheld"]
    reason: str | None = None
    statements: list[Statement]
    choices: list[Choice] = Field(default_factory=list)

    def to_json(self, digests: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The report as DESIGN 16 shows it; ``digests`` maps steps to the artifacts of their outputs, where known."""
        known = digests or {}
        return {
            "status": self.status,
            "statements": [
                {
                    "kind": statement.kind,
                    "text": statement.text,
                    "level": statement.level,
                    "values": _shown(statement.values),
                    "artifacts": [known.get(step, step) for step in statement.artifacts],
                    "query": statement.query,
                }
                for statement in self.statements
            ],
            "choices": [{"text": choice.text, "values": _shown(choice.values)} for choice in self.choices],
        }


def say(
    kind: Kind,
    level: Level | None,
    template: str,
    values: Mapping[str, Value],
    query: str | None = None,
) -> Statement:
    """A statement with its text filled in. Only the values that the template names are kept."""
    used = _used(template, values)
    steps = sorted({value.source.partition("#")[0] for value in used.values()})
    return Statement(
        kind=kind,
        template=template,
        text=fill(template, used),
        level=level,
        values=used,
        artifacts=steps,
        query=query,
    )


def choose(template: str, values: Mapping[str, Value]) -> Choice:
    """A choice with its text filled in."""
    used = _used(template, values)
    return Choice(template=template, text=fill(template, used), values=used)


def names_in(template: str) -> list[str]:
    """The names of the values in a template. Raises ``ToolError`` ``tool.bad_template`` for anything but names."""
    return [name for _, name, _ in _parts(template) if name is not None]


def fill(template: str, values: Mapping[str, Value]) -> str:
    """The text of a template. Raises ``ToolError`` ``tool.bad_template`` where a name has no value."""
    text = []
    for before, name, form in _parts(template):
        text.append(before)
        if name is not None:
            if name not in values:
                raise ToolError(
                    "tool.bad_template",
                    f"The template names {name!r}, which has no value here.",
                    place=template,
                    hint=f"Known: {', '.join(sorted(values)) or 'none'}.",
                )
            text.append(shown(values[name], form))
    return "".join(text)


def shown(value: Value, form: str = "") -> str:
    """A value as a text shows it: three decimals unless ``form`` says otherwise, thousands apart, a sign for points."""
    match = _FORMAT.fullmatch(form)
    assert match is not None
    decimals, bare = int(match[1] or DECIMALS), bool(match[2])
    content = value.value
    if content is None:
        return "unknown"
    if isinstance(content, list):
        return _listed(content)
    if isinstance(content, (bool, str)):
        return _date(content) if value.unit == "date" and isinstance(content, str) else str(content)
    sign = "+" if value.unit == "points" else ""
    number = f"{content:{sign},d}" if isinstance(content, int) else f"{content:{sign},.{decimals}f}"
    if bare or value.unit in ("", "text", "rows"):
        return number
    return f"{number} {'%' if value.unit == 'percent' else value.unit}"


def _parts(template: str) -> list[tuple[str, str | None, str]]:
    """(text before, name, form) of every placeholder; names only: no attribute, index, conversion or nesting."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ToolError(
            "tool.bad_template", f"The template cannot be read ({error}).", place=template
        ) from None
    found: list[tuple[str, str | None, str]] = []
    for before, name, form, conversion in parts:
        if name is not None and (not name.isidentifier() or conversion or not _FORMAT.fullmatch(form or "")):
            raise ToolError(
                "tool.bad_template",
                "A placeholder holds one name, and perhaps a number of decimals and n.",
                place=template,
                hint="Write {name}, {name:2} or {name:n}.",
            )
        found.append((before, name, form or ""))
    return found


def _used(template: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: values[name] for name in dict.fromkeys(names_in(template)) if name in values}


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def _date(text: str) -> str:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return text
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _shown(values: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    return {name: {"value": value.value, "unit": value.unit} for name, value in values.items()}
