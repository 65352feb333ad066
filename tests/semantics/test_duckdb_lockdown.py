"""Attacks 53 and 54: a query reaches nothing but its sources, whoever wrote it."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from duly.hosts.tools.duckdb_source import SourceFile, Sources, literal, quoted
from duly.protocol.wire.errors import ToolError

SECRET = "the-secret-of-the-caller"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a source, and beside it a file that is none of our business, also as a hard link."""
    inside = tmp_path / "a [b] *ü'q"
    inside.mkdir()
    with duckdb.connect(":memory:") as engine:
        engine.execute("CREATE TABLE t AS SELECT range AS a, 'x' AS b FROM range(10)")
        engine.table("t").write_parquet(str(inside / "t?[1].parquet"))
        engine.table("t").write_csv(str(inside / "t.csv"))
        engine.execute(f"ATTACH {literal(str(inside / 't.duckdb'))} AS d (STORAGE_VERSION 'v1.2.0')")
        engine.execute("CREATE TABLE d.t AS FROM t")
    (inside / "other.csv").write_text(f"a\n{SECRET}\n")
    os.link(inside / "other.csv", inside / "link.csv")
    os.symlink(inside / "other.csv", inside / "symbolic.csv")
    return inside


@pytest.fixture(params=["t?[1].parquet", "t.csv", "t.duckdb"])
def sources(request: pytest.FixtureRequest, folder: Path) -> Sources:
    return Sources({"t": SourceFile(folder / request.param)})


@pytest.mark.parametrize("isolated", [False, True])
def test_the_source_itself_is_read(sources: Sources, isolated: bool) -> None:
    with sources.open("t", isolated=isolated) as database:
        assert database.rows("SELECT sum(a), count(*) FROM t") == [(45, 10)]
    assert sources.used["t"].sha256


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv({other})",
        "SELECT * FROM {other}",
        "SELECT * FROM read_csv({link})",
        "SELECT * FROM read_csv({symbolic})",
        "SELECT * FROM read_text({other})",
        "SELECT * FROM read_blob({other})",
        "SELECT * FROM sniff_csv({other})",
        "SELECT * FROM glob({folder})",
        "SELECT * FROM read_text('/proc/self/environ')",
        "SELECT * FROM read_csv('https://example.com/x.csv')",
        "COPY t TO {made}",
        "COPY t TO {made} (FORMAT csv, USE_TMP_FILE false)",
        "EXPORT DATABASE {made}",
        "ATTACH {made} AS x",
        "ATTACH {other} AS x",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = [{other}]",
        "SET allowed_directories = ['/']",
        "SET lock_configuration = false",
        "RESET lock_configuration",
        "SET memory_limit = '100GB'",
        "SET python_enable_replacements = true",
        "SET temp_directory = {folder}",
        "PRAGMA enable_external_access",
        "CREATE SECRET (TYPE s3)",
    ],
)
def test_everything_else_is_denied(folder: Path, sources: Sources, query: str, isolated: bool) -> None:
    made = folder / "made"
    names = {
        "other": folder / "other.csv",
        "link": folder / "link.csv",
        "symbolic": folder / "symbolic.csv",
        "folder": folder / "*",
        "made": made,
    }
    text = query.format(**{name: literal(str(path)) for name, path in names.items()})
    with sources.open("t", isolated=isolated) as database:
        with pytest.raises(ToolError) as caught:
            database.rows(text)
        assert SECRET not in str(caught.value)
        assert database.rows("SELECT count(*) FROM t") == [(10,)]
    assert not made.exists()


def test_an_isolated_engine_cannot_write_its_own_source(folder: Path, sources: Sources) -> None:
    """An allowed path may also be written, so who runs the SQL of others gets an engine without any."""
    path = sources.files["t"].path
    before = path.read_bytes()
    with sources.open("t", isolated=True) as database, pytest.raises(ToolError):
        database.rows(f"COPY (SELECT 1) TO {literal(str(path))} (FORMAT csv, USE_TMP_FILE false)")
    assert path.read_bytes() == before


@pytest.mark.parametrize("isolated", [False, True])
def test_the_callers_variables_are_not_visible(sources: Sources, isolated: bool) -> None:
    secret_rows = duckdb.sql(f"SELECT '{SECRET}' AS a")
    assert secret_rows.fetchall() == [(SECRET,)]
    with sources.open("t", isolated=isolated) as database, pytest.raises(ToolError) as caught:
        database.rows("SELECT * FROM secret_rows")
    assert SECRET not in str(caught.value)


def test_memory_and_threads_are_bounded(sources: Sources) -> None:
    with sources.open("t") as database:
        settings = dict(database.rows("SELECT name, value FROM duckdb_settings()"))
        assert settings["threads"] == "1"
        assert settings["memory_limit"] in ("1.0 GiB", "1024.0 MiB")
        assert settings["temp_directory"] in ("", None)
        with pytest.raises(ToolError) as caught:
            database.rows("SELECT sum(len(l)) FROM (SELECT list(r.range) AS l FROM range(300000000) r)")
        assert caught.value.code == "tool.out_of_memory"


@pytest.mark.parametrize("text", ["plain", "it's", '"', "a\\b", "--", ";", "ünï", "", "'); DROP TABLE t; --"])
def test_literals_and_names_are_only_that(sources: Sources, text: str) -> None:
    with sources.open("t") as database:
        assert database.rows(f"SELECT {literal(text)} AS {quoted(text or 'x')}") == [(text,)]


def test_a_nul_is_refused() -> None:
    with pytest.raises(ToolError) as caught:
        literal("a\0b")
    assert caught.value.code == "tool.bad_arguments"
