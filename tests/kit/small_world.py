"""A small package over made-up tables: every kind of time, dimension and metric, with nulls, gaps and lost keys."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from hypothesis import strategies as st

from duly.hosts.tools.metrics_cells import DataContext
from metric_steps import context

Row = tuple[Any, ...]
ROW_COLUMNS = "day DATE, year INTEGER, month INTEGER, dom INTEGER, shop VARCHAR, part VARCHAR, hour INTEGER, done BOOLEAN, late INTEGER, price DOUBLE"
SEMANTICS = """
version: "1"
sources:
  orders: {time: {kind: %s}}
  parts: {label: Parts}
dimensions:
  shop: {label: shop, source: orders, column: shop, labels: {source: parts, key: part, label: maker}}
  slot:
    label: slot
    source: orders
    buckets: {column: hour, ranges: [{name: early, below: 8}, {name: noon, below: 16}, {name: late}]}
  maker: {label: maker, source: orders, join: {source: parts, local: part, key: part, column: maker}, unknown: none}
metrics:
  rate:
    label: rate of done
    definition: Done in time
    kind: rate
    source: orders
    where: [{column: hour, op: "!=", value: 3}]
    numerator: [{column: late, op: "<=", value: 1}]
    denominator: [{column: late, op: not_null}]
    population: [{column: done, op: not_null}]
    unit: percent
    direction: up
    dimensions: [shop, slot, maker]
    %s
    checks: [{kind: recompute, tolerance: 1.0e-9}, {kind: range, min: 0, max: 100}, {kind: sums_to}]
  share:
    label: share of done
    definition: Done
    kind: share
    source: orders
    numerator: [{column: done, op: "=", value: true}]
    unit: percent
    direction: down
    dimensions: [shop, slot, maker]
    checks: [{kind: sums_to}]
  count:
    label: open ones
    definition: Not done
    kind: count
    source: orders
    numerator: [{column: done, op: "in", value: [false]}]
    unit: orders
    direction: none
    dimensions: [shop, slot, maker]
    checks: [{kind: recompute, tolerance: 0}, {kind: range, min: 0}]
  bounded:
    label: mean lateness
    definition: Mean lateness
    kind: mean
    source: orders
    value: late
    value_range: {min: -2, max: 4}
    unit: minutes
    direction: down
    dimensions: [shop, slot, maker]
    checks: [{kind: sums_to, tolerance: 1.0e-9}]
  price:
    label: mean price
    definition: Mean price
    kind: mean
    source: orders
    value: price
    unit: euros
    direction: none
    dimensions: [shop, slot, maker]
"""
TIMES = {
    "columns": "columns, year: year, month: month, day: dom",
    "months": "columns, year: year, month: month",
    "date": "date, column: day",
}
METRICS = ("rate", "share", "count", "bounded", "price")
MARCH, APRIL = {"year": 2024, "month": 3}, {"year": 2024, "month": 4}

_shops = st.sampled_from(["A", "B", "C", "d'E", None])
_parts = st.sampled_from(["p1", "p2", "p3", "lost", None])
_rows = st.tuples(
    st.dates(datetime.date(2024, 2, 20), datetime.date(2024, 5, 3)),
    _shops,
    _parts,
    st.one_of(st.none(), st.integers(0, 23)),
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers(-2, 4)),
    st.one_of(st.none(), st.sampled_from([0.1, 0.2, 0.3, 1e6, -5.5])),
)
tables = st.lists(_rows, min_size=1, max_size=60)
part_tables = st.lists(
    st.tuples(st.sampled_from(["p1", "p2", "p3", "A", "B"]), st.sampled_from(["one", "two", None])),
    max_size=6,
)


def write(folder: Path, rows: Sequence[Row], parts: Sequence[Row]) -> dict[str, Path]:
    """Both tables as Parquet files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.parquet" for name in ("orders", "parts")}
    with duckdb.connect(":memory:", config={"threads": 1}) as engine:
        engine.execute(f"CREATE TABLE orders ({ROW_COLUMNS})")
        engine.execute("CREATE TABLE parts (part VARCHAR, maker VARCHAR)")
        for day, shop, part, hour, done, late, price in rows:
            values = [day, day.year, day.month, day.day, shop, part, hour, done, late, price]
            engine.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        for row in parts:
            engine.execute("INSERT INTO parts VALUES (?, ?)", list(row))
        for name, path in files.items():
            engine.table(name).write_parquet(str(path))
    return files


def semantics(time: str) -> bytes:
    has_days = "" if time == "months" else "completeness: {observed_share_min: 0.9}"
    return (SEMANTICS % (TIMES[time], has_days)).encode()


def world(folder: Path, rows: Sequence[Row], parts: Sequence[Row], time: str = "columns") -> DataContext:
    return context(semantics(time), write(folder, rows, parts))


def fixed_rows() -> list[Row]:
    """A table in which the rate falls for certain, with a few missing outcomes in both months."""
    rows: list[Row] = []
    for number in range(240):
        day = datetime.date(2024, 3, 1) + datetime.timedelta(days=number % 61)
        bad = 2 if day.month == 3 else 5
        late = None if number % 40 == 0 else (3 if number % 7 < bad else 0)
        shop, part = ("A", "B", "C")[number % 3], ("p1", "p2", "lost")[number % 5 % 3]
        done = bool(number % 11 % 4) if day.month == 3 else not number % 11 % 4
        rows.append((day, shop, part, number % 24, done, late, number % 5 * 0.1))
    rows.append((datetime.date(2024, 2, 1), "A", "p1", 1, True, 0, 0.1))
    rows.append((datetime.date(2024, 5, 31), "A", "p1", 1, True, 0, 0.1))
    return rows


FIXED_PARTS: list[Row] = [("p1", "one"), ("p2", "two"), ("A", "Alpha")]
