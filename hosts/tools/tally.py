"""``verify.tally``: plain grouped counts of raw columns, for the verifier's own recomputation.

It knows nothing of metrics or dimensions: typed columns, typed predicates, counts and one sum. Its SQL is written by other
code than that of the metric tools, with every value as a parameter. The answer is columnar, each column a dictionary of
its distinct values and a code a row, so a tally of many groups stays small.

    source   a source of the package
    groups   [{"name", "column", "part": "text" | "month" | "day"}]      month and day of a date column, as texts
             [{"name", "below": [numbers], "column"}]                     the number of bounds that the value is not below
    where    [{"column", "op", "value"}], or {"column", "part", "in": [texts]}
    counts   {name: [predicates]}: the rows of a group that satisfy all of them
    sums     {name: {"column", "where": [predicates]}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.predicate import Predicate
from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.limits import TALLY_ROWS_MAX, TOOL_TIMEOUT_SECONDS_DEFAULT

from .context import Tool
from .duckdb_source import Sources, quoted
from .metrics_cells import DataContext
from .metrics_package import reading

Parameters = list[Any]
_PREDICATES = TypeAdapter(list[Predicate])
_PARTS = {
    "text": "CAST({} AS VARCHAR)",
    "month": "strftime(CAST({} AS DATE), '%Y-%m')",
    "day": "strftime(CAST({} AS DATE), '%Y-%m-%d')",
}
_SIGNS: dict[str, Callable[[str], str]] = {
    "=": lambda column: f"{column} IS NOT DISTINCT FROM ?",
    "!=": lambda column: f"{column} IS DISTINCT FROM ? AND {column} IS NOT NULL",
    "<": lambda column: f"? > {column}",
    "<=": lambda column: f"NOT ({column} > ?)",
    ">": lambda column: f"? < {column}",
    ">=": lambda column: f"NOT ({column} < ?)",
}


def tally(sources: Sources, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The counts. Raises ``ToolError`` ``tool.too_many_groups`` over ``TALLY_ROWS_MAX`` groups."""
    source = str(arguments["source"])
    parameters: Parameters = []
    keys = {str(group["name"]): _group(group, parameters) for group in arguments["groups"]}
    measures = {name: _count(part, parameters) for name, part in arguments["counts"].items()}
    measures |= {name: _sum(part, parameters) for name, part in (arguments.get("sums") or {}).items()}
    wheres = [_where(item, parameters) for item in arguments.get("where") or ()]
    selected = [f"{text} AS {quoted(name)}" for name, text in (keys | measures).items()]
    places = ", ".join(str(index + 1) for index in range(len(keys)))
    query = f"SELECT {', '.join(selected)} FROM {quoted(source)}"
    query += f" WHERE {' AND '.join(f'({text})' for text in wheres)}" if wheres else ""
    query += f" GROUP BY {places} ORDER BY {places}" if keys else ""
    with sources.open(source) as database:
        database.require(source, _columns(arguments))
        found = database.measured(f"{query} LIMIT {TALLY_ROWS_MAX + 1}", parameters, source)
    if len(found) > TALLY_ROWS_MAX:
        raise ToolError(
            "tool.too_many_groups",
            f"The recount of {source} needs more than {TALLY_ROWS_MAX} groups.",
            hint="Choose a coarser dimension.",
        )
    width = len(keys)
    return {
        "kind": "tally",
        "source": source,
        "rows": len(found),
        "groups": {name: _coded([row[index] for row in found]) for index, name in enumerate(keys)},
        "measures": {name: [row[width + index] for row in found] for index, name in enumerate(measures)},
        "query": query,
    }


def _group(group: Mapping[str, Any], parameters: Parameters) -> str:
    column = quoted(str(group["column"]))
    if "below" in group:
        parameters.extend(group["below"])
        reached = " + ".join(f"CAST({column} >= ? AS INTEGER)" for _ in group["below"])
        return f"CAST({reached} AS VARCHAR)"
    return _PARTS[group.get("part", "text")].format(column)


def _count(predicates: Any, parameters: Parameters) -> str:
    return f"CAST(coalesce(sum(CASE WHEN {_all(predicates, parameters)} THEN 1 ELSE 0 END), 0) AS BIGINT)"


def _sum(part: Mapping[str, Any], parameters: Parameters) -> str:
    condition = _all(part.get("where") or [], parameters)
    return f"sum(CASE WHEN {condition} THEN {quoted(str(part['column']))} END)"


def _where(item: Mapping[str, Any], parameters: Parameters) -> str:
    if "part" in item:
        parameters.append(list(item["in"]))
        return f"list_contains(?, {_PARTS[item['part']].format(quoted(str(item['column'])))})"
    return _all([item], parameters)


def _all(predicates: Any, parameters: Parameters) -> str:
    return " AND ".join(f"({_holds(part, parameters)})" for part in _read(predicates)) or "TRUE"


def _holds(part: Predicate, parameters: Parameters) -> str:
    column = quoted(part.column)
    if part.op == "is_null":
        return f"{column} IS NULL"
    if part.op == "not_null":
        return f"NOT ({column} IS NULL)"
    if isinstance(part.value, tuple):
        parameters.extend(part.value)
        return " OR ".join(f"{column} IS NOT DISTINCT FROM ?" for _ in part.value)
    parameters.append(part.value)
    return _SIGNS[part.op](column)


def _read(predicates: Any) -> list[Predicate]:
    try:
        return _PREDICATES.validate_python(predicates)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ToolError("tool.bad_arguments", f"A predicate cannot be read: {first['msg']}.") from None


def _columns(arguments: Mapping[str, Any]) -> list[str]:
    sums = list((arguments.get("sums") or {}).values())
    conditions = [item for part in arguments["counts"].values() for item in part]
    conditions += [item for part in sums for item in part.get("where") or ()]
    items = [*arguments["groups"], *(arguments.get("where") or ()), *conditions, *sums]
    return [str(item["column"]) for item in items]


def _coded(values: list[str | None]) -> dict[str, Any]:
    known: dict[str | None, int] = {}
    codes = [known.setdefault(value, len(known)) for value in values]
    return {"values": list(known), "codes": codes}


_PREDICATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"column": {"type": "string"}, "op": {"type": "string"}, "value": {}},
    "required": ["column"],
}
_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "source": {"type": "string"},
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "column": {"type": "string"},
                    "part": {"enum": ["text", "month", "day"]},
                    "below": {"type": "array", "items": {"type": "number"}, "minItems": 1},
                },
                "required": ["name", "column"],
                "additionalProperties": False,
            },
        },
        "where": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **_PREDICATE_SCHEMA["properties"],
                    "part": {"enum": ["text", "month", "day"]},
                    "in": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                },
                "required": ["column"],
                "additionalProperties": False,
            },
        },
        "counts": {"type": "object", "additionalProperties": {"type": "array", "items": _PREDICATE_SCHEMA}},
        "sums": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "column": {"type": "string"},
                    "where": {"type": "array", "items": _PREDICATE_SCHEMA},
                },
                "required": ["column"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["source", "groups", "counts"],
    "additionalProperties": False,
}


def _answer(context: DataContext, arguments: dict[str, Any]) -> dict[str, Any]:
    return tally(context.sources, arguments)


def tools(server: str = "verify", timeout_seconds: int = TOOL_TIMEOUT_SECONDS_DEFAULT) -> tuple[Tool, ...]:
    """The one tool of the verifier's own host."""
    return (
        Tool(
            Descriptor(
                server=server,
                name="tally",
                description="Grouped counts of raw columns under typed predicates.",
                input_schema=_INPUT,
                output_schema={"type": "object", "required": ["kind", "rows", "groups", "measures"]},
                effect="read",
                idempotency="natural",
                timeout_seconds=timeout_seconds,
            ),
            reading(_answer),
            preload=("duckdb",),
        ),
    )
