"""``metrics.completeness`` and ``metrics.change``: two months of one metric, and how far their difference can be trusted."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from duly.protocol.judgement.attribution import Bounds, Cell, change_bounds, summed
from duly.protocol.plan.semantics import Metric, Semantics
from duly.protocol.wire.limits import POOR_DAYS_MAX

from . import metrics_sql as sql
from .duckdb_source import Database, quoted
from .metrics_cells import (
    Arguments,
    DataContext,
    Output,
    Question,
    amount,
    cells,
    direction,
    head,
    measure,
    not_empty,
    number,
    period_data,
    question,
)

Period = Mapping[str, Any]
Watermark = tuple[datetime.date, datetime.date] | None


def change(context: DataContext, arguments: Arguments) -> Output:
    """Both values and their difference."""
    asked = question(context.semantics, arguments)
    with context.open(asked.metric, asked.filtered) as database:
        sides = {
            name: not_empty(
                asked, arguments[name], cells(database, context.semantics, asked, arguments[name])[()]
            )
            for name in ("baseline", "current")
        }
        return {
            **head("change", asked),
            **{name: period_data(asked.metric, arguments[name], cell) for name, cell in sides.items()},
            **difference(asked.metric, sides["baseline"], sides["current"]),
            "query": "\n;\n".join(database.queries),
        }


def difference(metric: Metric, baseline: Cell, current: Cell) -> Output:
    """``change`` in the unit of a difference, and its verb."""
    how = measure(metric)
    before, after = how.value(baseline), how.value(current)
    moved = None if before is None or after is None else after - before
    return {"change": amount(metric, moved), "direction": direction(moved)}


def completeness(context: DataContext, arguments: Arguments) -> Output:
    """What is missing in either month, how far the data reaches, and the change when all missing rows fall either way.

    ``sign_certain``: both bounds lie on one side of zero and the data covers both months. ``complete``: nothing is
    missing at all. Poor days are those below the metric's ``observed_share_min``, the poorest first.
    """
    semantics = context.semantics
    asked = question(semantics, arguments)
    with context.open(asked.metric, asked.filtered) as database:
        reach = watermark(database, semantics, asked)
        sides: dict[str, Output] = {}
        totals: dict[str, Cell] = {}
        for name in ("baseline", "current"):
            period = arguments[name]
            sides[name], totals[name] = _period(database, semantics, asked, period, reach)
        bounds = change_bounds(measure(asked.metric), totals["baseline"], totals["current"])
        covered = all(sides[name]["covered"] is not False for name in sides)
        missing = totals["baseline"].missing + totals["current"].missing
        return {
            **head("completeness", asked),
            **sides,
            **difference(asked.metric, totals["baseline"], totals["current"]),
            **bounds_data(asked.metric, bounds, covered),
            "complete": missing == 0 and covered,
            "watermark": None if reach is None else {"first_day": str(reach[0]), "last_day": str(reach[1])},
            "query": "\n;\n".join(database.queries),
        }


def bounds_data(metric: Metric, bounds: Bounds, covered: bool) -> Output:
    """``change_low``, ``change_high``, ``sign_certain`` and the reason where it is not."""
    certain = bounds.sign_certain and covered
    if certain:
        reason = None
    elif not covered:
        reason = "the data does not cover both periods to their end"
    elif bounds.low is None:
        reason = "rows are missing and nothing bounds what they could have been"
    elif bounds.low == 0 == bounds.high:
        reason = "the value did not change"
    else:
        reason = "with all missing rows one way or the other the change could be a fall or a rise"
    return {
        "change_low": amount(metric, bounds.low),
        "change_high": amount(metric, bounds.high),
        "sign_certain": certain,
        "certainty": "certain" if certain else "not certain",
        "reason": reason,
    }


def sign(
    database: Database, semantics: Semantics, asked: Question, arguments: Arguments, totals: tuple[Cell, Cell]
) -> Output:
    """``bounds_data`` for a tool that already has the totals of both periods."""
    reach = watermark(database, semantics, asked)
    covered = all(_covered(arguments[name], reach) is not False for name in ("baseline", "current"))
    return bounds_data(asked.metric, change_bounds(measure(asked.metric), *totals), covered)


def watermark(database: Database, semantics: Semantics, asked: Question) -> Watermark:
    """First and last day for which the source holds rows of the metric, filters aside; ``None`` without days."""
    day = sql.day_expression(semantics, asked.metric)
    if day is None:
        return None
    wheres = [sql.condition(part) for part in (*asked.metric.where, *asked.metric.population)]
    where = f"\nWHERE {' AND '.join(wheres)}" if wheres else ""
    query = f"SELECT min({day}), max({day})\nFROM {quoted(asked.metric.source)} AS t{where}"
    row = database.rows(query, asked.metric.source)[0]
    return None if row[0] is None else (row[0], row[1])


def _period(
    database: Database, semantics: Semantics, asked: Question, period: Period, reach: Watermark
) -> tuple[Output, Cell]:
    by_day = sql.day_expression(semantics, asked.metric) is not None
    query = sql.tally(semantics, asked.metric, period=period, filters=asked.filters, by_day=by_day)
    rows = database.rows(query, asked.metric.source)
    cells_found = [Cell(row[-3], row[-2], number(row[-1])) for row in rows]
    total = summed(cells_found)
    # A row without a day counts for its month; it belongs to no day.
    days = {
        row[0]: cell for row, cell in zip(rows, cells_found, strict=True) if by_day and row[0] is not None
    }
    poor = _poor_days(asked, days)
    shown = {
        **period_data(asked.metric, period, not_empty(asked, period, total)),
        "first_day": str(min(days)) if days else None,
        "last_day": str(max(days)) if days else None,
        "days_with_data": len(days) if by_day else None,
        "days_in_period": sql.days_in(period) if by_day else None,
        "covered": _covered(period, reach),
        "poor_days": poor[:POOR_DAYS_MAX],
        "poor_days_count": len(poor),
    }
    return shown, total


def _poor_days(asked: Question, days: Mapping[datetime.date, Cell]) -> list[Output]:
    rule = asked.metric.completeness
    if rule is None:
        return []
    # As written: 0.9 means nine tenths, not the float next to it.
    least = Fraction(str(rule.observed_share_min))
    found = [(day, cell) for day, cell in days.items() if cell.observed < least * cell.population]
    found.sort(key=lambda item: (-item[1].missing, item[0]))
    return [{"day": str(day), "missing": cell.missing, "population": cell.population} for day, cell in found]


def _covered(period: Period, reach: Watermark) -> bool | None:
    """Whether the data reaches over the whole month; ``None`` where days cannot be told."""
    length = sql.days_in(period)
    if reach is None or length is None:
        return None
    year, month = int(period["year"]), int(period["month"])
    return reach[0] <= datetime.date(year, month, 1) and datetime.date(year, month, length) <= reach[1]
