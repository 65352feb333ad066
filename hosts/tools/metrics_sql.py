"""The SQL of the metric tools, written from the semantics. Nothing of a request enters it but quoted literals."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from typing import Any

from duly.protocol.plan.dimension import Dimension
from duly.protocol.plan.predicate import Predicate
from duly.protocol.plan.semantics import ColumnsTime, DateTime, Metric, NamedMonthTime, Semantics
from duly.protocol.wire.errors import ToolError

from .duckdb_source import literal, quoted

Period = Mapping[str, Any]
Filter = Mapping[str, str]


def condition(predicate: Predicate) -> str:
    """One typed predicate as SQL."""
    column = _own(predicate.column)
    if predicate.op == "not_null":
        return f"{column} IS NOT NULL"
    if predicate.op == "is_null":
        return f"{column} IS NULL"
    if isinstance(predicate.value, tuple):
        return f"{column} IN ({', '.join(literal(value) for value in predicate.value)})"
    if predicate.value is None:
        raise ToolError("tool.bad_semantics", f"The operator {predicate.op} lacks its value.")
    return f"{column} {predicate.op} {literal(predicate.value)}"


def period_condition(semantics: Semantics, metric: Metric, period: Period | None) -> str | None:
    """The rows of one month. A period without a year is refused where the source has years."""
    if period is None:
        return None
    time = semantics.sources[metric.source].time
    if time is None:
        raise ToolError("tool.no_time", f"The source {metric.source} has no time.")
    month = int(period["month"])
    if isinstance(time, NamedMonthTime):
        if period.get("year") is not None:
            raise ToolError(
                "tool.period_has_year", f"The source {metric.source} knows months without a year."
            )
        names = [name for name, number in time.names.items() if number == month]
        return f"{_own(time.column)} IN ({', '.join(map(literal, names))})" if names else "FALSE"
    if period.get("year") is None:
        raise ToolError("tool.period_needs_year", "The month lacks its year.", hint="Name the year.")
    year = int(period["year"])
    if isinstance(time, ColumnsTime):
        return f"{_own(time.year)} = {year} AND {_own(time.month)} = {month}"
    first = f"DATE '{year:04d}-{month:02d}-01'"
    after = f"DATE '{year + month // 12:04d}-{month % 12 + 1:02d}-01'"
    return f"{_own(time.column)} >= {first} AND {_own(time.column)} < {after}"


def day_expression(semantics: Semantics, metric: Metric) -> str | None:
    """The day of a row as a DATE; ``None`` where the source has no days."""
    time = semantics.sources[metric.source].time
    if isinstance(time, DateTime):
        return f"CAST({_own(time.column)} AS DATE)"
    if isinstance(time, ColumnsTime) and time.day is not None:
        return f"make_date({_own(time.year)}, {_own(time.month)}, {_own(time.day)})"
    return None


def tally(
    semantics: Semantics,
    metric: Metric,
    *,
    period: Period | None,
    filters: Sequence[Filter] = (),
    dimensions: Sequence[str] = (),
    by_day: bool = False,
) -> str:
    """One query: (segment of each dimension…, day?) → population, observed, total.

    ``total`` counts the observed rows that satisfy the numerator, or sums a mean's value over the observed rows.
    """
    groups = [f"{segment(semantics.dimensions[name])} AS {quoted(name)}" for name in dimensions]
    if by_day:
        groups.append(f'{day_expression(semantics, metric)} AS "day"')
    used = [semantics.dimensions[name] for name in (*dimensions, *(item["dimension"] for item in filters))]
    wheres = [condition(part) for part in metric.where]
    period_sql = period_condition(semantics, metric, period)
    if period_sql is not None:
        wheres.append(period_sql)
    wheres += filter_conditions(semantics, filters)
    lines = [
        "SELECT " + ",\n       ".join([*groups, *_counts(metric)]),
        f"FROM {quoted(metric.source)} AS t" + "".join(joins(used)),
    ]
    if wheres:
        lines.append("WHERE " + "\n  AND ".join(wheres))
    if groups:
        lines.append("GROUP BY ALL\nORDER BY ALL")
    return "\n".join(lines)


def _counts(metric: Metric) -> list[str]:
    population = [condition(part) for part in metric.population]
    observed = population + [condition(part) for part in metric.observed_where()]
    counted = observed + [condition(part) for part in metric.numerator]
    total = f"sum({_own(metric.value)})" if metric.value is not None else "count(*)"
    return [
        f"count(*){_only(population)} AS population",
        f"count(*){_only(observed)} AS observed",
        f"{total}{_only(counted)} AS total",
    ]


def _only(conditions: Sequence[str]) -> str:
    return f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""


def filter_conditions(semantics: Semantics, filters: Sequence[Filter]) -> list[str]:
    """One condition a dimension; two values of one dimension mean either."""
    values: dict[str, list[str]] = {}
    for item in filters:
        values.setdefault(item["dimension"], []).append(item["value"])
    return [
        f"{segment(semantics.dimensions[name])} IN ({', '.join(literal(value) for value in chosen)})"
        for name, chosen in values.items()
    ]


def segment(dimension: Dimension) -> str:
    """The segment of a row as a text, never null."""
    unknown = literal(dimension.unknown)
    if dimension.buckets is not None:
        column = _own(dimension.buckets.column)
        whens = [f"WHEN {column} IS NULL THEN {unknown}"]
        for bucket in dimension.buckets.ranges:
            if bucket.below is not None:
                whens.append(f"WHEN {column} < {literal(bucket.below)} THEN {literal(bucket.name)}")
        return f"CASE {' '.join(whens)} ELSE {literal(dimension.buckets.ranges[-1].name)} END"
    if dimension.join is not None:
        return f'coalesce({_join_alias(dimension)}."value", {unknown})'
    return f"coalesce(CAST({_own(str(dimension.column))} AS VARCHAR), {unknown})"


def joins(dimensions: Sequence[Dimension]) -> list[str]:
    """The lookups that the given dimensions need. A key that stands twice over there counts once, with its least value."""
    found: dict[str, str] = {}
    for dimension in dimensions:
        lookup = dimension.join
        if lookup is None:
            continue
        alias = _join_alias(dimension)
        found[alias] = (
            f'\nLEFT JOIN (SELECT CAST({quoted(lookup.key)} AS VARCHAR) AS "key", '
            f'min(CAST({quoted(lookup.column)} AS VARCHAR)) AS "value"\n'
            f"           FROM {quoted(lookup.source)} GROUP BY ALL) AS {alias}\n"
            f'       ON CAST({_own(lookup.local)} AS VARCHAR) = {alias}."key"'
        )
    return list(found.values())


def _join_alias(dimension: Dimension) -> str:
    lookup = dimension.join
    assert lookup is not None
    return quoted(f"{lookup.source}.{lookup.local}.{lookup.key}.{lookup.column}")


def days_in(period: Period) -> int | None:
    """The days of a month; ``None`` where it has no year."""
    return (
        None
        if period.get("year") is None
        else calendar.monthrange(int(period["year"]), int(period["month"]))[1]
    )


def _own(column: str) -> str:
    return f"t.{quoted(column)}"
