"""What the output of a tool that takes a change, or two segments, apart must be, from tallies alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from duly.protocol.plan.semantics import Metric
from duly.protocol.wire.limits import CANDIDATES_MAX, LEADING_SEGMENTS_MAX

from . import recompute_arithmetic as exact
from .recompute_arithmetic import Part
from .recompute_cells import Counted, Missing, Recount, added
from .recompute_expected import (
    SIDES,
    Arguments,
    Expected,
    cells_of,
    counts_of,
    head,
    judged,
    metric_of,
    moved,
    sides_of,
)

Sides = tuple[dict[str, Counted], dict[str, Counted]]


def decompose(recount: Recount, arguments: Arguments) -> Expected:
    metric = metric_of(recount, arguments)
    dimension = str(arguments["dimension"])
    part = recount.semantics.dimensions[dimension]
    sides = split(recount, arguments, dimension)
    counts = [added(list(side.values())) for side in sides]
    certain = judged(recount, arguments, counts)
    output = {
        **head(recount, arguments, "decomposition"),
        "dimension": dimension,
        "dimension_label": part.label,
        "dimension_plural": part.plural_label(),
        **sides_of(metric, arguments, counts),
        **moved(metric, counts[0], counts[1]),
        **certain,
    }
    reason = withheld(arguments, certain)
    if reason is not None:
        empty: Expected = {"status": "withheld", "reason": reason, "segments": [], "not_separable": []}
        return output | empty | dict.fromkeys(("rate_effect", "mix_effect", "top", "spread"))
    ranked = exact.parts(metric, *sides)
    named = recount.labels(dimension, [item.segment for item in ranked])
    leaders = ranked[:LEADING_SEGMENTS_MAX]
    return output | {
        "status": "attributed",
        "reason": None,
        "segments": [_segment(metric, item, named) for item in ranked],
        **effects(metric, ranked),
        "not_separable": [
            [one.segment, other.segment]
            for number, one in enumerate(leaders)
            for other in leaders[number + 1 :]
            if one.touches(other)
        ],
        "top": top(ranked, named),
        "spread": spread(metric, ranked),
    }


def withheld(arguments: Arguments, certain: Expected) -> str | None:
    if not certain["sign_certain"]:
        return str(certain["reason"])
    if arguments.get("sign_certain") is False:
        return "an earlier step found the sign of the change uncertain"
    return None


def split(recount: Recount, arguments: Arguments, dimension: str) -> Sides:
    """Segment → counts of both periods. Raises ``Missing`` where a period has nothing to divide by."""
    found = [
        {
            key[0]: counted
            for key, counted in cells_of(recount, arguments, arguments[side], [dimension]).items()
        }
        for side in SIDES
    ]
    if metric_of(recount, arguments).kind != "count" and not all(
        added(list(side.values())).observed for side in found
    ):
        raise Missing("a period has no observed rows")
    return found[0], found[1]


def effects(metric: Metric, ranked: Sequence[Part]) -> Expected:
    """The rate effects and the mix effects of all segments, summed."""
    if metric.kind == "count":
        return {"rate_effect": None, "mix_effect": None}
    return {
        "rate_effect": Fraction(math.fsum(float(item.rate or 0) for item in ranked)),
        "mix_effect": Fraction(math.fsum(float(item.mix or 0) for item in ranked)),
    }


def top(ranked: Sequence[Part], named: Mapping[str, str]) -> Expected:
    first = ranked[0]
    leading = [item for item in ranked if item is first or item.touches(first)]
    same = [item.segment for item in leading[1:]]
    # Whoever is apart from all leading ones is apart from the first: only those few are compared with the rest.
    away = [item for item in ranked if not item.touches(first)]
    reach = _hull(leading)
    apart = [item.segment for item in away if reach is not None and not _meets(item.interval, reach)]
    note = "largest point contribution"
    if same:
        shown = ", ".join(same[:LEADING_SEGMENTS_MAX])
        rest = len(same) - LEADING_SEGMENTS_MAX
        note = f"{note}, not separable from {shown}" + (f" and {rest} more" if rest > 0 else "")
    elif len(ranked) > 1 and len(apart) == len(ranked) - 1:
        note = f"{note}, separable from every other"
    low, high = first.interval or (None, None)
    return {
        "segment": first.segment,
        "label": named.get(first.segment, first.segment),
        "contribution": first.contribution,
        "low": low,
        "high": high,
        "not_separable_from": same,
        "leading": [first.segment, *same],
        "separable_from": apart[0] if apart else None,
        "note": note,
    }


def _hull(leading: Sequence[Part]) -> exact.Range | None:
    """The one interval that the leading ones fill: each of them meets the first."""
    known = [item.interval for item in leading if item.interval is not None]
    if len(known) != len(leading):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _meets(one: exact.Range | None, other: exact.Range) -> bool:
    return one is None or (one[0] <= other[1] and other[0] <= one[1])


def spread(metric: Metric, ranked: Sequence[Part]) -> Expected:
    """``concentrated``: the first segment holds half of the change and twice its share of the rows; ``broad``: all moved."""
    whole = [added([item.before for item in ranked]), added([item.after for item in ranked])]
    by = exact.difference(metric, whole[0], whole[1]) or Fraction(0)
    alike = [
        item for item in ranked if metric.kind == "count" or (item.before.observed and item.after.observed)
    ]
    with_it = [item for item in alike if (exact.difference(metric, item.before, item.after) or 0) * by > 0]
    kind = "mixed"
    if by == 0:
        kind = "still"
    elif len(ranked) > 1 and _seat(ranked[0], whole, by):
        kind = "concentrated"
    elif len(alike) > 1 and len(with_it) == len(alike):
        kind = "broad"
    return {"kind": kind, "moved": len(with_it), "comparable": len(alike)}


def _seat(first: Part, whole: Sequence[Counted], by: Fraction) -> bool:
    own = (first.before.observed, first.after.observed)
    shares = [Fraction(part, all_.observed) for part, all_ in zip(own, whole, strict=True) if all_.observed]
    held = first.contribution / by
    return held >= Fraction(1, 2) and held >= sum(shares, Fraction(0))


def _segment(metric: Metric, item: Part, named: Mapping[str, str]) -> Expected:
    low, high = item.interval or (None, None)
    return {
        "segment": item.segment,
        "label": named.get(item.segment, item.segment),
        "baseline": counts_of(metric, item.before),
        "current": counts_of(metric, item.after),
        "contribution": item.contribution,
        "rate_effect": item.rate,
        "mix_effect": item.mix,
        "low": low,
        "high": high,
    }


def interact(recount: Recount, arguments: Arguments) -> Expected:
    metric = metric_of(recount, arguments)
    dimension = str(arguments["dimension"])
    sides = split(recount, arguments, dimension)
    counts = [added(list(side.values())) for side in sides]
    certain = judged(recount, arguments, counts)
    reason = withheld(arguments, certain)
    ranked = exact.parts(metric, *sides) if reason is None else []
    leading = [item for item in ranked if item is ranked[0] or item.touches(ranked[0])][:CANDIDATES_MAX]
    named = recount.labels(dimension, [item.segment for item in leading])
    others = [str(other) for other in arguments["others"] if other != dimension]
    return {
        **head(recount, arguments, "interaction"),
        "dimension": dimension,
        "dimension_label": recount.semantics.dimensions[dimension].label,
        **sides_of(metric, arguments, counts),
        **moved(metric, counts[0], counts[1]),
        **certain,
        "status": "attributed" if reason is None else "withheld",
        "reason": reason,
        "candidates": [_candidate(recount, arguments, dimension, others, item, named) for item in leading],
    }


def _candidate(
    recount: Recount,
    arguments: Arguments,
    dimension: str,
    others: Sequence[str],
    item: Part,
    named: Mapping[str, str],
) -> Expected:
    metric = metric_of(recount, arguments)
    low, high = item.interval or (None, None)
    within = [_within(recount, arguments, dimension, other, item.segment) for other in others]
    return {
        "segment": item.segment,
        "label": named.get(item.segment, item.segment),
        "contribution": item.contribution,
        "rate_effect": item.rate,
        "mix_effect": item.mix,
        "low": low,
        "high": high,
        **moved(metric, item.before, item.after),
        "within": [part for part in within if part is not None],
    }


def _within(
    recount: Recount, arguments: Arguments, dimension: str, other: str, segment: str
) -> Expected | None:
    metric = metric_of(recount, arguments)
    sides = []
    for side in SIDES:
        found = cells_of(recount, arguments, arguments[side], [dimension, other])
        sides.append({key[1]: counted for key, counted in found.items() if key[0] == segment})
    if metric.kind != "count" and not all(added(list(side.values())).observed for side in sides):
        return None
    ranked = exact.parts(metric, sides[0], sides[1])
    part = recount.semantics.dimensions[other]
    return {
        "dimension": other,
        "dimension_label": part.label,
        "dimension_plural": part.plural_label(),
        **spread(metric, ranked),
        **effects(metric, ranked),
        "first": {"segment": ranked[0].segment, "contribution": ranked[0].contribution},
    }
