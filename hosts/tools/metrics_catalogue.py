"""``metrics.catalogue``: names, types, coverage and known values of the sources, for a planner that may not see data."""

from __future__ import annotations

from typing import Any

from duly.protocol.plan.semantics import ColumnsTime, DateTime, NamedMonthTime
from duly.protocol.wire.limits import CATALOGUE_PERIODS_MAX, CATALOGUE_VALUES_MAX

from . import metrics_sql as sql
from .duckdb_source import Database, quoted
from .metrics_cells import Arguments, DataContext, Output, labels


def catalogue(context: DataContext, arguments: Arguments) -> Output:
    """Per source: columns with types, rows, months that have rows, fingerprint. Per dimension: values with labels.

    A dimension with more than ``CATALOGUE_VALUES_MAX`` values gives the most frequent ones and ``truncated``.
    """
    semantics = context.semantics
    with context.sources.open(*semantics.sources) as database:
        sources = {name: _source(context, database, name) for name in semantics.sources}
        dimensions = {name: _dimension(context, database, name) for name in semantics.dimensions}
    return {"kind": "catalogue", "version": semantics.version, "sources": sources, "dimensions": dimensions}


def _source(context: DataContext, database: Database, name: str) -> Output:
    return {
        "columns": database.columns(name),
        "rows": database.count(name),
        "periods": _periods(context, database, name),
        "fingerprint": context.sources.used[name].to_data(),
    }


def _periods(context: DataContext, database: Database, name: str) -> list[dict[str, Any]]:
    """The months that have rows, in order; the most recent ones where there are too many."""
    time = context.semantics.sources[name].time
    if time is None:
        return []
    if isinstance(time, NamedMonthTime):
        database.require(name, [time.column])
        rows = database.rows(
            f"SELECT {quoted(time.column)}, count(*) FROM {quoted(name)} GROUP BY ALL ORDER BY ALL"
        )
        known = [(None, time.names[row[0]], row[1]) for row in rows if row[0] in time.names]
        return [
            {"year": year, "month": month, "rows": count}
            for year, month, count in sorted(known, key=lambda k: k[1])
        ]
    if isinstance(time, ColumnsTime):
        database.require(name, [time.year, time.month])
        year, month = f"CAST({quoted(time.year)} AS INTEGER)", f"CAST({quoted(time.month)} AS INTEGER)"
    else:
        assert isinstance(time, DateTime)
        database.require(name, [time.column])
        day = f"CAST({quoted(time.column)} AS DATE)"
        year, month = f"CAST(year({day}) AS INTEGER)", f"CAST(month({day}) AS INTEGER)"
    rows = database.rows(
        f"SELECT {year} AS y, {month} AS m, count(*)\nFROM {quoted(name)}\n"
        f"WHERE {year} IS NOT NULL AND {month} IS NOT NULL\n"
        f"GROUP BY ALL\nORDER BY y DESC, m DESC\nLIMIT {CATALOGUE_PERIODS_MAX}"
    )
    return [{"year": row[0], "month": row[1], "rows": row[2]} for row in reversed(rows)]


def _dimension(context: DataContext, database: Database, name: str) -> Output:
    part = context.semantics.dimensions[name]
    database.require(part.source, [part.local_column()])
    if part.join is not None:
        database.require(part.join.source, [part.join.key, part.join.column])
    if part.labels is not None:
        database.require(part.labels.source, [part.labels.key, part.labels.label])
    rows = database.rows(
        f"SELECT {sql.segment(part)} AS segment, count(*) AS row_count\nFROM {quoted(part.source)} AS t"
        f"{''.join(sql.joins([part]))}\nGROUP BY ALL\nORDER BY row_count DESC, segment\nLIMIT {CATALOGUE_VALUES_MAX + 1}"
    )
    shown = rows[:CATALOGUE_VALUES_MAX]
    named = labels(database, context.semantics, name, [row[0] for row in shown])
    return {
        "label": part.label,
        "source": part.source,
        "values": [
            {"value": row[0], "rows": row[1], **({"label": named[row[0]]} if row[0] in named else {})}
            for row in shown
        ],
        "truncated": len(rows) > len(shown),
    }
