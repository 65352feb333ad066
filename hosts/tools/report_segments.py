"""What a report says about one decomposition: leading segments, separability, rate against mix, how broad it is."""

from __future__ import annotations

from collections.abc import Sequence

from duly.protocol.judgement.report import Statement, say
from duly.protocol.wire.limits import REPORT_SEGMENTS_MAX

from .report_evidence import Evidence, Values


def decomposition_values(item: Evidence) -> Values:
    """The values of an attributed decomposition that templates may name."""
    unit = item.change_unit()
    values = {
        "dimension": item.at("/dimension_label"),
        "plural": item.at("/dimension_plural"),
        "change": item.at("/change", unit),
        "direction": item.at("/direction"),
        "top": item.at("/top/segment"),
        "top_label": item.at("/top/label"),
        "contribution": item.at("/top/contribution", unit),
        "note": item.at("/top/note"),
        "same": item.at("/top/not_separable_from"),
        "leading": item.at("/top/leading"),
        "apart": item.at("/top/separable_from"),
        "spread": item.at("/spread/kind"),
        "moved": item.at("/spread/moved", "rows"),
        "comparable": item.at("/spread/comparable", "rows"),
    }
    if item.get("/rate_effect") is not None:
        values["rate"] = item.at("/rate_effect", unit)
        values["mix"] = item.at("/mix_effect", unit)
    return values


def decomposition_statements(item: Evidence) -> list[Statement]:
    """The statements about one dimension."""
    values = decomposition_values(item)
    found = [spread_statement(item)]
    for index in range(min(len(item.output["segments"]), REPORT_SEGMENTS_MAX)):
        found.append(_segment_statement(item, index))
    found += _separability(item, values)
    if "rate" in values:
        template = "Across {plural} the rate effect of {rate} stands against a mix effect of {mix}."
        found.append(say("observation", "association", template, values, item.query()))
    return found


def spread_statement(item: Evidence) -> Statement:
    """How many segments moved with the change."""
    every = item.get("/spread/moved") == item.get("/spread/comparable")
    template = (
        "Every {dimension} {direction} ({moved} of {comparable})."
        if every
        else "{moved} of {comparable} {plural} {direction}."
    )
    return say("observation", "observation", template, decomposition_values(item), item.query())


def _segment_statement(item: Evidence, index: int) -> Statement:
    unit, at = item.change_unit(), f"/segments/{index}"
    values = {
        "plural": item.at("/dimension_plural"),
        "segment": item.at(f"{at}/segment"),
        "label": item.at(f"{at}/label"),
        "contribution": item.at(f"{at}/contribution", unit),
        "low": item.at(f"{at}/low", unit),
        "high": item.at(f"{at}/high", unit),
    }
    named = "" if item.get(f"{at}/label") == item.get(f"{at}/segment") else " ({label})"
    known = item.get(f"{at}/low") is not None
    interval = ", interval [{low:n}, {high:n}] from its own missing rows" if known else ""
    template = f"Among {{plural}}, {{segment}}{named} accounts for {{contribution}}{interval}."
    return say("observation", "association", template, values, item.query())


def _separability(item: Evidence, values: Values) -> list[Statement]:
    found = []
    apart = item.get("/top/separable_from") is not None
    if item.get("/top/not_separable_from"):
        template = "{top} is not separable from {same}: the intervals overlap"
        template += "; {apart} is separable from {leading}." if apart else "."
        found.append(say("observation", "association", template, values, item.query()))
    elif apart:
        template = "{top} is separable from {apart}, which is next apart from it."
        found.append(say("observation", "association", template, values, item.query()))
    return found


def interaction_statements(item: Evidence) -> list[Statement]:
    """One statement a candidate: its own change through the most telling other dimension."""
    found = []
    unit = item.change_unit()
    for index, candidate in enumerate(item.output["candidates"]):
        if not candidate["within"]:
            continue
        kinds = [part["kind"] for part in candidate["within"]]
        chosen = next((number for number, kind in enumerate(kinds) if kind != "mixed"), 0)
        at, inside = f"/candidates/{index}", f"/candidates/{index}/within/{chosen}"
        values = {
            "segment": item.at(f"{at}/segment"),
            "direction": item.at(f"{at}/direction"),
            "own": item.at(f"{at}/change", unit),
            "plural": item.at(f"{inside}/dimension_plural"),
            "kind": item.at(f"{inside}/kind"),
            "moved": item.at(f"{inside}/moved", "rows"),
            "comparable": item.at(f"{inside}/comparable", "rows"),
        }
        template = "{segment} by itself {direction} ({own}); across its {plural} that is {kind} ({moved} of {comparable})"
        if item.get(f"{inside}/rate_effect") is not None:
            values["rate"] = item.at(f"{inside}/rate_effect", unit)
            values["mix"] = item.at(f"{inside}/mix_effect", unit)
            template += ", a rate effect of {rate} against a mix effect of {mix}"
        found.append(say("observation", "association", template + ".", values, item.query()))
    return found


def deciding(items: Sequence[Evidence]) -> tuple[str, Evidence]:
    """(kind, decomposition) of the whole change: concentrated where any dimension is, else broad where any is.

    The first dimension of the deciding kind in the order of the evidence speaks for it.
    """
    for kind in ("concentrated", "broad", "mixed"):
        for item in items:
            if item.get("/spread/kind") == kind:
                return kind, item
    return "still", items[0]
