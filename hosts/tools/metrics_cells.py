"""From semantics and sources to cells: what every metric tool starts from, and the shapes in which they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from duly.protocol.judgement.attribution import Cell, Exact, Measure
from duly.protocol.plan.semantics import ColumnsTime, Metric, Semantics, period_text
from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.limits import SEGMENTS_MAX

from . import metrics_sql as sql
from .duckdb_source import Database, Sources, literal, quoted

Arguments = Mapping[str, Any]
Output = dict[str, Any]


@dataclass(slots=True)
class DataContext:
    """What a data tool of a package works with: its semantics and its located sources."""

    semantics: Semantics
    sources: Sources

    def open(self, metric: Metric, dimensions: Sequence[str]) -> Database:
        """A database with everything that tallies of the metric over these dimensions read, columns checked."""
        wanted: dict[str, list[str]] = {
            metric.source: [*sorted(metric.columns()), *self._time_columns(metric)]
        }
        for name in dimensions:
            part = self.semantics.dimensions[name]
            wanted[metric.source].append(part.local_column())
            if part.join is not None:
                wanted.setdefault(part.join.source, []).extend((part.join.key, part.join.column))
            if part.labels is not None:
                wanted.setdefault(part.labels.source, []).extend((part.labels.key, part.labels.label))
        database = self.sources.open(*wanted)
        try:
            for source, columns in wanted.items():
                database.require(source, columns)
        except ToolError:
            database.close()
            raise
        return database

    def _time_columns(self, metric: Metric) -> list[str]:
        time = self.semantics.sources[metric.source].time
        if time is None:
            return []
        if isinstance(time, ColumnsTime):
            return [time.year, time.month] + ([time.day] if time.day is not None else [])
        return [time.column]


@dataclass(frozen=True, slots=True)
class Question:
    """The checked part of the arguments that every metric tool has."""

    name: str
    metric: Metric
    filters: tuple[Mapping[str, str], ...]

    @property
    def filtered(self) -> list[str]:
        return list(dict.fromkeys(item["dimension"] for item in self.filters))


def question(semantics: Semantics, arguments: Arguments, dimensions: Sequence[str] = ()) -> Question:
    """Metric and filters of the arguments. Unknown names raise ``RequestError`` with what is known."""
    name = str(arguments["metric"])
    filters = tuple(dict(item) for item in arguments.get("filters") or ())
    for dimension in (*dimensions, *(item["dimension"] for item in filters)):
        semantics.dimension_of(name, dimension)
    return Question(name, semantics.metric(name), filters)


def measure(metric: Metric) -> Measure:
    """How the metric's cells become values; see ``attribution``."""
    if metric.kind == "count":
        return Measure("count")
    if metric.kind == "mean":
        bounds = metric.value_range
        return (
            Measure("ratio", 1, None, None)
            if bounds is None
            else Measure("ratio", 1, Fraction(bounds.min), Fraction(bounds.max))
        )
    return Measure("ratio", 100)


def change_unit(metric: Metric) -> str:
    """The unit of a difference of two values: points for percent."""
    return "points" if metric.unit == "percent" else metric.unit


def cells(
    database: Database,
    semantics: Semantics,
    asked: Question,
    period: Mapping[str, Any] | None,
    dimensions: Sequence[str] = (),
) -> dict[tuple[str, ...], Cell]:
    """Segment of each dimension → cell, in one period. Without dimensions the one key is ``()``."""
    query = sql.tally(semantics, asked.metric, period=period, filters=asked.filters, dimensions=dimensions)
    rows = database.rows(query, asked.metric.source)
    if len(rows) > SEGMENTS_MAX:
        raise ToolError(
            "tool.too_many_segments",
            f"{' × '.join(dimensions)} has {len(rows)} segments; at most {SEGMENTS_MAX} can be told apart.",
            hint="Choose a coarser dimension, or declare buckets.",
        )
    width = len(dimensions)
    return {tuple(row[:width]): Cell(row[-3], row[-2], number(row[-1])) for row in rows}


def number(value: int | float | Decimal | None) -> Exact:
    """A sum or count of the engine, exactly; a sum over no rows is 0.

    Raises ``ToolError`` ``tool.not_finite`` for a sum over values that are no numbers.
    """
    if value is None or isinstance(value, int):
        return value or 0
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        raise ToolError("tool.not_finite", "The column of the mean holds NaN or infinite values.") from None


def shown(value: Exact | None) -> int | float | None:
    """An exact number as outputs show it: whole where it is an ``int``, else the nearest float."""
    return value if value is None or isinstance(value, int) else float(value)


def amount(metric: Metric, value: Fraction | None) -> int | float | None:
    """A value, or a difference of values, of a metric: whole for a count, else the nearest float."""
    if value is None or metric.kind != "count":
        return shown(value)
    return int(value) if value.denominator == 1 else float(value)


def not_empty(asked: Question, period: Mapping[str, Any] | None, cell: Cell) -> Cell:
    """The cell, or ``ToolError`` ``tool.period_empty`` where a ratio has nothing to divide by."""
    if asked.metric.kind != "count" and cell.observed == 0:
        raise ToolError(
            "tool.period_empty",
            f"There are no {asked.metric.nouns.observed} in {period_text(period)} under these filters.",
            hint="Choose a month that the data covers.",
        )
    return cell


def cell_data(metric: Metric, cell: Cell) -> Output:
    """A cell as outputs show it."""
    return {
        "population": cell.population,
        "observed": cell.observed,
        "missing": cell.missing,
        "numerator": shown(cell.total),
        "value": amount(metric, measure(metric).value(cell)),
    }


def period_data(metric: Metric, period: Mapping[str, Any] | None, cell: Cell) -> Output:
    """A period and its cell as outputs show them."""
    shown = None if period is None else {"year": period.get("year"), "month": period["month"]}
    return {"period": shown, "period_text": period_text(shown), **cell_data(metric, cell)}


def head(kind: str, asked: Question) -> Output:
    """The fields with which every output of a metric tool begins."""
    metric = asked.metric
    return {
        "kind": kind,
        "metric": asked.name,
        "label": metric.label,
        "metric_kind": metric.kind,
        "better": metric.direction,
        "unit": metric.unit,
        "change_unit": change_unit(metric),
        "definition": metric.definition_text(),
        "filters": [dict(item) for item in asked.filters],
        "nouns": metric.nouns.model_dump(),
    }


def normal(value: Any) -> Any:
    """An output without negative zeros: zero has one form, as on the wire."""
    if type(value) is float:
        return value + 0.0
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    return [normal(item) for item in value] if isinstance(value, list) else value


def direction(change: Exact | None) -> str:
    """The verb of a change."""
    if change is None or change == 0:
        return "did not change"
    return "fell" if change < 0 else "rose"


def labels(
    database: Database, semantics: Semantics, dimension: str, segments: Sequence[str]
) -> dict[str, str]:
    """The spoken name of each segment that has one."""
    part = semantics.dimensions[dimension]
    found = {name: part.value_labels[name] for name in segments if name in part.value_labels}
    unnamed = [name for name in segments if name not in found and name != part.unknown]
    if part.labels is not None and unnamed:
        key, label = quoted(part.labels.key), quoted(part.labels.label)
        rows = database.rows(
            f"SELECT CAST({key} AS VARCHAR) AS segment, min(CAST({label} AS VARCHAR)) AS label\n"
            f"FROM {quoted(part.labels.source)}\n"
            f"WHERE CAST({key} AS VARCHAR) IN ({', '.join(map(literal, unnamed))})\nGROUP BY ALL\nORDER BY ALL"
        )
        found.update((row[0], row[1]) for row in rows if row[1] is not None)
    return found
