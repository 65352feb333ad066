"""``metrics.segments``: two segments compared, over everything and within each stratum of other dimensions.

A *reversal* (Simpson's paradox) is named where one segment is ahead over everything and the other is ahead in every
stratum that has observed rows of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.judgement.attribution import Cell
from duly.protocol.wire.errors import ToolError

from .duckdb_source import Database
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
    period_data,
    question,
)

Pair = tuple[str, str]


def segments(context: DataContext, arguments: Arguments) -> Output:
    """Both segments' values, who is ahead, the same by stratum, and the reversal or null.

    *Ahead* means the greater value, whether or not greater is better. ``difference`` is the first minus the second.
    """
    semantics = context.semantics
    dimension, strata = str(arguments["dimension"]), [str(name) for name in arguments.get("strata") or ()]
    pair = _pair(arguments)
    asked = question(semantics, arguments, [dimension, *strata])
    period = arguments.get("period")
    with context.open(asked.metric, [dimension, *strata, *asked.filtered]) as database:
        found = cells(database, semantics, asked, period, [dimension])
        whole = [_known(asked, dimension, found.get((name,)), name, period) for name in pair]
        named = labels(database, semantics, dimension, pair)
        overall = _compared(asked, pair, whole)
        cut = [
            _stratified(context, database, asked, period, dimension, other, pair, overall) for other in strata
        ]
        return {
            **head("segments", asked),
            "period": period_data(asked.metric, period, Cell())["period"],
            "period_text": period_data(asked.metric, period, Cell())["period_text"],
            "dimension": dimension,
            "dimension_label": semantics.dimensions[dimension].label,
            "segments": [
                {"segment": name, "label": named.get(name, name), **cell_data(asked.metric, cell)}
                for name, cell in zip(pair, whole, strict=True)
            ],
            "ahead": overall["ahead"],
            "ahead_label": named.get(str(overall["ahead"]), overall["ahead"]),
            "difference": overall["difference"],
            **_bounds(asked, whole),
            "missing": whole[0].missing + whole[1].missing,
            "strata": cut,
            "reversal": _reversal(cut, overall, named),
            "query": "\n;\n".join(database.queries),
        }


def _pair(arguments: Arguments) -> Pair:
    names = [str(name) for name in arguments["segments"]]
    if len(names) != 2 or names[0] == names[1]:
        raise ToolError("tool.bad_arguments", "Two different segments are compared.", place="segments")
    return names[0], names[1]


def _known(
    asked: Question, dimension: str, cell: Cell | None, name: str, period: Mapping[str, Any] | None
) -> Cell:
    if cell is None or (asked.metric.kind != "count" and cell.observed == 0):
        raise ToolError(
            "tool.segment_empty",
            f"There are no {asked.metric.nouns.observed} of {dimension} {name!r} here.",
            hint="Choose a segment that the data has.",
        )
    return cell


def _compared(asked: Question, pair: Pair, both: list[Cell]) -> Output:
    """Values, difference (first − second) and who is ahead; nulls where one has no value."""
    how = measure(asked.metric)
    first, second = how.value(both[0]), how.value(both[1])
    if first is None or second is None:
        return {"difference": None, "ahead": None}
    ahead = None if first == second else pair[0] if first > second else pair[1]
    return {"difference": amount(asked.metric, first - second), "ahead": ahead}


def _bounds(asked: Question, whole: list[Cell]) -> Output:
    """The extremes of the difference when all missing rows fall either way, and whether they agree on who is ahead."""
    how = measure(asked.metric)
    fills = how.fills(whole)
    extremes = [how.value(cell.filled(fill)) for cell in whole for fill in fills or ()]
    known = [value for value in extremes if value is not None]
    if len(known) != 4:
        return {"difference_low": None, "difference_high": None, "order_certain": False}
    low, high = known[0] - known[3], known[1] - known[2]
    return {
        "difference_low": amount(asked.metric, low),
        "difference_high": amount(asked.metric, high),
        "order_certain": low > 0 or high < 0,
    }


def _stratified(
    context: DataContext,
    database: Database,
    asked: Question,
    period: Mapping[str, Any] | None,
    dimension: str,
    other: str,
    pair: Pair,
    overall: Output,
) -> Output:
    found = cells(database, context.semantics, asked, period, [dimension, other])
    names = list(dict.fromkeys(key[1] for key in found if key[0] in pair))
    rows = []
    for stratum in _ordered(context, other, names):
        both = [found.get((name, stratum), Cell()) for name in pair]
        rows.append(
            {
                "stratum": stratum,
                "segments": [
                    {"segment": name, **cell_data(asked.metric, cell)}
                    for name, cell in zip(pair, both, strict=True)
                ],
                **_compared(asked, pair, both),
            }
        )
    comparable = [row for row in rows if row["difference"] is not None]
    ahead = {row["ahead"] for row in comparable}
    everywhere = next(iter(ahead)) if len(ahead) == 1 else None
    opposed = everywhere is not None and overall["ahead"] is not None and everywhere != overall["ahead"]
    return {
        "dimension": other,
        "dimension_label": context.semantics.dimensions[other].label,
        "rows": rows,
        "comparable": len(comparable),
        "ahead_everywhere": everywhere,
        "reversal": opposed and len(comparable) > 1,
    }


def _ordered(context: DataContext, dimension: str, names: list[str]) -> list[str]:
    """Buckets in the order in which they are declared, other segments by name."""
    buckets = context.semantics.dimensions[dimension].buckets
    declared = [bucket.name for bucket in buckets.ranges] if buckets is not None else []
    return sorted(names, key=lambda name: (declared.index(name) if name in declared else len(declared), name))


def _reversal(cut: list[Output], overall: Output, named: Mapping[str, str]) -> Output | None:
    for part in cut:
        if part["reversal"]:
            inside = str(part["ahead_everywhere"])
            return {
                "dimension": part["dimension"],
                "dimension_label": part["dimension_label"],
                "overall": overall["ahead"],
                "within": inside,
                "within_label": named.get(inside, inside),
            }
    return None
