"""``report.diagnosis``: what is known about a change, what it goes with, what is missing, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.protocol.judgement.report import Report, Statement, say

from .report_advice import advice, turn
from .report_completeness import (
    bounds_statement,
    choices,
    completeness_values,
    missing_statements,
    reach_statements,
    withheld_statement,
)
from .report_evidence import Evidence, Values, of_kind, only, read
from .report_segments import (
    deciding,
    decomposition_statements,
    decomposition_values,
    interaction_statements,
)
from .report_value import change_statement, definition_statement


def diagnosis(arguments: Mapping[str, Any]) -> Report:
    """The report of one ``completeness`` output with any number of decompositions and interactions.

    ``withheld`` where one of them says so: then change, bounds and missing evidence are reported, no contribution.
    """
    evidence = read(arguments)
    whole = only(evidence, "completeness")
    parts = of_kind(evidence, "decomposition")
    through = of_kind(evidence, "interaction")
    first = [change_statement(whole), bounds_statement(whole), *reach_statements(whole)]
    attributed = bool(whole.get("/sign_certain")) and all(
        item.get("/status") == "attributed" for item in (*parts, *through)
    )
    if not attributed:
        return _withheld(arguments, whole, first)
    values = completeness_values(whole)
    holds = ["always", "complete", *turn(str(whole.get("/direction")), str(whole.get("/better")))]
    said: list[Statement] = []
    if parts:
        kind, chosen = deciding(parts)
        values |= decomposition_values(chosen)
        holds.append(kind)
        rate, mix = chosen.get("/rate_effect"), chosen.get("/mix_effect")
        if rate is not None:
            holds.append("rate" if abs(rate) >= abs(mix) else "mix")
        for item in parts:
            said += decomposition_statements(item)
        for item in through:
            said += interaction_statements(item)
        said.append(_hypothesis(kind, chosen, parts))
    statements = [
        *first,
        *said,
        *missing_statements(whole),
        *_follow_ups(arguments, holds, values, chosen if parts else None),
        *advice("recommendation", arguments.get("recommendations") or (), holds, values, _steps(parts)),
        definition_statement(whole),
    ]
    return Report(status="complete", statements=statements)


def _withheld(arguments: Mapping[str, Any], whole: Evidence, first: list[Statement]) -> Report:
    values = completeness_values(whole)
    holds = ["always", "withheld"]
    follow = "Find out what became of the {before_missing} and {after_missing} {population} whose outcome is missing."
    statements = [
        *first,
        withheld_statement(whole),
        *missing_statements(whole),
        say("follow_up", None, follow, values),
        *advice("follow_up", arguments.get("follow_ups") or (), holds, values, ()),
        *advice("recommendation", arguments.get("recommendations") or (), holds, values, ()),
        definition_statement(whole),
    ]
    reason = whole.get("/reason") or "an attribution was withheld"
    return Report(status="withheld", reason=str(reason), statements=statements, choices=choices(whole))


def _hypothesis(kind: str, chosen: Evidence, parts: Sequence[Evidence]) -> Statement:
    """What the change as a whole looks like. A hypothesis: nothing here shows a cause."""
    values = decomposition_values(chosen)
    if kind == "concentrated":
        template = (
            "The change is {spread}: {top} accounts for {contribution} of {change} across {plural}, far more than its "
            "share of the rows."
        )
    elif kind == "broad":
        template = "The change is {spread}: every {dimension} {direction} ({moved} of {comparable})"
        template, values = _rate_against_mix(template, values, chosen, parts)
    else:
        template = "The change is {spread}: {moved} of {comparable} {plural} moved with it"
        template, values = _rate_against_mix(template, values, chosen, parts)
    return say("hypothesis", "association", template, values, chosen.query())


def _rate_against_mix(
    template: str, values: Values, chosen: Evidence, parts: Sequence[Evidence]
) -> tuple[str, Values]:
    """Adds what the broad dimension with the most segments says about rate and mix."""
    alike = [item for item in parts if item.get("/spread/kind") == chosen.get("/spread/kind")]
    widest = max(alike, key=lambda item: int(item.get("/spread/comparable")))
    if widest.get("/rate_effect") is None:
        return template + ".", values
    unit = widest.change_unit()
    added = {
        "plural": widest.at("/dimension_plural"),
        "rate": widest.at("/rate_effect", unit),
        "mix": widest.at("/mix_effect", unit),
    }
    sentence = ", and across {plural} the rate effect of {rate} stands against a mix effect of {mix}."
    return template + sentence, values | added


def _follow_ups(
    arguments: Mapping[str, Any], holds: list[str], values: Values, chosen: Evidence | None
) -> list[Statement]:
    found = []
    if chosen is not None and chosen.get("/top/not_separable_from"):
        text = "With the missing {observed} known, {leading} might be told apart."
        found.append(say("follow_up", None, text, values))
    if chosen is not None:
        text = "Look for what changed between {baseline} and {current}; the numbers above do not show why."
        found.append(say("follow_up", None, text, values))
    associated = [] if chosen is None else [chosen.step]
    return found + advice("follow_up", arguments.get("follow_ups") or (), holds, values, associated)


def _steps(parts: Sequence[Evidence]) -> list[str]:
    return [item.step for item in parts]
