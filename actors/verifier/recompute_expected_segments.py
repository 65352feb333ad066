"""What the output of ``metrics.segments`` must be, from tallies alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.protocol.plan.semantics import Metric, period_text

from . import recompute_arithmetic as exact
from .recompute_cells import Counted, Missing, Recount
from .recompute_expected import Arguments, Expected, cells_of, counts_of, head, metric_of


def segments(recount: Recount, arguments: Arguments) -> Expected:
    """Both segments over everything and by stratum; a reversal is the opposite order in every comparable stratum."""
    metric = metric_of(recount, arguments)
    dimension, period = str(arguments["dimension"]), arguments.get("period")
    pair = [str(name) for name in arguments["segments"]]
    found = cells_of(recount, arguments, period, [dimension])
    both = [found.get((name,), Counted()) for name in pair]
    if metric.kind != "count" and not all(counted.observed for counted in both):
        raise Missing("a segment has no observed rows")
    named = recount.labels(dimension, pair)
    overall = _compared(metric, pair, both)
    plain = None if period is None else {"year": period.get("year"), "month": period["month"]}
    strata = [
        _stratified(recount, arguments, pair, str(name), overall) for name in arguments.get("strata") or ()
    ]
    return {
        **head(recount, arguments, "segments"),
        "period": plain,
        "period_text": period_text(plain),
        "dimension": dimension,
        "dimension_label": recount.semantics.dimensions[dimension].label,
        "segments": [
            {"segment": name, "label": named.get(name, name), **counts_of(metric, counted)}
            for name, counted in zip(pair, both, strict=True)
        ],
        "ahead": overall["ahead"],
        "ahead_label": named.get(overall["ahead"], overall["ahead"]),
        "difference": overall["difference"],
        **_bounds(metric, both),
        "missing": sum(counted.missing for counted in both),
        "strata": strata,
        "reversal": _reversal(strata, overall, named),
    }


def _compared(metric: Metric, pair: Sequence[str], both: Sequence[Counted]) -> Expected:
    by = exact.difference(metric, both[1], both[0])
    return {"difference": by, "ahead": None if not by else pair[0] if by > 0 else pair[1]}


def _bounds(metric: Metric, both: Sequence[Counted]) -> Expected:
    found = exact.bounds(metric, both[1], both[0])
    return {
        "difference_low": None if found is None else found[0],
        "difference_high": None if found is None else found[1],
        "order_certain": found is not None and (found[0] > 0 or found[1] < 0),
    }


def _stratified(
    recount: Recount, arguments: Arguments, pair: Sequence[str], other: str, overall: Expected
) -> Expected:
    metric = metric_of(recount, arguments)
    found = cells_of(recount, arguments, arguments.get("period"), [str(arguments["dimension"]), other])
    part = recount.semantics.dimensions[other]
    order = [bucket.name for bucket in part.buckets.ranges] if part.buckets is not None else []
    names = sorted({key[1] for key in found if key[0] in pair})
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    rows = []
    for name in names:
        both = [found.get((segment, name), Counted()) for segment in pair]
        shown = [
            {"segment": segment, **counts_of(metric, counted)}
            for segment, counted in zip(pair, both, strict=True)
        ]
        rows.append({"stratum": name, "segments": shown, **_compared(metric, pair, both)})
    alike = [row for row in rows if row["difference"] is not None]
    leaders = {row["ahead"] for row in alike}
    everywhere = leaders.pop() if len(leaders) == 1 else None
    turned = len(alike) > 1 and None not in (everywhere, overall["ahead"]) and everywhere != overall["ahead"]
    return {
        "dimension": other,
        "dimension_label": part.label,
        "rows": rows,
        "comparable": len(alike),
        "ahead_everywhere": everywhere,
        "reversal": turned,
    }


def _reversal(
    strata: Sequence[Expected], overall: Expected, named: Mapping[str, str]
) -> dict[str, Any] | None:
    first = next((part for part in strata if part["reversal"]), None)
    if first is None:
        return None
    return {
        "dimension": first["dimension"],
        "dimension_label": first["dimension_label"],
        "overall": overall["ahead"],
        "within": first["ahead_everywhere"],
        "within_label": named.get(first["ahead_everywhere"], first["ahead_everywhere"]),
    }
