"""``append`` writes one typed record into a table of a SQLite file; ``find`` reads records back.

The table is made when it is missing: the declared columns, and ``duly_key``, which is unique. A repeat with the same key
finds the record there and writes nothing, so the effect happens once however often it is tried.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.manifest import RecordColumn, SqliteTools
from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.limits import RECORDS_FOUND_MAX

from .context import CallContext, Tool
from .sqlite_reader import BUSY_SECONDS, SqliteReader, fault_of

KEY_COLUMN = "duly_key"
_SQL_TYPES = {"text": "TEXT", "integer": "INTEGER", "real": "REAL"}
_JSON_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "maxLength": 100_000},
    "integer": {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1},
    "real": {"type": "number"},
}


def tools(server: str, entry: SqliteTools) -> tuple[Tool, ...]:
    """The two tools of one server of the manifest."""
    record = _record_schema(entry)
    found = {**record, "required": []}
    append = Descriptor(
        server=server,
        name="append",
        description=f"Writes one record into the table {entry.table} of {entry.file}, once for each idempotency key.",
        input_schema=_object({"record": record}),
        output_schema=_object({"key": {"type": "string"}, "written": {"type": "boolean"}, "record": record}),
        effect="write",
        resource=entry.resource,
        idempotency="key",
        probe="find",
        timeout_seconds=entry.timeout_seconds,
    )
    find = Descriptor(
        server=server,
        name="find",
        description=f"The records of the table {entry.table} with this key, or with these values; the latest first.",
        input_schema=_object({"key": {"type": "string", "maxLength": 256}, "where": found}, required=[]),
        output_schema=_object(
            {
                "records": {
                    "type": "array",
                    "items": _object({"key": {"type": "string"}, "record": {"type": "object"}}),
                },
                "count": {"type": "integer"},
            }
        ),
        effect="read",
        resource=entry.resource,
        idempotency="natural",
        timeout_seconds=entry.timeout_seconds,
    )
    return (
        Tool(append, lambda call, arguments: append_record(call, entry, arguments["record"])),
        Tool(find, lambda call, arguments: find_records(call, entry, arguments)),
    )


def append_record(call: CallContext, entry: SqliteTools, record: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the record under the call's idempotency key, unless it is there.

    Raises ``ToolError``: ``tool.key_missing``; ``tool.key_conflict`` where another record has the key;
    ``tool.column_missing`` where the table is of another shape; ``tool.busy`` (transient: nothing was written).
    """
    key = call.idempotency_key
    if not key:
        raise ToolError("tool.key_missing", "A record is written under an idempotency key, and none came.")
    path = _file(call, entry)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    values = {name: record.get(name) for name in entry.columns}
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        raise fault_of(error, path) from None
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_create(entry))
        _check_columns(connection, entry, path)
        written = connection.execute(_insert(entry), [key, *values.values()]).rowcount == 1
        there = connection.execute(_select(entry, [KEY_COLUMN]), [key]).fetchone()
        if dict(zip(entry.columns, there[1:], strict=True)) != values:
            raise ToolError(
                "tool.key_conflict", "Another record has been written under this key.", place=str(path)
            )
        # If we crash before this line nothing was written; after it the record stays, and a repeat finds it.
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise fault_of(error, path) from None
    finally:
        connection.close()
    return {
        "key": key,
        "written": written,
        "record": {name: value for name, value in values.items() if name in record},
    }


def find_records(call: CallContext, entry: SqliteTools, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The records with a key or with values, at most ``RECORDS_FOUND_MAX``; none where there is no file or table yet."""
    asked = dict(arguments.get("where", {}))
    if "key" in arguments:
        asked[KEY_COLUMN] = arguments["key"]
    path = _file(call, entry)
    if not path.exists():
        return {"records": [], "count": 0}
    with SqliteReader(path) as reader:
        _, there, _ = reader.rows(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", [entry.table], rows_max=1
        )
        if not there:
            return {"records": [], "count": 0}
        _, rows, call.truncated = reader.rows(
            _select(entry, asked), list(asked.values()), rows_max=RECORDS_FOUND_MAX
        )
    call.rows_scanned += len(rows)
    records = [
        {
            "key": row[0],
            "record": {
                name: value for name, value in zip(entry.columns, row[1:], strict=True) if value is not None
            },
        }
        for row in rows
    ]
    return {"records": records, "count": len(records)}


def _file(call: CallContext, entry: SqliteTools) -> Path:
    """The file in the data folder; a link that leads out of it is refused."""
    path = call.data.joinpath(*entry.file.split("/"))
    real, root = os.path.realpath(path), os.path.realpath(call.data)
    if os.path.commonpath([real, root]) != root:
        raise ToolError(
            "tool.not_allowed", "The file lies outside of the package's data folder.", place=str(path)
        )
    return path


def _create(entry: SqliteTools) -> str:
    columns = [f"{_quoted(KEY_COLUMN)} TEXT NOT NULL UNIQUE"]
    for name, column in entry.columns.items():
        columns.append(f"{_quoted(name)} {_SQL_TYPES[column.type]}{' NOT NULL' if column.required else ''}")
    return f"CREATE TABLE IF NOT EXISTS {_quoted(entry.table)} ({', '.join(columns)})"


def _insert(entry: SqliteTools) -> str:
    names = ", ".join(_quoted(name) for name in (KEY_COLUMN, *entry.columns))
    marks = ", ".join("?" for _ in range(len(entry.columns) + 1))
    return (
        f"INSERT INTO {_quoted(entry.table)} ({names}) VALUES ({marks})"
        f" ON CONFLICT ({_quoted(KEY_COLUMN)}) DO NOTHING"
    )


def _select(entry: SqliteTools, by: Mapping[str, Any] | list[str]) -> str:
    names = ", ".join(_quoted(name) for name in (KEY_COLUMN, *entry.columns))
    where = " AND ".join(f"{_quoted(name)} IS ?" for name in by)
    only = f" WHERE {where}" if where else ""
    return f"SELECT {names} FROM {_quoted(entry.table)}{only} ORDER BY rowid DESC"


def _check_columns(connection: sqlite3.Connection, entry: SqliteTools, path: Path) -> None:
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(entry.table)})")}
    absent = [name for name in (KEY_COLUMN, *entry.columns) if name not in there]
    if absent:
        raise ToolError(
            "tool.column_missing",
            f"The table {entry.table} has no column {', '.join(absent)}.",
            place=str(path),
            hint="It was made by something else, or for another version of the package.",
        )


def _record_schema(entry: SqliteTools) -> dict[str, Any]:
    return _object(
        {name: _column_schema(column) for name, column in entry.columns.items()},
        required=[name for name, column in entry.columns.items() if column.required],
    )


def _column_schema(column: RecordColumn) -> dict[str, Any]:
    schema = dict(_JSON_TYPES[column.type])
    if column.description:
        schema["description"] = column.description
    return schema


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties) if required is None else required,
        "additionalProperties": False,
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
