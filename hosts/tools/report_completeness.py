"""What a report says about the trust in a change: its bounds, what is missing, how far the data reaches."""

from __future__ import annotations

from duly.protocol.judgement.report import Choice, Statement, choose, say
from duly.protocol.wire.limits import REPORT_DAYS_MAX

from .report_evidence import Evidence, Values, side_values


def completeness_values(item: Evidence) -> Values:
    """The values of a completeness output that templates may name."""
    unit = item.change_unit()
    values = side_values(item) | {
        "low": item.at("/change_low", unit),
        "high": item.at("/change_high", unit),
        "certainty": item.at("/certainty"),
        "reason": item.at("/reason"),
        "unit": item.at("/change_unit"),
    }
    if item.get("/watermark") is not None:
        values["first_day"] = item.at("/watermark/first_day", "date")
        values["last_day"] = item.at("/watermark/last_day", "date")
    return values


def bounds_statement(item: Evidence) -> Statement:
    """How far the change could be off, and whether its sign is certain."""
    values = completeness_values(item)
    if item.get("/change_low") is None:
        template = (
            "Outcomes are missing for {before_missing} and {after_missing} {population}, and nothing bounds what they "
            "were; the sign of the change is {certainty}."
        )
    elif not item.get("/baseline/missing") and not item.get("/current/missing"):
        template = (
            "No outcome is missing in {baseline} or in {current}; the sign of the change is {certainty}."
        )
    else:
        template = (
            "With all missing {observed} one way or the other the change lies in [{low:2n}, {high:2n}] {unit}; "
            "its sign is {certainty}."
        )
    return say("observation", "observation", template, values, item.query())


def reach_statements(item: Evidence) -> list[Statement]:
    """How far the data reaches, where days can be told."""
    values = completeness_values(item)
    if "last_day" not in values:
        return []
    found = [
        say(
            "observation",
            "observation",
            "The data reaches from {first_day} to {last_day}.",
            values,
        )
    ]
    for side in ("baseline", "current"):
        if item.get(f"/{side}/covered") is False:
            template = f"The data does not reach over the whole of {{{side}}}: it ends on {{last_day}} and begins on {{first_day}}."
            found.append(say("missing_evidence", "observation", template, values, item.query()))
    return found


def missing_statements(item: Evidence) -> list[Statement]:
    """The missing rows of each month, and each day that misses much."""
    found = []
    values = completeness_values(item)
    for side, prefix in (("baseline", "before"), ("current", "after")):
        if item.get(f"/{side}/missing"):
            template = f"The outcome of {{{prefix}_missing}} of {{{prefix}_population}} {{population}} in {{{side}}} is missing."
            found.append(say("missing_evidence", "observation", template, values, item.query()))
        days = item.output[side]["poor_days"]
        for index in range(min(len(days), REPORT_DAYS_MAX)):
            at = f"/{side}/poor_days/{index}"
            day = {
                "day": item.at(f"{at}/day", "date"),
                "missing": item.at(f"{at}/missing", "rows"),
                "all": item.at(f"{at}/population", "rows"),
                "population": values["population"],
            }
            template = "The outcome of {missing} of {all} {population} on {day} is missing."
            found.append(say("missing_evidence", "observation", template, day, item.query()))
    return found


def withheld_statement(item: Evidence) -> Statement:
    return say(
        "missing_evidence",
        "observation",
        "No part of the change is ascribed to any segment: {reason}.",
        completeness_values(item),
        item.query(),
    )


def choices(item: Evidence) -> list[Choice]:
    """What a person can do where nothing may be attributed."""
    values = completeness_values(item)
    found = []
    for side in ("baseline", "current"):
        days = item.output[side]["poor_days"][:REPORT_DAYS_MAX]
        names = {
            f"day{index}": item.at(f"/{side}/poor_days/{index}/day", "date") for index in range(len(days))
        }
        if names:
            listed = " and ".join(f"{{{name}}}" for name in names)
            template = f"Supply the missing outcomes of {listed}, then ask again (duly run --from RUN)."
            found.append(choose(template, values | names))
    if not found and (item.get("/baseline/missing") or item.get("/current/missing")):
        template = "Supply the {before_missing} and {after_missing} missing outcomes, then ask again (duly run --from RUN)."
        found.append(choose(template, values))
    if any(item.get(f"/{side}/covered") is False for side in ("baseline", "current")):
        found.append(
            choose("Ask again when the data reaches over the whole of {baseline} and {current}.", values)
        )
    found.append(
        choose(
            "Compare {current} with another month, or {baseline} with another, where less is missing.", values
        )
    )
    found.append(choose("Take the change and its bounds as they are, without an attribution.", values))
    return found
