"""What the output of a metric tool must be, from tallies alone. Exact numbers stand as fractions; queries are left out."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from duly.protocol.plan.semantics import Metric, period_text
from duly.protocol.wire.limits import POOR_DAYS_MAX

from . import recompute_arithmetic as exact
from .recompute_cells import Counted, Recount, added
from .recompute_needs import month_of

Arguments = Mapping[str, Any]
Expected = dict[str, Any]
SIDES = ("baseline", "current")


def value(recount: Recount, arguments: Arguments) -> Expected:
    metric = metric_of(recount, arguments)
    period = arguments.get("period")
    counted = whole_of(recount, arguments, period)
    return {
        **head(recount, arguments, "value"),
        **period_of(metric, period, counted),
        "denominator": None if metric.kind == "count" else counted.observed,
    }


def change(recount: Recount, arguments: Arguments) -> Expected:
    metric = metric_of(recount, arguments)
    counts = [whole_of(recount, arguments, arguments[side]) for side in SIDES]
    return {
        **head(recount, arguments, "change"),
        **sides_of(metric, arguments, counts),
        **moved(metric, counts[0], counts[1]),
    }


def completeness(recount: Recount, arguments: Arguments) -> Expected:
    metric = metric_of(recount, arguments)
    name, filters = str(arguments["metric"]), arguments.get("filters") or ()
    reach = watermark(recount, name)
    counts = [whole_of(recount, arguments, arguments[side]) for side in SIDES]
    shown = sides_of(metric, arguments, counts)
    for side in SIDES:
        by_day = recount.days(name, month_of(arguments[side]), filters) if _has_days(recount, name) else None
        shown[side] |= _days(metric, arguments[side], by_day, reach)
    certain = judged(recount, arguments, counts)
    covered = all(shown[side]["covered"] is not False for side in SIDES)
    return {
        **head(recount, arguments, "completeness"),
        **shown,
        **moved(metric, counts[0], counts[1]),
        **certain,
        "complete": covered and not any(counted.missing for counted in counts),
        "watermark": None if reach is None else {"first_day": str(reach[0]), "last_day": str(reach[1])},
    }


def head(recount: Recount, arguments: Arguments, kind: str) -> Expected:
    metric = metric_of(recount, arguments)
    return {
        "kind": kind,
        "metric": str(arguments["metric"]),
        "label": metric.label,
        "metric_kind": metric.kind,
        "better": metric.direction,
        "unit": metric.unit,
        "change_unit": "points" if metric.unit == "percent" else metric.unit,
        "definition": metric.definition_text(),
        "filters": [
            {"dimension": item["dimension"], "value": item["value"]}
            for item in arguments.get("filters") or ()
        ],
        "nouns": {
            "population": metric.nouns.population,
            "observed": metric.nouns.observed,
            "numerator": metric.nouns.numerator,
        },
    }


def counts_of(metric: Metric, counted: Counted) -> Expected:
    return {
        "population": counted.population,
        "observed": counted.observed,
        "missing": counted.missing,
        "numerator": counted.total,
        "value": exact.value(metric, counted),
    }


def period_of(metric: Metric, period: Arguments | None, counted: Counted) -> Expected:
    plain = None if period is None else {"year": period.get("year"), "month": period["month"]}
    return {"period": plain, "period_text": period_text(plain), **counts_of(metric, counted)}


def moved(metric: Metric, before: Counted, after: Counted) -> Expected:
    """The change and its verb."""
    by = exact.difference(metric, before, after)
    verb = "did not change" if not by else "fell" if by < 0 else "rose"
    return {"change": by, "direction": verb}


def judged(recount: Recount, arguments: Arguments, counts: Sequence[Counted]) -> Expected:
    """Bounds, whether the sign is certain, and the reason where it is not."""
    metric = metric_of(recount, arguments)
    found = exact.bounds(metric, counts[0], counts[1])
    reach = watermark(recount, str(arguments["metric"]))
    covered = all(_covers(reach, arguments[side]) is not False for side in SIDES)
    one_sided = found is not None and (found[0] > 0 or found[1] < 0)
    reason = None
    if not covered:
        reason = "the data does not cover both periods to their end"
    elif found is None:
        reason = "rows are missing and nothing bounds what they could have been"
    elif found[0] == 0 == found[1]:
        reason = "the value did not change"
    elif not one_sided:
        reason = "with all missing rows one way or the other the change could be a fall or a rise"
    return {
        "change_low": None if found is None else found[0],
        "change_high": None if found is None else found[1],
        "sign_certain": covered and one_sided,
        "certainty": "certain" if covered and one_sided else "not certain",
        "reason": reason,
    }


def watermark(recount: Recount, metric: str) -> tuple[datetime.date, datetime.date] | None:
    """First and last day on which the source has rows of the metric's population."""
    if not _has_days(recount, metric):
        return None
    days = [day for day, counted in recount.days(metric, None, ()).items() if counted.population]
    return (min(days), max(days)) if days else None


def _days(
    metric: Metric,
    period: Arguments,
    by_day: Mapping[datetime.date, Counted] | None,
    reach: tuple[datetime.date, datetime.date] | None,
) -> Expected:
    found: list[Expected] = []
    if by_day is not None and metric.completeness is not None:
        least = Fraction(str(metric.completeness.observed_share_min))
        poor = [(day, one) for day, one in by_day.items() if one.observed < least * one.population]
        poor.sort(key=lambda item: (-item[1].missing, item[0]))
        found = [{"day": str(day), "missing": one.missing, "population": one.population} for day, one in poor]
    length = _length(period)
    return {
        "first_day": str(min(by_day)) if by_day else None,
        "last_day": str(max(by_day)) if by_day else None,
        "days_with_data": None if by_day is None else len(by_day),
        "days_in_period": None if by_day is None else length,
        "covered": _covers(reach, period),
        "poor_days": found[:POOR_DAYS_MAX],
        "poor_days_count": len(found),
    }


def _covers(reach: tuple[datetime.date, datetime.date] | None, period: Arguments) -> bool | None:
    length = _length(period)
    if reach is None or length is None:
        return None
    year, month = int(period["year"]), int(period["month"])
    return reach[0] <= datetime.date(year, month, 1) and reach[1] >= datetime.date(year, month, length)


def _length(period: Arguments) -> int | None:
    return (
        None
        if period.get("year") is None
        else calendar.monthrange(int(period["year"]), int(period["month"]))[1]
    )


def _has_days(recount: Recount, metric: str) -> bool:
    return recount.semantics.sources[recount.semantics.metrics[metric].source].has_days()


def sides_of(metric: Metric, arguments: Arguments, counts: Sequence[Counted]) -> Expected:
    return {
        side: period_of(metric, arguments[side], counted) for side, counted in zip(SIDES, counts, strict=True)
    }


def metric_of(recount: Recount, arguments: Arguments) -> Metric:
    return recount.semantics.metrics[str(arguments["metric"])]


def whole_of(recount: Recount, arguments: Arguments, period: Arguments | None) -> Counted:
    return added(list(cells_of(recount, arguments, period, ()).values()))


def cells_of(
    recount: Recount, arguments: Arguments, period: Arguments | None, dimensions: Sequence[str]
) -> dict[tuple[str, ...], Counted]:
    month = None if period is None else month_of(period)
    return recount.cells(str(arguments["metric"]), month, arguments.get("filters") or (), dimensions)
