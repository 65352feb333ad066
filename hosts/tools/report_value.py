"""``report.value`` and ``report.change``: what one number is, or what two are, with definition and query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.protocol.judgement.report import Report, Statement, say

from .report_evidence import Evidence, filter_values, only, read, side_values


def value(arguments: Mapping[str, Any]) -> Report:
    """A value, its definition, and what is missing from it."""
    return value_report(read(arguments))


def own_report(step: str, output: Mapping[str, Any]) -> Report:
    """The report that a value carries itself; its sources name the step of the value."""
    return value_report([Evidence(step, output)])


def value_report(evidence: Sequence[Evidence]) -> Report:
    """The report of one ``metrics.value`` output."""
    item = only(evidence, "value")
    values = {
        "label": item.at("/label"),
        "period": item.at("/period_text"),
        "value": item.at("/value", item.unit()),
        "counted": item.at("/numerator", "rows"),
        "observed_rows": item.at("/observed", "rows"),
        "missing": item.at("/missing", "rows"),
        "all": item.at("/population", "rows"),
        "observed": item.at("/nouns/observed"),
        "population": item.at("/nouns/population"),
        "definition": item.at("/definition"),
    }
    counted = item.get("/metric_kind") in ("rate", "share")
    share = " ({counted} of {observed_rows} {observed})" if counted else ""
    template, filters = filter_values(
        item, f"The value of {{label}} in {{period}}{{where}} is {{value}}{share}."
    )
    statements = [
        say("observation", "observation", template, values | filters, item.query()),
        say("observation", "observation", "The definition of {label} is: {definition}.", values),
    ]
    if item.get("/missing"):
        statements.append(
            say(
                "missing_evidence",
                "observation",
                "The outcome of {missing} of {all} {population} in {period} is missing.",
                values,
                item.query(),
            )
        )
    return Report(status="complete", statements=statements)


def change(arguments: Mapping[str, Any]) -> Report:
    """Two values and their difference, from a ``change`` or a ``completeness`` output."""
    evidence = read(arguments)
    kind = "completeness" if any(item.kind == "completeness" for item in evidence) else "change"
    item = only(evidence, kind)
    return Report(status="complete", statements=[change_statement(item), definition_statement(item)])


def change_statement(item: Evidence) -> Statement:
    """The sentence about a change with its counts."""
    ratio = item.get("/metric_kind") in ("rate", "share")
    before = " ({before_counted} of {before_observed} {observed})" if ratio else ""
    after = " ({after_counted} of {after_observed} {observed})" if ratio else ""
    template, filters = filter_values(
        item,
        f"The {{label}}{{where}} {{direction}} from {{before}}{before} in {{baseline}} to {{after}}{after} in "
        "{current}, which is {change}.",
    )
    return say("observation", "observation", template, side_values(item) | filters, item.query())


def definition_statement(item: Evidence) -> Statement:
    values = {"label": item.at("/label"), "definition": item.at("/definition")}
    return say("observation", "observation", "The definition of {label} is: {definition}.", values)
