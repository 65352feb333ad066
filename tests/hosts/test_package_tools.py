"""From a package's files to its tools: what loads, what is refused, and what a survey prepares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from duly.hosts.tools import registry, survey
from duly.hosts.tools.context import CallContext
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError, PackageError, ToolError
from duly.protocol.wire.ids import digest_bytes
from host_world import python_package

SOURCES = """
[tools.sql]
kind = "sql"
sources = ["stock"]
rows_max = 3

[sources.stock]
file = "stock.csv"
prepare = {function = "prepare", outputs = ["stock.csv"]}
"""
PREPARER = """
import pathlib

def prepare(folder):
    (folder / "stock.csv").write_text("item,pieces\\nnut,1\\nbolt,2\\nnail,3\\ngear,4\\n")
    with open(folder / "runs", "a") as file:
        file.write("x")
"""


def _snapshot(folder: Path, files: dict[str, str]) -> registry.Snapshot:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    digests = {name: digest_bytes("package.file", text.encode()) for name, text in files.items()}
    return registry.open_package(folder, canon.digest("package", digests))


def _data_package(tmp_path: Path, preparer: str = PREPARER) -> registry.Snapshot:
    pytest.importorskip("duckdb")
    files = python_package('@tool(effect="read")\ndef look() -> int:\n    return 1\n', "look")
    files["agent.toml"] += SOURCES
    return _snapshot(tmp_path / "package", {**files, "prepare.py": preparer})


def _call(snapshot: registry.Snapshot, tmp_path: Path) -> CallContext:
    return CallContext(
        run_id="r", step_id="s", package=snapshot.folder, data=tmp_path / "data", scratch=tmp_path
    )


def _tool(snapshot: registry.Snapshot, name: str):
    return registry.load(snapshot)[name].function


def test_a_package_module_takes_no_librarys_place(tmp_path):
    source = '@tool(effect="read")\ndef look() -> int:\n    import json\n    return json.loads("1")\n'
    files = python_package(source, "look")
    files["agent.toml"] = files["agent.toml"].replace('kind = "python"', 'kind = "python"\nfile = "json.py"')
    files["json.py"] = files.pop("tools.py")
    before = list(sys.path)
    snapshot = _snapshot(tmp_path, files)
    assert _tool(snapshot, "shed.look")(_call(snapshot, tmp_path), {}) == 1
    assert sys.path == before
    assert sys.modules["json"] is json


def test_code_comes_from_the_checked_bytes_not_from_the_disk(tmp_path):
    snapshot = _snapshot(
        tmp_path, python_package('@tool(effect="read")\ndef look() -> int:\n    return 1\n', "look")
    )
    (tmp_path / "tools.py").write_text("raise SystemExit('the file was read')")
    assert _tool(snapshot, "shed.look")(_call(snapshot, tmp_path), {}) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda folder: (folder / "tools.py").write_text("changed"), "package.damaged"),
        (lambda folder: (folder / "more.py").write_text("more"), "package.damaged"),
        (lambda folder: (folder / "tools.py").unlink(), "package.damaged"),
        (lambda folder: (folder / "agent.toml").unlink(), "package.missing"),
        (lambda folder: (folder / "link.py").symlink_to("/etc/passwd"), "package.damaged"),
    ],
)
def test_a_snapshot_that_is_not_what_its_digest_names_is_refused(tmp_path, change, code):
    snapshot = _snapshot(tmp_path, python_package("", "look"))
    change(tmp_path)
    with pytest.raises(PackageError) as why:
        registry.open_package(tmp_path, snapshot.digest)
    assert why.value.code == code


@pytest.mark.parametrize(
    "source",
    [
        "",
        "look = 1\n",
        "def look(): return 1\n",
        "@tool\ndef look(*rest): return 1\n",
        "@tool\ndef look(x: 'Nowhere'): return 1\n",
    ],
)
def test_a_function_that_is_no_tool_is_named(tmp_path, source):
    snapshot = _snapshot(tmp_path, python_package(source, "look"))
    with pytest.raises(ToolError) as why:
        registry.load(snapshot)
    assert why.value.code == "tool.bad_function"
    assert "look" in why.value.message


@pytest.mark.parametrize("name", ["duly", "verify"])
def test_the_names_of_dulys_own_servers_are_reserved(tmp_path, name):
    files = python_package('@tool(effect="read")\ndef look() -> int:\n    return 1\n', "look")
    files["agent.toml"] = files["agent.toml"].replace("[tools.shed]", f"[tools.{name}]")
    with pytest.raises(PackageError):
        registry.load(_snapshot(tmp_path, files))


def test_every_package_can_be_surveyed(tmp_path):
    source = '@tool(effect="read")\ndef look() -> int:\n    return 1\n'
    snapshot = _snapshot(tmp_path, python_package(source, "look"))
    tools = registry.load(snapshot)
    assert tools["duly.survey"].function(_call(snapshot, tmp_path), {}) == {"sources": {}, "dimensions": {}}
    assert tools["duly.fingerprint"].function(_call(snapshot, tmp_path), {}) == {}


def test_a_survey_prepares_once_and_gives_the_catalogue(tmp_path):
    snapshot = _data_package(tmp_path)
    call = _call(snapshot, tmp_path)
    for _ in range(2):
        found = Catalogue.model_validate(_tool(snapshot, "duly.survey")(call, {}))
    assert (found.sources["stock"].rows, [one.name for one in found.sources["stock"].columns]) == (
        4,
        ["item", "pieces"],
    )
    assert (call.data / "runs").read_text() == "x"
    again = _call(snapshot, tmp_path)
    assert _tool(snapshot, "duly.fingerprint")(again, {}) == {"stock": found.sources["stock"].fingerprint}
    assert again.fingerprints == call.fingerprints


def test_a_missing_output_or_record_is_prepared_again(tmp_path):
    snapshot = _data_package(tmp_path)
    call = _call(snapshot, tmp_path)
    for lost in ("stock.csv", "fingerprints.json"):
        _tool(snapshot, "duly.survey")(call, {})
        (call.data / lost).unlink()
    _tool(snapshot, "duly.survey")(call, {})
    assert (call.data / "runs").read_text() == "xxx"


def test_a_source_that_changed_since_is_named(tmp_path):
    snapshot = _data_package(tmp_path)
    call = _call(snapshot, tmp_path)
    _tool(snapshot, "duly.survey")(call, {})
    (call.data / "stock.csv").write_text("item,pieces\n")
    for name in ("duly.survey", "duly.fingerprint"):
        with pytest.raises(ToolError) as why:
            _tool(snapshot, name)(call, {})
        assert why.value.code == "tool.source_damaged"
        assert why.value.place == str(call.data / "stock.csv")


@pytest.mark.parametrize("preparer", ["", "def prepare(folder): pass\n"])
def test_a_preparer_that_makes_nothing_is_named(tmp_path, preparer):
    snapshot = _data_package(tmp_path, preparer)
    with pytest.raises(ToolError) as why:
        _tool(snapshot, "duly.survey")(_call(snapshot, tmp_path), {})
    assert why.value.code == "tool.preparer_failed"


def _query(tmp_path: Path, sql: str):
    snapshot = _data_package(tmp_path)
    call = _call(snapshot, tmp_path)
    _tool(snapshot, "duly.survey")(call, {})
    return _tool(snapshot, "sql.query")(call, {"sql": sql}), call


def test_a_query_gives_rows_up_to_its_limit(tmp_path):
    found, call = _query(tmp_path, "SELECT item, sum(pieces) AS n FROM stock GROUP BY item ORDER BY n")
    assert found["columns"] == ["item", "n"]
    assert [row[0] for row in found["rows"]] == ["nut", "bolt", "nail"]
    assert (found["truncated"], call.truncated, call.rows_scanned) == (True, True, 4)
    assert list(call.fingerprints) == ["stock"]


FORBIDDEN = [
    "SELECT 1; SELECT 2",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('{data}/stock.csv')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM sniff_csv('{data}/stock.csv')",
    "SELECT * FROM duckdb_settings()",
    "SELECT (SELECT count(*) FROM read_blob('{data}/stock.csv'))",
    "COPY stock TO '{data}/out.csv'",
    "ATTACH '{data}/a.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit='100GB'",
    "PRAGMA database_list",
    "CREATE TEMP TABLE t AS SELECT 1",
    "INSERT INTO stock VALUES ('x', 1)",
    "DELETE FROM stock",
    "DROP VIEW stock",
    "CALL pragma_version()",
    "EXPLAIN ANALYZE DELETE FROM stock",
    "EXPORT DATABASE '{data}/out'",
    "SELECT * FROM call",
    "SELECT * FROM arguments",
    "SELEC 1",
    "",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_a_query_that_reaches_beyond_its_sources_is_refused(tmp_path, sql):
    with pytest.raises(DulyError) as why:
        _query(tmp_path, sql.format(data=tmp_path / "data"))
    assert why.value.code in (
        "tool.not_allowed",
        "tool.bad_query",
        "tool.column_missing",
        "tool.query_failed",
    )
    names = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert names == [".prepare.lock", "fingerprints.json", "runs", "stock.csv"]


def test_own_servers_are_described_for_every_package(tmp_path):
    snapshot = _data_package(tmp_path)
    names = set(registry.load(snapshot))
    assert {"shed.look", "sql.query", "verify.tally", "duly.survey", "duly.fingerprint"} == names
    assert set(registry.load(snapshot, only=survey.SERVER)) == {"duly.survey", "duly.fingerprint"}
