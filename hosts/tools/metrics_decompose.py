"""``metrics.decompose``: the exact contribution of every segment of a dimension, or none where the sign is not certain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from duly.protocol.judgement.attribution import (
    Measure,
    Share,
    apart_from,
    inseparable,
    shares,
    spread,
    summed,
)
from duly.protocol.plan.semantics import Metric
from duly.protocol.wire.limits import LEADING_SEGMENTS_MAX

from .metrics_cells import (
    Arguments,
    DataContext,
    Output,
    Question,
    amount,
    cell_data,
    cells,
    head,
    labels,
    measure,
    not_empty,
    period_data,
    question,
    shown,
)
from .metrics_change import difference, sign

WITHHELD = "withheld"
ATTRIBUTED = "attributed"


def decompose(context: DataContext, arguments: Arguments) -> Output:
    """Contributions in the unit of a difference, the greatest part of the change first.

    ``status`` is ``withheld`` and no segment is named where the tool's own bounds, or ``sign_certain`` of the
    arguments, say that the sign of the change is not certain.
    """
    semantics = context.semantics
    dimension = str(arguments["dimension"])
    asked = question(semantics, arguments, [dimension])
    how = measure(asked.metric)
    with context.open(asked.metric, [dimension, *asked.filtered]) as database:
        sides = [
            {
                key[0]: cell
                for key, cell in cells(database, semantics, asked, arguments[name], [dimension]).items()
            }
            for name in ("baseline", "current")
        ]
        totals = (
            not_empty(asked, arguments["baseline"], summed(sides[0].values())),
            not_empty(asked, arguments["current"], summed(sides[1].values())),
        )
        judged = sign(database, semantics, asked, arguments, totals)
        ranked = shares(how, *sides)
        named = labels(database, semantics, dimension, [share.segment for share in ranked])
        output = {
            **head("decomposition", asked),
            "dimension": dimension,
            "dimension_label": semantics.dimensions[dimension].label,
            "dimension_plural": semantics.dimensions[dimension].plural_label(),
            "baseline": period_data(asked.metric, arguments["baseline"], totals[0]),
            "current": period_data(asked.metric, arguments["current"], totals[1]),
            **difference(asked.metric, *totals),
            **judged,
            "query": "\n;\n".join(database.queries),
        }
    return output | attribution(asked, how, ranked, named, withheld(arguments, judged))


def withheld(arguments: Arguments, judged: Mapping[str, Any]) -> str | None:
    """Why nothing may be attributed; ``None`` where it may."""
    if not judged["sign_certain"]:
        return str(judged["reason"])
    if arguments.get("sign_certain") is False:
        return "an earlier step found the sign of the change uncertain"
    return None


def attribution(
    asked: Question, how: Measure, ranked: Sequence[Share], named: Mapping[str, str], reason: str | None
) -> Output:
    """The attributed part of an output; the same fields, empty, where ``reason`` forbids it."""
    if reason is not None:
        return {
            "status": WITHHELD,
            "reason": reason,
            "segments": [],
            "rate_effect": None,
            "mix_effect": None,
            "not_separable": [],
            "top": None,
            "spread": None,
        }
    return {
        "status": ATTRIBUTED,
        "reason": None,
        "segments": [_segment(asked, share, named) for share in ranked],
        "rate_effect": total_effect([share.rate_effect for share in ranked]),
        "mix_effect": total_effect([share.mix_effect for share in ranked]),
        "not_separable": [list(pair) for pair in inseparable(ranked[:LEADING_SEGMENTS_MAX])],
        "top": top(asked.metric, ranked, named),
        "spread": spread_data(how, ranked),
    }


def top(metric: Metric, ranked: Sequence[Share], named: Mapping[str, str]) -> Output:
    """The segment with the largest point contribution, and from whom it cannot be told apart.

    ``separable_from`` is the first segment whose interval lies apart from that of every leading one.
    """
    first = ranked[0]
    leading = [share for share in ranked if share is first or share.overlaps(first)]
    same = [share.segment for share in leading[1:]]
    apart = apart_from(ranked, leading)
    note = "largest point contribution"
    if same:
        note += f", not separable from {', '.join(same[:LEADING_SEGMENTS_MAX])}"
        note += f" and {len(same) - LEADING_SEGMENTS_MAX} more" if len(same) > LEADING_SEGMENTS_MAX else ""
    elif len(apart) == len(ranked) - 1 > 0:
        note += ", separable from every other"
    return {
        "segment": first.segment,
        "label": named.get(first.segment, first.segment),
        "contribution": amount(metric, first.contribution),
        "low": amount(metric, first.low),
        "high": amount(metric, first.high),
        "not_separable_from": same,
        "leading": [first.segment, *same],
        "separable_from": apart[0].segment if apart else None,
        "note": note,
    }


def total_effect(effects: Sequence[Fraction | None]) -> float | None:
    """The sum of effects, each rounded once: an exact sum over thousands of denominators would take minutes."""
    known = [float(effect) for effect in effects if effect is not None]
    return math.fsum(known) if len(known) == len(effects) else None


def spread_data(how: Measure, ranked: Sequence[Share]) -> Output:
    """Whether the change is broad or concentrated over these segments; see ``attribution.spread``."""
    kind, moved, comparable = spread(how, ranked)
    return {"kind": kind, "moved": moved, "comparable": comparable}


def _segment(asked: Question, share: Share, named: Mapping[str, str]) -> Output:
    return {
        "segment": share.segment,
        "label": named.get(share.segment, share.segment),
        "baseline": cell_data(asked.metric, share.baseline),
        "current": cell_data(asked.metric, share.current),
        "contribution": amount(asked.metric, share.contribution),
        "rate_effect": shown(share.rate_effect),
        "mix_effect": shown(share.mix_effect),
        "low": amount(asked.metric, share.low),
        "high": amount(asked.metric, share.high),
    }
