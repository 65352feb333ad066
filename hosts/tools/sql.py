"""``query``: one read-only SQL query over the sources that the manifest names.

Read-only is the engine's doing first: an isolated DuckDB holds copies of the rows and may touch nothing else
(``duckdb_source``); a SQLite file is opened through an authorizer (``sqlite_reader``). Reading the statement comes
second: exactly one, a query, with table functions of a short list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.manifest import SourceEntry, SqlTools
from duly.protocol.wire.errors import ToolError

from .context import CallContext, Tool
from .survey import source_files

QUERY_CHARS_MAX = 20_000
TABLE_FUNCTIONS = frozenset(("range", "generate_series", "unnest"))

_INPUT = {
    "type": "object",
    "properties": {"sql": {"type": "string", "minLength": 1, "maxLength": QUERY_CHARS_MAX}},
    "required": ["sql"],
    "additionalProperties": False,
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "array"}},
        "truncated": {"type": "boolean"},
        "query": {"type": "string"},
    },
    "required": ["columns", "rows", "truncated", "query"],
    "additionalProperties": False,
}


def tools(server: str, entry: SqlTools, located: Mapping[str, SourceEntry]) -> tuple[Tool, ...]:
    """The query tool of one server of the manifest; ``located`` says where its sources lie."""

    def run(call: CallContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return query(call, entry, located, str(arguments["sql"]))

    named = ", ".join(entry.sources)
    return (
        Tool(
            Descriptor(
                server=server,
                name="query",
                description=f"One read-only SQL query over {named}; at most {entry.rows_max} rows are returned.",
                input_schema=_INPUT,
                output_schema=_OUTPUT,
                effect="read",
                resource=f"sources:{','.join(entry.sources)}",
                idempotency="natural",
                timeout_seconds=entry.timeout_seconds,
            ),
            run,
            preload=("duckdb",),
        ),
    )


def query(call: CallContext, entry: SqlTools, located: Mapping[str, SourceEntry], sql: str) -> dict[str, Any]:
    """Columns and rows of one query. Raises ``ToolError``: ``tool.bad_query``, ``tool.not_allowed`` and more."""
    from .duckdb_source import Allowance, Sources

    sources = Sources(source_files(call.package, call.data, located), Allowance(call.rows_max))
    with sources.open(*entry.sources, isolated=True) as database:
        check_statement(database.parsed(sql))
        for name in entry.sources:
            sources.allowance.charge(database.count(name))
        columns, rows, truncated = database.table(sql, entry.rows_max)
    sources.unchanged()
    call.fingerprints.update({name: found.sha256 for name, found in sources.used.items()})
    call.rows_scanned += sources.allowance.scanned
    call.truncated = truncated
    return {"columns": columns, "rows": [list(row) for row in rows], "truncated": truncated, "query": sql}


def check_statement(tree: Any) -> None:
    """Refuses everything but one query. ``tree`` is the engine's own syntax tree, which exists for queries only."""
    if tree.get("error"):
        kind, said = str(tree.get("error_type", "")), str(tree.get("error_message", ""))
        if kind == "parser":
            raise ToolError("tool.bad_query", f"The query cannot be read: {said.splitlines()[0][:300]}")
        raise ToolError(
            "tool.not_allowed", "Only a query is allowed here.", hint="Write one SELECT statement."
        )
    statements = tree.get("statements", [])
    if len(statements) != 1:
        raise ToolError(
            "tool.not_allowed",
            f"One statement is allowed, these are {len(statements)}.",
            hint="Send them one by one.",
        )
    for function in _table_functions(statements[0]):
        if function.lower() not in TABLE_FUNCTIONS:
            raise ToolError("tool.not_allowed", f"The table function {function[:60]!r} is not allowed here.")


def _table_functions(node: Any) -> Iterator[str]:
    """The names of all table functions in a syntax tree. The tree is as deep as the engine's parser allows."""
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            if current.get("type") == "TABLE_FUNCTION":
                yield str((current.get("function") or {}).get("function_name", ""))
            pending += current.values()
        elif isinstance(current, list):
            pending += current
