"""JSON Schemas that a language model can be held to: closed, bounded, without what strict structured output lacks.

Strict structured output wants every property required and no other allowed, and knows few keywords. So an optional
property becomes one that may be null, narrowing keywords (``pattern``, ``minimum``, ``not``, ...) fall away, and whatever
says nothing of its values, or nests too deep, becomes an *open* place with a spelling of its own:

    {"entries": [{"name": "a", "value": 1}]}      a map whose keys no schema names
    {"json": "[1, 2]"}                            any other value, as JSON text
    {"from_step": "s1", "pointer": "/rows/0"}     a reference (``$ref`` in duly's own form)

``strict`` makes such a schema, ``model_value`` reads a value of it back. What was lost on the way (a pattern, a minimum) is
judged afterwards against the schema itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..wire.limits import (
    MODEL_ENUM_ENTRIES_MAX,
    MODEL_LIST_ITEMS_MAX,
    MODEL_NAME_CHARS_MAX,
    MODEL_SCHEMA_BYTES_MAX,
    MODEL_SCHEMA_DEPTH_MAX,
    MODEL_SCHEMA_PROPERTIES_MAX,
    MODEL_STRING_CHARS_MAX,
)

Schema = dict[str, Any]
NULL: Schema = {"type": "null"}
_SCALARS = (str, int, float, bool, type(None))
KINDS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", list: "array", dict: "object",
}  # fmt: skip


def closed(properties: Mapping[str, Schema]) -> Schema:
    """An object with exactly these properties, all of them required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def either(*choices: Schema) -> Schema:
    """One of these schemas; nested choices are laid flat, equal ones once."""
    flat: list[Schema] = []
    for choice in choices:
        for one in choice["anyOf"] if list(choice) == ["anyOf"] else [choice]:
            if one not in flat:
                flat.append(one)
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def text(chars_max: int = MODEL_STRING_CHARS_MAX) -> Schema:
    return {"type": "string", "maxLength": chars_max}


def defined(name: str) -> Schema:
    """A schema by its name among the definitions."""
    return {"$ref": f"#/$defs/{name}"}


def strict(schema: Any, *, references: bool = False) -> Schema:
    """The strict form of a JSON Schema. With ``references`` every value inside may be a reference instead."""
    return _Writing(schema, references).node(schema, 0)


def definitions(*, references: bool = False, step_ids: list[str] | None = None) -> dict[str, Schema]:
    """What strict forms name: ``value``, ``object``, and with ``references`` the ``reference`` to one of these steps."""
    value = either(text(), {"type": "number"}, {"type": "boolean"}, NULL, closed({"json": text()}))
    found: dict[str, Schema] = {"value": value}
    held = defined("value")
    if references:
        ids: Schema = {"type": "string", "enum": list(step_ids or [])}
        found["reference"] = closed({"from_step": ids, "pointer": text(MODEL_NAME_CHARS_MAX)})
        held = either(held, defined("reference"))
    entry = closed({"name": text(MODEL_NAME_CHARS_MAX), "value": held})
    found["object"] = closed({"entries": {"type": "array", "items": entry, "maxItems": MODEL_LIST_ITEMS_MAX}})
    return found


def whole(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    """A schema with those of the known definitions that it needs, theirs included."""
    needed: dict[str, Schema] = {}
    waiting: list[Any] = [schema]
    while waiting:
        for name in _names_in(waiting.pop()):
            if name not in needed:
                needed[name] = known[name]
                waiting.append(known[name])
    return {**schema, "$defs": needed} if needed else schema


def fits(schema: Schema) -> bool:
    """Whether a schema is small enough for servers that compile it into a grammar."""
    if len(json.dumps(schema, separators=(",", ":"))) > MODEL_SCHEMA_BYTES_MAX:
        return False
    return sum(len(node.get("properties", ())) for node in _maps(schema)) <= MODEL_SCHEMA_PROPERTIES_MAX


def _maps(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _names_in(value: Any) -> Iterator[str]:
    for node in _maps(value):
        target = node.get("$ref")
        if isinstance(target, str):
            yield target.rpartition("/")[2]


def resolved(schema: Any, root: Schema) -> Any:
    """A schema with a reference into its own document followed; ``{}`` where it leads nowhere or in a circle."""
    for _ in range(MODEL_SCHEMA_DEPTH_MAX):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        target = schema["$ref"]
        if not isinstance(target, str) or not target.startswith("#/"):
            return {}
        found: Any = root
        for part in target[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        schema = found
    return {}


class _Writing:
    """One schema on its way into its strict form. ``room`` bounds the nodes: a schema may name itself many times over."""

    def __init__(self, root: Any, references: bool) -> None:
        self._root = root if isinstance(root, dict) else {}
        self._references = references
        self._room = MODEL_SCHEMA_PROPERTIES_MAX

    def node(self, schema: Any, depth: int) -> Schema:
        schema = resolved(schema, self._root)
        self._room -= 1
        if not isinstance(schema, dict) or not schema or depth > MODEL_SCHEMA_DEPTH_MAX or self._room < 0:
            return defined("value")
        listed = [schema["const"]] if "const" in schema else schema.get("enum")
        if listed is not None:
            return _listed(listed)
        for name in ("anyOf", "oneOf"):
            if isinstance(schema.get(name), list) and schema[name]:
                return either(*(self.node(one, depth + 1) for one in schema[name]))
        if "type" not in schema and isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
            return self.node(schema["allOf"][0], depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            return either(*(self.node({**schema, "type": one}, depth + 1) for one in kind))
        if kind is None:
            kind = "object" if "properties" in schema else "array" if "items" in schema else None
        return self._typed(kind, schema, depth)

    def _typed(self, kind: Any, schema: Schema, depth: int) -> Schema:
        if kind == "string":
            return text(_bound(schema, "maxLength", MODEL_STRING_CHARS_MAX))
        if kind == "array":
            items = self._slot(schema.get("items", {}), depth + 1)
            return {
                "type": "array",
                "items": items,
                "maxItems": _bound(schema, "maxItems", MODEL_LIST_ITEMS_MAX),
            }
        if kind == "object":
            return self._object(schema, depth)
        return {"type": kind} if kind in ("integer", "number", "boolean", "null") else defined("value")

    def _slot(self, schema: Any, depth: int) -> Schema:
        node = self.node(schema, depth)
        return either(node, defined("reference")) if self._references else node

    def _object(self, schema: Schema, depth: int) -> Schema:
        if _is_open(schema) or depth >= MODEL_SCHEMA_DEPTH_MAX:
            return defined("object")
        required = required_of(schema)
        found = {}
        for name, part in properties_of(schema).items():
            slot = self._slot(part, depth + 1)
            found[name] = slot if name in required else either(slot, NULL)
        return closed(found)


def properties_of(schema: Schema) -> dict[str, Any]:
    """The named properties of an object's schema; none where a stranger wrote something else there."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def required_of(schema: Schema) -> list[Any]:
    found = schema.get("required")
    return found if isinstance(found, list) else []


def _bound(schema: Schema, name: str, most: int) -> int:
    value = schema.get(name)
    return min(value, most) if type(value) is int and value >= 0 else most


def _listed(values: Any) -> Schema:
    if not isinstance(values, list) or not 0 < len(values) <= MODEL_ENUM_ENTRIES_MAX:
        return defined("value")
    if not all(isinstance(value, _SCALARS) for value in values):
        return defined("value")
    kinds = {KINDS[type(value)] for value in values}
    return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 else {"enum": values}


def _is_open(schema: Schema) -> bool:
    """Whether an object's schema leaves its keys open, so that a model writes them as entries.

    Names that begin with ``$`` mean something to JSON Schema itself; converters of servers stumble over them.
    """
    properties = properties_of(schema)
    if not properties:
        return schema.get("additionalProperties") is not False
    return any(name.startswith("$") for name in properties) or len(properties) > MODEL_LIST_ITEMS_MAX


def types_of(schema: Schema) -> set[str]:
    """The types of the values that a schema takes; every type where it names none."""
    kind = schema.get("type")
    kinds = {kind} if isinstance(kind, str) else set(kind) if isinstance(kind, list) else set(KINDS.values())
    return kinds | {"integer"} if "number" in kinds else kinds
