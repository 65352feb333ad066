"""``metrics.interact``: the leading segments of a dimension, looked at through the other dimensions.

For each candidate (the segment with the largest part of the change and those not separable from it) and each other
dimension: its own change taken apart into rate and mix, and whether all of its parts moved or only one.
"""

from __future__ import annotations

from collections.abc import Mapping

from duly.protocol.judgement.attribution import Cell, Share, shares, summed
from duly.protocol.plan.semantics import Metric
from duly.protocol.wire.limits import CANDIDATES_MAX

from .duckdb_source import Database
from .metrics_cells import (
    Arguments,
    DataContext,
    Output,
    Question,
    amount,
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
from .metrics_decompose import ATTRIBUTED, WITHHELD, spread_data, top, total_effect, withheld

Crossed = dict[str, dict[str, Cell]]


def interact(context: DataContext, arguments: Arguments) -> Output:
    """The candidates of ``dimension`` within each of ``others``; withheld as ``metrics.decompose`` is."""
    semantics = context.semantics
    dimension, others = str(arguments["dimension"]), [str(name) for name in arguments["others"]]
    asked = question(semantics, arguments, [dimension, *others])
    how = measure(asked.metric)
    with context.open(asked.metric, [dimension, *others, *asked.filtered]) as database:
        sides = [
            _plain(context, database, asked, arguments, name, dimension) for name in ("baseline", "current")
        ]
        totals = (
            not_empty(asked, arguments["baseline"], summed(sides[0].values())),
            not_empty(asked, arguments["current"], summed(sides[1].values())),
        )
        judged = sign(database, semantics, asked, arguments, totals)
        reason = withheld(arguments, judged)
        ranked = shares(how, *sides)
        leading = [] if reason else top(asked.metric, ranked, {})["leading"][:CANDIDATES_MAX]
        named = labels(database, semantics, dimension, leading)
        candidates = _candidates(context, database, asked, arguments, dimension, others, ranked, leading)
        return {
            **head("interaction", asked),
            "dimension": dimension,
            "dimension_label": semantics.dimensions[dimension].label,
            "baseline": period_data(asked.metric, arguments["baseline"], totals[0]),
            "current": period_data(asked.metric, arguments["current"], totals[1]),
            **difference(asked.metric, *totals),
            **judged,
            "status": WITHHELD if reason else ATTRIBUTED,
            "reason": reason,
            "candidates": [
                {**item, "label": named.get(str(item["segment"]), str(item["segment"]))}
                for item in candidates
            ],
            "query": "\n;\n".join(database.queries),
        }


def _plain(
    context: DataContext, database: Database, asked: Question, arguments: Arguments, side: str, dimension: str
) -> dict[str, Cell]:
    found = cells(database, context.semantics, asked, arguments[side], [dimension])
    return {key[0]: cell for key, cell in found.items()}


def _candidates(
    context: DataContext,
    database: Database,
    asked: Question,
    arguments: Arguments,
    dimension: str,
    others: list[str],
    ranked: list[Share],
    leading: list[str],
) -> list[Output]:
    crossed = {
        other: [
            _crossed(context, database, asked, arguments, side, dimension, other)
            for side in ("baseline", "current")
        ]
        for other in others
        if other != dimension and leading
    }
    found = []
    for share in (share for share in ranked if share.segment in leading):
        parts = [
            _within(
                context, asked.metric, other, sides[0].get(share.segment, {}), sides[1].get(share.segment, {})
            )
            for other, sides in crossed.items()
        ]
        found.append(
            {
                "segment": share.segment,
                "contribution": amount(asked.metric, share.contribution),
                "rate_effect": shown(share.rate_effect),
                "mix_effect": shown(share.mix_effect),
                "low": amount(asked.metric, share.low),
                "high": amount(asked.metric, share.high),
                **difference(asked.metric, share.baseline, share.current),
                "within": [part for part in parts if part is not None],
            }
        )
    return found


def _crossed(
    context: DataContext,
    database: Database,
    asked: Question,
    arguments: Arguments,
    side: str,
    dimension: str,
    other: str,
) -> Crossed:
    found: Crossed = {}
    for key, cell in cells(database, context.semantics, asked, arguments[side], [dimension, other]).items():
        found.setdefault(key[0], {})[key[1]] = cell
    return found


def _within(
    context: DataContext,
    metric: Metric,
    other: str,
    baseline: Mapping[str, Cell],
    current: Mapping[str, Cell],
) -> Output | None:
    """One candidate's own change over another dimension; ``None`` where a period did not observe the candidate."""
    how = measure(metric)
    if how.kind == "ratio" and not (summed(baseline.values()).observed and summed(current.values()).observed):
        return None
    ranked = shares(how, baseline, current)
    return {
        "dimension": other,
        "dimension_label": context.semantics.dimensions[other].label,
        "dimension_plural": context.semantics.dimensions[other].plural_label(),
        **spread_data(how, ranked),
        "rate_effect": total_effect([share.rate_effect for share in ranked]),
        "mix_effect": total_effect([share.mix_effect for share in ranked]),
        "first": {"segment": ranked[0].segment, "contribution": amount(metric, ranked[0].contribution)},
    }
