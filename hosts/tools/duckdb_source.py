"""Opening the sources of a package in a DuckDB that can reach nothing else.

An in-memory database gets one view a source, over exactly that file. Before the first statement that anybody else had a
hand in, the engine is locked: no file, network or extension but the named files, no change of settings, no look at the
caller's Python variables, a cap on memory and threads, nothing spilled to disk. A caller who lets others write the SQL
opens ``isolated``: the rows are copied into memory and the engine then may touch no file at all, since an allowed path
could also be written (``COPY … TO`` it).

One file is read in place and never written. Formats by suffix: ``.parquet``, ``.csv``/``.tsv``/``.csv.gz``, ``.duckdb``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import duckdb

from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.limits import DUCKDB_MEMORY_BYTES_MAX, DUCKDB_THREADS_MAX

from .duckdb_allowance import Allowance
from .duckdb_fingerprint import Fingerprint, check_as_prepared, damaged, fingerprint

__all__ = ["Allowance", "Database", "SourceFile", "Sources", "literal", "quoted"]

_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Where a source lies. ``table`` is its name inside a ``.duckdb`` file; ``nulls`` are texts that mean null in a CSV."""

    path: Path
    table: str | None = None
    nulls: tuple[str, ...] = ("",)


class Database:
    """A locked connection. ``rows`` runs one statement of ours; ``columns`` names the columns of a source.

    ``queries`` keeps what was asked, to be shown; the allowance counts the rows that were scanned for it.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, files: Mapping[str, SourceFile], allowance: Allowance
    ) -> None:
        self._connection = connection
        self._files = files
        self._allowance = allowance
        self.queries: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def columns(self, source: str) -> dict[str, str]:
        """Column → DuckDB type of a source."""
        return {str(row[0]): str(row[1]) for row in self._run(f"DESCRIBE SELECT * FROM {quoted(source)}")}

    def require(self, source: str, wanted: Sequence[str]) -> None:
        """Raises ``ToolError`` ``tool.column_missing`` naming every wanted column that the source lacks."""
        there = self.columns(source)
        absent = [name for name in dict.fromkeys(wanted) if name not in there]
        if absent:
            raise ToolError(
                "tool.column_missing",
                f"The source {source} has no column {', '.join(map(repr, absent))}.",
                place=str(self._files[source].path),
                hint=f"It has: {', '.join(there)}. Correct semantics.yaml or the file.",
            )

    def rows(self, query: str, scans: str | None = None) -> list[tuple[Any, ...]]:
        """Every row of one query, which is kept in ``queries``. ``scans`` names the source that it reads through.

        Raises ``ToolError`` ``tool.rows_exceeded`` before a scan that the allowance does not cover.
        """
        if scans is not None:
            self._allowance.charge(self.count(scans))
        self.queries.append(query)
        return self._run(query)

    def measured(self, query: str, parameters: Sequence[Any], scans: str) -> list[tuple[Any, ...]]:
        """Every row of one query whose values come as parameters."""
        self._allowance.charge(self.count(scans))
        try:
            return self._connection.execute(query, list(parameters)).fetchall()
        except duckdb.Error as error:
            raise self._fault(error) from None

    def count(self, source: str) -> int:
        """The rows of a source."""
        return int(self._run(f"SELECT count(*) FROM {quoted(source)}")[0][0])

    def table(self, query: str, rows_max: int) -> tuple[list[str], list[tuple[Any, ...]], bool]:
        """(columns, at most ``rows_max`` rows, whether there were more) of one query."""
        self.queries.append(query)
        try:
            cursor = self._connection.execute(query)
            names = [str(column[0]) for column in cursor.description or ()]
            found = cursor.fetchmany(rows_max + 1)
        except duckdb.Error as error:
            raise self._fault(error) from None
        return names, found[:rows_max], len(found) > rows_max

    def parsed(self, query: str) -> Any:
        """The engine's own syntax tree of a statement, as data."""
        text = self._run("SELECT json_serialize_sql(" + literal(query) + ")")[0][0]
        return json.loads(text)

    def _run(self, query: str) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query).fetchall()
        except duckdb.Error as error:
            raise self._fault(error) from None

    def _fault(self, error: duckdb.Error) -> ToolError:
        place = ", ".join(str(file.path) for file in self._files.values())
        first = str(error).strip().splitlines()[0]
        if isinstance(error, duckdb.OutOfMemoryException):
            return ToolError(
                "tool.out_of_memory", "The query needs more memory than a read may use.", place=place
            )
        if isinstance(error, duckdb.PermissionException):
            return ToolError("tool.not_allowed", "The query reaches beyond its sources.", hint=first)
        if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
            return ToolError(
                "tool.column_missing", f"The query does not fit its source: {first}", place=place
            )
        if isinstance(error, duckdb.ParserException):
            return ToolError("tool.bad_query", f"The query cannot be read: {first}")
        if isinstance(error, duckdb.IOException | duckdb.InvalidInputException | duckdb.ConversionException):
            return damaged(place, first)
        return ToolError("tool.query_failed", f"The query failed: {first}", place=place)


@dataclass(slots=True)
class Sources:
    """The located sources of a package. ``used`` collects the fingerprint of every source that was opened."""

    files: Mapping[str, SourceFile]
    allowance: Allowance = field(default_factory=Allowance)
    used: dict[str, Fingerprint] = field(default_factory=dict)

    def open(self, *names: str, isolated: bool = False) -> Database:
        """A locked database with one view (``isolated``: one table) a name. See the module for what locked means."""
        chosen: dict[str, SourceFile] = {}
        for name in dict.fromkeys(names):
            if name not in self.files:
                raise ToolError(
                    "tool.source_missing",
                    f"The package locates no source {name!r}.",
                    hint=f"Located: {', '.join(sorted(self.files)) or 'none'}. Add it under [sources] of agent.toml.",
                )
            located = self.files[name]
            path = Path(os.path.realpath(located.path))
            self.used[name] = fingerprint(path)
            check_as_prepared(path, self.used[name])
            chosen[name] = SourceFile(path, located.table, located.nulls)
        return Database(_locked(chosen, isolated), chosen, self.allowance)

    def unchanged(self) -> None:
        """Raises ``ToolError`` ``tool.source_changed`` where a source that was opened is not what it was then."""
        for name, before in self.used.items():
            path = Path(os.path.realpath(self.files[name].path))
            if fingerprint(path) != before:
                raise ToolError(
                    "tool.source_changed", f"The source {name} changed while it was read.", place=str(path)
                )


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | float | bool) -> str:
    """A value as an SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    if "\0" in value:
        raise ToolError("tool.bad_arguments", "A text with a NUL cannot stand in a query.")
    return "'" + value.replace("'", "''") + "'"


def _locked(files: Mapping[str, SourceFile], isolated: bool) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": DUCKDB_THREADS_MAX,
            "memory_limit": f"{DUCKDB_MEMORY_BYTES_MAX}B",
            "temp_directory": "",  # nothing spills to disk
            "python_enable_replacements": False,  # or a query could read the caller's variables by name
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    try:
        if not isolated:
            _lock_paths(connection, files)
        for name, file in files.items():
            try:
                _add(connection, name, file, isolated)
            except duckdb.Error as error:
                raise _open_fault(file, error) from None
        if isolated:
            connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _lock_paths(connection: duckdb.DuckDBPyConnection, files: Mapping[str, SourceFile]) -> None:
    """From here on the engine may open the files and nothing else.

    A path with glob marks is named twice: as it is, and escaped as the reading functions need it.
    """
    plain = [str(file.path) for file in files.values()]
    allowed = list(dict.fromkeys(plain + [_unglobbed(path) for path in plain]))
    for file in files.values():
        if file.path.suffix == ".duckdb":
            # Attached while we still may: a database's log would need further paths.
            _attach(connection, file)
    connection.execute(f"SET allowed_paths = [{', '.join(literal(path) for path in allowed)}]")
    connection.execute("SET enable_external_access = false")


def _add(connection: duckdb.DuckDBPyConnection, name: str, file: SourceFile, isolated: bool) -> None:
    lower = file.path.name.lower()
    if lower.endswith(".duckdb"):
        if isolated:
            _attach(connection, file)
        reader = f"{quoted(_alias(file))}.main.{quoted(file.table or name)}"
    elif lower.endswith(_CSV):
        nulls = ", ".join(literal(text) for text in file.nulls)
        # The whole file decides the types: a sample would let a late row fail or change them.
        reader = f"read_csv({literal(_unglobbed(str(file.path)))}, nullstr = [{nulls}], sample_size = -1)"
    elif lower.endswith(".parquet"):
        reader = f"read_parquet({literal(_unglobbed(str(file.path)))})"
    else:
        raise damaged(file.path, "The suffix tells no format that is read here (.parquet, .csv, .duckdb).")
    kind = "TABLE" if isolated else "VIEW"
    connection.execute(f"CREATE {kind} {quoted(name)} AS SELECT * FROM {reader}")
    if isolated and lower.endswith(".duckdb"):
        connection.execute(f"DETACH {quoted(_alias(file))}")


def _attach(connection: duckdb.DuckDBPyConnection, file: SourceFile) -> None:
    try:
        connection.execute(f"ATTACH {literal(str(file.path))} AS {quoted(_alias(file))} (READ_ONLY)")
    except duckdb.Error as error:
        raise _open_fault(file, error) from None


def _alias(file: SourceFile) -> str:
    return "file_" + hashlib.sha256(str(file.path).encode()).hexdigest()[:12]


def _unglobbed(path: str) -> str:
    return re.sub(r"([\[*?])", r"[\1]", path)


def _open_fault(file: SourceFile, error: duckdb.Error) -> ToolError:
    first = str(error).strip().splitlines()[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        return ToolError(
            "tool.out_of_memory", "The file needs more memory than a read may use.", place=str(file.path)
        )
    if isinstance(error, duckdb.CatalogException):
        return ToolError(
            "tool.source_missing", f"The database has no such table: {first}", place=str(file.path)
        )
    return damaged(file.path, first)
