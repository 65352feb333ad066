"""``report.comparison``: two segments, over everything and within strata, and a reversal where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.judgement.report import Report, Statement, say
from duly.protocol.wire.limits import REPORT_STRATA_MAX

from .report_advice import advice
from .report_evidence import Evidence, Values, filter_values, only, read


def comparison(arguments: Mapping[str, Any]) -> Report:
    """The report of one ``segments`` output."""
    item = only(read(arguments), "segments")
    values = _values(item)
    holds = ["always", "complete", "reversal" if item.get("/reversal") is not None else "no_reversal"]
    if not item.get("/order_certain"):
        holds.append("order_uncertain")
    statements = [_segment(item, index) for index in (0, 1)]
    statements.append(_order(item, values))
    for number, part in enumerate(item.output["strata"]):
        statements += [
            _stratum(item, number, row) for row in range(min(len(part["rows"]), REPORT_STRATA_MAX))
        ]
    if item.get("/reversal") is not None:
        statements.append(_reversal(item, values))
    if not item.get("/order_certain") and item.get("/difference_low") is not None:
        template = (
            "The outcome of {missing} {population} is missing; with them one way or the other the difference lies "
            "in [{low:2n}, {high:2n}] {unit}, so the order over everything is not certain."
        )
        statements.append(say("missing_evidence", "observation", template, values, item.query()))
    statements.append(
        say(
            "follow_up",
            None,
            "Look for what else differs between {first} and {second} before acting on this.",
            values,
        )
    )
    statements += advice("follow_up", arguments.get("follow_ups") or (), holds, values, [item.step])
    statements += advice("recommendation", arguments.get("recommendations") or (), holds, values, [item.step])
    statements.append(
        say("observation", "observation", "The definition of {metric} is: {definition}.", values)
    )
    return Report(status="complete", statements=statements)


def _values(item: Evidence) -> Values:
    unit, moved = item.unit(), item.change_unit()
    values = {
        "metric": item.at("/label"),
        "definition": item.at("/definition"),
        "period": item.at("/period_text"),
        "dimension": item.at("/dimension_label"),
        "first": item.at("/segments/0/segment"),
        "first_label": item.at("/segments/0/label"),
        "first_value": item.at("/segments/0/value", unit),
        "second": item.at("/segments/1/segment"),
        "second_label": item.at("/segments/1/label"),
        "second_value": item.at("/segments/1/value", unit),
        "ahead": item.at("/ahead"),
        "difference": item.at("/difference", moved),
        "low": item.at("/difference_low", moved),
        "high": item.at("/difference_high", moved),
        "unit": item.at("/change_unit"),
        "missing": item.at("/missing", "rows"),
        "population": item.at("/nouns/population"),
    }
    if item.get("/reversal") is not None:
        values["stratum"] = item.at("/reversal/dimension_label")
        values["overall"] = item.at("/reversal/overall")
        values["within"] = item.at("/reversal/within")
    return values


def _segment(item: Evidence, index: int) -> Statement:
    at = f"/segments/{index}"
    values = {
        "metric": item.at("/label"),
        "period": item.at("/period_text"),
        "dimension": item.at("/dimension_label"),
        "segment": item.at(f"{at}/segment"),
        "label": item.at(f"{at}/label"),
        "value": item.at(f"{at}/value", item.unit()),
        "counted": item.at(f"{at}/numerator", "rows"),
        "observed_rows": item.at(f"{at}/observed", "rows"),
        "observed": item.at("/nouns/observed"),
    }
    share = (
        " ({counted} of {observed_rows} {observed})" if item.get("/metric_kind") in ("rate", "share") else ""
    )
    named = "" if item.get(f"{at}/label") == item.get(f"{at}/segment") else " ({label})"
    template, filters = filter_values(
        item,
        f"The {{metric}} of {{dimension}} {{segment}}{named} over {{period}}{{where}} is {{value}}{share}.",
    )
    return say("observation", "observation", template, values | filters, item.query())


def _order(item: Evidence, values: Values) -> Statement:
    if item.get("/ahead") is None:
        return say(
            "observation",
            "association",
            "{first} and {second} are level over {period}.",
            values,
            item.query(),
        )
    template = "Over {period}, {ahead} is ahead ({first} minus {second}: {difference})."
    return say("observation", "association", template, values, item.query())


def _stratum(item: Evidence, number: int, row: int) -> Statement:
    part, at = f"/strata/{number}", f"/strata/{number}/rows/{row}"
    unit = item.unit()
    values = {
        "dimension": item.at(f"{part}/dimension_label"),
        "stratum": item.at(f"{at}/stratum"),
        "first": item.at(f"{at}/segments/0/segment"),
        "first_value": item.at(f"{at}/segments/0/value", unit),
        "second": item.at(f"{at}/segments/1/segment"),
        "second_value": item.at(f"{at}/segments/1/value", unit),
        "ahead": item.at(f"{at}/ahead"),
    }
    template = "In the {dimension} {stratum}, {first} has {first_value} and {second} {second_value}"
    template += "; {ahead} is ahead." if item.get(f"{at}/ahead") is not None else "."
    return say("observation", "association", template, values, item.query())


def _reversal(item: Evidence, values: Values) -> Statement:
    template = (
        "The order is a reversal (Simpson's paradox): {overall} is ahead over everything, {within} in every {stratum}. "
        "The two differ in how their rows fall over the {stratum}, and that goes with the order over everything."
    )
    return say("hypothesis", "association", template, values, item.query())
