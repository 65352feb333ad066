"""Reading a SQLite file cannot change it, whatever the statement; records go in once and come out as they were."""

from __future__ import annotations

import hashlib
import os
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.hosts.tools import sqlite
from duly.hosts.tools.context import CallContext
from duly.hosts.tools.sqlite_reader import SqliteReader
from duly.protocol.plan.manifest import RecordColumn, SqliteTools
from duly.protocol.wire.errors import ToolError

ENTRY = SqliteTools(
    file="records/incidents.sqlite",
    table="incidents",
    columns={
        "carrier": RecordColumn(type="text"),
        "points": RecordColumn(type="real"),
        "count": RecordColumn(type="integer", required=False),
    },
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x INTEGER, y TEXT)")
        connection.execute("CREATE INDEX i ON t (x)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b"), (3, "c")])
    connection.close()
    return path


def _call(folder, key: str = "k") -> CallContext:
    return CallContext(
        run_id="r", step_id="s", package=folder, data=folder / "data", scratch=folder, idempotency_key=key
    )


FORBIDDEN = [
    "ATTACH 'file:{other}?mode=rwc' AS other",
    "VACUUM INTO '{other}'",
    "VACUUM",
    "PRAGMA query_only=0",
    "PRAGMA table_info(t)",
    "PRAGMA journal_mode=wal",
    "SELECT load_extension('{other}')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('{other}', 'x')",
    "SELECT randomblob(1000000000)",
    "SELECT zeroblob(1000000000)",
    "INSERT INTO t VALUES (9, 'z')",
    "UPDATE t SET x = 0",
    "DELETE FROM t",
    "DROP TABLE t",
    "CREATE TABLE u (x)",
    "CREATE TEMP TABLE u (x)",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
    "REINDEX",
    "ANALYZE",
    "BEGIN IMMEDIATE",
    "SAVEPOINT a",
    "DETACH main",
    "SELECT * FROM pragma_database_list",
    "WITH d AS (SELECT 1) DELETE FROM t",
    "EXPLAIN DELETE FROM t",
    "SELECT 1; DELETE FROM t",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_nothing_but_reading_is_allowed(file, tmp_path, statement):
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    listed = sorted(os.listdir(tmp_path))
    with SqliteReader(file) as reader, pytest.raises(ToolError) as why:
        reader.rows(statement.format(other=tmp_path / "other.db"), rows_max=10)
    assert why.value.code in ("tool.not_allowed", "tool.bad_query")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    assert sorted(os.listdir(tmp_path)) == listed


def test_reading_is_allowed(file):
    query = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) "
        "SELECT upper(y), sum(x) OVER () FROM t JOIN n ON n.i = t.x ORDER BY y"
    )
    with SqliteReader(file) as reader:
        assert reader.rows(query, rows_max=2) == (
            ["upper(y)", "sum(x) OVER ()"],
            [("A", 6), ("B", 6)],
            True,
        )


def test_a_file_of_another_format_is_named(tmp_path):
    path = tmp_path / "a.db"
    path.write_bytes(b"no database at all, but long enough to be one" * 40)
    with SqliteReader(path) as reader, pytest.raises(ToolError) as why:
        reader.rows("SELECT * FROM t", rows_max=1)
    assert why.value.code == "tool.source_damaged"
    assert why.value.place == str(path)


@given(
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=50),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_a_record_comes_back_as_it_was(tmp_path_factory, carrier, points, count):
    call = _call(tmp_path_factory.mktemp("sqlite"))
    record = {"carrier": carrier, "points": points, "count": count}
    assert sqlite.append_record(call, ENTRY, record)["written"]
    for asked in ({"key": "k"}, {"where": record}, {"key": "k", "where": {"carrier": carrier}}):
        assert sqlite.find_records(call, ENTRY, asked) == {
            "records": [{"key": "k", "record": record}],
            "count": 1,
        }
    assert sqlite.find_records(call, ENTRY, {"key": "other"})["count"] == 0


def test_before_the_first_record_nothing_is_found_and_nothing_made(tmp_path):
    call = _call(tmp_path)
    assert sqlite.find_records(call, ENTRY, {}) == {"records": [], "count": 0}
    assert os.listdir(tmp_path) == []


def test_a_table_of_another_shape_is_not_written(tmp_path):
    call = _call(tmp_path)
    path = call.data / ENTRY.file
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE incidents (duly_key TEXT UNIQUE, carrier TEXT)")
    connection.close()
    with pytest.raises(ToolError) as why:
        sqlite.append_record(call, ENTRY, {"carrier": "B6", "points": 1.0})
    assert why.value.code == "tool.column_missing"


def test_a_file_that_another_process_writes_is_busy_and_may_be_tried_again(tmp_path, monkeypatch):
    call = _call(tmp_path)
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    sqlite.append_record(call, ENTRY, {"carrier": "B6", "points": 1.0})
    other = sqlite3.connect(call.data / ENTRY.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ToolError) as why:
        sqlite.append_record(_call(tmp_path, "k2"), ENTRY, {"carrier": "UA", "points": 1.0})
    other.close()
    assert (why.value.code, why.value.transient) == ("tool.busy", True)
    assert sqlite.find_records(call, ENTRY, {})["count"] == 1


def test_a_link_out_of_the_data_folder_is_refused(tmp_path):
    call = _call(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    call.data.mkdir()
    (call.data / "records").symlink_to(outside)
    with pytest.raises(ToolError) as why:
        sqlite.append_record(call, ENTRY, {"carrier": "B6", "points": 1.0})
    assert why.value.code == "tool.not_allowed"
    assert os.listdir(outside) == []


def test_the_descriptors_say_what_the_manifest_says():
    append, find = (tool.descriptor for tool in sqlite.tools("incidents", ENTRY))
    assert (append.full_name, append.effect, append.resource) == (
        "incidents.append",
        "write",
        "sqlite:incidents",
    )
    assert (append.idempotency, append.probe, find.effect) == ("key", "find", "read")
    assert append.input_schema["properties"]["record"]["required"] == ["carrier", "points"]
