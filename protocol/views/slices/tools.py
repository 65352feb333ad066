"""Granted tools as a model reads of them: what each does, takes and gives; more briefly where there are many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...plan.descriptor import Descriptor
from ...wire.limits import MODEL_TOOLS_BYTES_MAX
from .handles import readable
from .marked import size

_DESCRIPTION_CHARS = 600
_SCHEMA_BYTES = 2_500
_BRIEF_CHARS = 160


def tools(
    descriptors: Mapping[str, Descriptor], *, gives: bool = True, bytes_max: int = MODEL_TOOLS_BYTES_MAX
) -> list[dict[str, Any]]:
    """One entry a tool, by name. What a tool takes stands as its schema, as a signature, or (of very many tools) as names;
    what it gives as a signature, which is enough to point into it.

    Every granted tool is named, whatever ``bytes_max`` says.
    """
    ordered = [descriptors[name] for name in sorted(descriptors)]
    for told in (_whole, _signed, _brief):
        found = [told(one, gives) for one in ordered]
        if size(found) <= bytes_max:
            return found
    return [{"tool": one.full_name, "effect": one.effect} for one in ordered]


def _head(one: Descriptor, characters: int) -> dict[str, Any]:
    head: dict[str, Any] = {"tool": one.full_name, "does": one.description[:characters], "effect": one.effect}
    return {**head, "resource": one.resource[:200]} if one.resource else head


def _whole(one: Descriptor, gives: bool) -> dict[str, Any]:
    found = {**_head(one, _DESCRIPTION_CHARS), "takes": _schema(one.input_schema)}
    return {**found, "gives": signature(one.output_schema)} if gives and one.output_schema else found


def _signed(one: Descriptor, gives: bool) -> dict[str, Any]:
    found = {**_head(one, _DESCRIPTION_CHARS), "takes": signature(one.input_schema)}
    return {**found, "gives": signature(one.output_schema)} if gives and one.output_schema else found


def _brief(one: Descriptor, gives: bool) -> dict[str, Any]:
    found = {**_head(one, _BRIEF_CHARS), "takes": sorted(map(str, one.input_schema.get("properties", {})))}
    if gives and one.output_schema:
        found["gives"] = sorted(map(str, one.output_schema.get("properties", {})))
    return found


def _schema(schema: dict[str, Any]) -> Any:
    seen = readable(schema)
    return seen if size(seen) <= _SCHEMA_BYTES else signature(schema)


def signature(schema: Any, depth: int = 0) -> Any:
    """A schema in the fewest words: ``{"year?": "integer", "names": ["string"]}``; a ``?`` marks what may be left out."""
    if not isinstance(schema, dict):
        return "any"
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties and depth < 4:
        required = schema.get("required", [])
        return {
            (name if name in required else f"{name}?")[:128]: signature(part, depth + 1)
            for name, part in list(properties.items())[:100]
        }
    if isinstance(schema.get("items"), dict) and depth < 4:
        return [signature(schema["items"], depth + 1)]
    if isinstance(schema.get("enum"), list):
        return " | ".join(str(value)[:40] for value in schema["enum"][:20])
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list) and depth < 4:
        return [{"or": [signature(one, depth + 1) for one in branches[:8]]}]
    kind = schema.get("type", "any")
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)[:40]
