"""Data files that are missing, cut off, changed or of another shape: a clear error each, with place and hint."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pytest

from duly.hosts.tools.duckdb_fingerprint import FINGERPRINTS_FILE, fingerprint
from duly.hosts.tools.duckdb_source import Allowance, SourceFile, Sources
from duly.protocol.wire.errors import ToolError


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    with duckdb.connect(":memory:") as engine:
        engine.execute("CREATE TABLE t AS SELECT range AS a, range % 3 AS b FROM range(1000)")
        engine.table("t").write_parquet(str(path))
    return path


def refused(path: Path, *columns: str, table: str | None = None) -> ToolError:
    with pytest.raises(ToolError) as caught, Sources({"t": SourceFile(path, table)}).open("t") as database:
        database.require("t", columns)
        database.rows("SELECT * FROM t")
    error = caught.value
    assert error.place is not None
    return error


def test_a_missing_file(tmp_path: Path) -> None:
    error = refused(tmp_path / "nothing.parquet")
    assert error.code == "tool.source_missing"
    assert "nothing.parquet" in str(error.place)
    assert "preparer" in str(error.hint)


def test_an_unknown_source(table: Path) -> None:
    with pytest.raises(ToolError) as caught:
        Sources({"t": SourceFile(table)}).open("u")
    assert caught.value.code == "tool.source_missing"
    assert "t" in str(caught.value.hint)


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, -1])
def test_a_truncated_parquet_file(table: Path, kept: float) -> None:
    data = table.read_bytes()
    table.write_bytes(data[: int(len(data) * kept) if 0 < kept < 1 else int(kept)])
    assert refused(table).code == "tool.source_damaged"


def test_a_truncated_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "".join(f"{n},{n},x\n" for n in range(5_000)) + "7")
    assert refused(path).code == "tool.source_damaged"


def test_a_csv_whose_last_row_is_of_another_type(tmp_path: Path) -> None:
    """The whole file decides the types: no late row can change or break them."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{n},{n}\n" for n in range(50_000)) + "x,1\n")
    with Sources({"t": SourceFile(path)}).open("t") as database:
        assert database.columns("t") == {"a": "VARCHAR", "b": "BIGINT"}


def test_another_kind_of_file(tmp_path: Path, table: Path) -> None:
    os.rename(table, tmp_path / "t.duckdb")
    assert refused(tmp_path / "t.duckdb").code == "tool.source_damaged"
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    assert refused(tmp_path / "t.xlsx").code == "tool.source_damaged"


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.parquet"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    assert refused(path).code == "tool.source_damaged"


def test_a_column_that_is_not_there(table: Path) -> None:
    error = refused(table, "a", "c", "d")
    assert error.code == "tool.column_missing"
    assert "'c', 'd'" in error.message
    assert "a, b" in str(error.hint)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(":memory:") as engine:
        engine.execute(f"ATTACH '{path}' AS d")
        engine.execute("CREATE TABLE d.other AS SELECT 1 AS a")
    assert refused(path).code == "tool.source_missing"
    with Sources({"t": SourceFile(path, "other")}).open("t") as database:
        assert database.rows("SELECT * FROM t") == [(1,)]


def test_a_file_that_is_not_what_the_preparer_wrote(table: Path) -> None:
    record = table.parent / FINGERPRINTS_FILE
    record.write_text(json.dumps({table.name: {"sha256": fingerprint(table).sha256}}))
    with Sources({"t": SourceFile(table)}).open("t") as database:
        assert database.count("t") == 1_000
    data = bytearray(table.read_bytes())
    data[len(data) // 3] ^= 1
    table.write_bytes(data)
    assert refused(table).code == "tool.source_damaged"
    record.write_text("[]")
    assert refused(table).code == "tool.source_damaged"


def test_a_file_that_changes_while_it_is_read(table: Path) -> None:
    sources = Sources({"t": SourceFile(table)})
    with sources.open("t"):
        sources.unchanged()
        table.write_bytes(table.read_bytes() + b"x")
        with pytest.raises(ToolError) as caught:
            sources.unchanged()
    assert caught.value.code == "tool.source_changed"


def test_a_fingerprint_follows_the_content(table: Path) -> None:
    first = fingerprint(table)
    assert first == fingerprint(table)
    assert first.size == table.stat().st_size
    table.write_bytes(table.read_bytes() + b"x")
    assert fingerprint(table).sha256 != first.sha256


def test_rows_are_charged_before_they_are_read(table: Path) -> None:
    sources = Sources({"t": SourceFile(table)}, Allowance(rows_max=2_500))
    with sources.open("t") as database:
        database.rows("SELECT sum(a) FROM t", "t")
        database.rows("SELECT sum(b) FROM t", "t")
        with pytest.raises(ToolError) as caught:
            database.rows("SELECT 1 FROM t", "t")
    assert caught.value.code == "tool.rows_exceeded"
    assert sources.allowance.scanned == 2_000
