"""What must hold of a report, whoever made it: its texts, its values, its levels, what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..plan import refs
from ..wire.errors import DulyError, Fault
from .report import LEVELS, Level, Report, Statement, Value, fill

# The verbs of a level are fixed. What stands under a level may not be said below it.
VERBS: dict[Level, str] = {
    "observation": "is, was, fell, rose, lies, reaches",
    "association": "accounts for, goes with, stands against, is ahead",
    "causal": "caused",
}
_RESERVED: dict[Level, re.Pattern[str]] = {
    "association": re.compile(
        r"\b(account\w*\s+for|go(?:es|ing)?\s+with|went\s+with|associat\w*|contribut\w*)", re.IGNORECASE
    ),
    "causal": re.compile(
        r"\b(caus(?:e|es|ed|ing)\b|because\b|due\s+to\b|driv(?:e|es|en|ing)\b|drove\b|led\s+to\b|leads\s+to\b"
        r"|result(?:s|ed|ing)?\s+(?:in|from)\b|thanks\s+to\b|owing\s+to\b|responsible\s+for\b)",
        re.IGNORECASE,
    ),
}
# Kinds whose templates are ours: a digit in one would be a number that no value stands behind.
_OURS = ("observation", "hypothesis", "missing_evidence")
_ATTRIBUTED = ("segments", "top", "candidates", "rate_effect", "mix_effect", "spread", "not_separable")


def faults_in(report: Report, outputs: Mapping[str, Any], levels: Mapping[str, Level]) -> list[Fault]:
    """Everything that is wrong with a report over the outputs of steps, whose evidence levels are given.

    Codes: ``report.text`` (not its template filled in), ``report.value`` (not what stands at its source),
    ``report.number`` (a number without a value), ``report.level``, ``report.verb``, ``report.artifacts``,
    ``report.withheld`` (part of an attribution that was withheld).
    """
    faults: list[Fault] = []
    for index, statement in enumerate(report.statements):
        path = f"statements/{index}"
        faults += _text_faults(path, statement.template, statement.text, statement.values)
        faults += _value_faults(path, statement.values, outputs)
        faults += _level_faults(path, statement, levels)
        if report.status == "withheld":
            faults += _withheld_faults(path, statement.values)
    for index, choice in enumerate(report.choices):
        path = f"choices/{index}"
        faults += _text_faults(path, choice.template, choice.text, choice.values)
        faults += _value_faults(path, choice.values, outputs)
    return faults


def _text_faults(path: str, template: str, text: str, values: Mapping[str, Value]) -> list[Fault]:
    try:
        if fill(template, values) == text:
            return []
        return [
            Fault(f"{path}/text", "report.text", "The text is not its template with the values filled in.")
        ]
    except DulyError as error:
        return [Fault(f"{path}/template", "report.text", error.message)]


def _value_faults(path: str, values: Mapping[str, Value], outputs: Mapping[str, Any]) -> list[Fault]:
    faults = []
    for name, value in values.items():
        at = f"{path}/values/{name}"
        try:
            ref = refs.parse(value.source)
            there = refs.lookup(outputs[ref.step_id], ref.pointer)
        except (DulyError, KeyError):
            faults.append(Fault(at, "report.value", f"Nothing stands at {value.source}."))
            continue
        if there != value.value or isinstance(there, bool) != isinstance(value.value, bool):
            faults.append(Fault(at, "report.value", f"It is not what stands at {value.source}."))
    return faults


def _level_faults(path: str, statement: Statement, levels: Mapping[str, Level]) -> list[Fault]:
    faults = []
    used = {
        value.source.partition("#")[0] for value in statement.values.values()
    }  # a map's order does not travel
    if sorted(statement.artifacts) != sorted(used) or any(step not in levels for step in used):
        faults.append(
            Fault(f"{path}/artifacts", "report.artifacts", "The artifacts are not those of the values.")
        )
    if not used and statement.kind in _OURS:
        faults.append(Fault(f"{path}/artifacts", "report.artifacts", "The statement rests on no artifact."))
    if statement.level is None and statement.kind != "follow_up":
        faults.append(Fault(f"{path}/level", "report.level", "The statement has no evidence level."))
    own = LEVELS.index(statement.level) if statement.level is not None else 0
    allowed = max((LEVELS.index(levels[step]) for step in used if step in levels), default=0)
    if own > allowed:
        faults.append(Fault(f"{path}/level", "report.level", "The level is above that of the artifacts."))
    bare = re.sub(r"\{[^{}]*\}", "", statement.template)
    for level, words in _RESERVED.items():
        found = words.search(bare)
        if found is not None and LEVELS.index(level) > own:
            faults.append(
                Fault(f"{path}/template", "report.verb", f"{found[0]!r} says more than the level allows.")
            )
    if statement.kind in _OURS and re.search(r"\d", bare):
        faults.append(Fault(f"{path}/template", "report.number", "A number stands in the template itself."))
    return faults


def _withheld_faults(path: str, values: Mapping[str, Value]) -> list[Fault]:
    return [
        Fault(f"{path}/values/{name}", "report.withheld", "The attribution was withheld; this is part of it.")
        for name, value in values.items()
        if value.source.partition("#")[2].lstrip("/").split("/")[0] in _ATTRIBUTED
    ]
