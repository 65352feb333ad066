"""A model's value under a strict form (``model_schema``), read back into duly's own spelling."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from ..wire.errors import Fault
from ..wire.limits import MODEL_SCHEMA_DEPTH_MAX
from .model_schema import KINDS, Schema, properties_of, required_of, resolved, types_of

_REFERENCE_KEYS = frozenset(("from_step", "pointer"))


def plain(value: Any, schema: Any, path: str, faults: list[Fault], *, references: bool = False) -> Any:
    """A model's value with its own spellings read back: entries, JSON texts, references, nulls for what is left out.

    Nothing is repaired: a number written as a text stays a text. Faults go to ``faults`` with their path.
    """
    return _Reading(schema if isinstance(schema, dict) else {}, faults, references).read(
        value, schema, path, 0
    )


class _Reading:
    def __init__(self, root: Schema, faults: list[Fault], references: bool) -> None:
        self._root = root
        self._faults = faults
        self._references = references

    def read(self, value: Any, schema: Any, path: str, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        schema = self._chosen(value, resolved(schema, self._root))
        if isinstance(value, float) and value.is_integer() and schema.get("type") == "integer":
            return int(value)
        if depth > 2 * MODEL_SCHEMA_DEPTH_MAX and isinstance(value, list | dict):
            self._faults.append(Fault(path, "plan.too_deep", "the value is nested too deep."))
            return None
        if isinstance(value, list):
            items = schema.get("items", {})
            return [self.read(one, items, f"{path}/{index}", depth + 1) for index, one in enumerate(value)]
        return self._map(value, schema, path, depth) if isinstance(value, dict) else value

    def _chosen(self, value: Any, schema: Any) -> Schema:
        """The branch of a choice that a value is meant for, by its type and its keys."""
        if not isinstance(schema, dict):
            return {}
        branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if not isinstance(branches, list):
            return schema
        kind = KINDS.get(type(value), "")
        fitting = [resolved(one, self._root) for one in branches]
        fitting = [one for one in fitting if isinstance(one, dict) and kind in types_of(one)]
        if isinstance(value, dict):
            fitting.sort(key=lambda one: len(set(value) - set(properties_of(one))))
        return fitting[0] if fitting else {}

    def _map(self, value: dict[str, Any], schema: Schema, path: str, depth: int) -> Any:
        if self._references and value.keys() == _REFERENCE_KEYS and isinstance(value["from_step"], str):
            return {"$ref": f"{value['from_step']}#{value['pointer']}"}
        if self._references and value.keys() == {"$ref"}:
            return value
        properties = properties_of(schema)
        if value.keys() == {"json"} and "json" not in properties and isinstance(value["json"], str):
            return self._json(value["json"], schema, path, depth)
        if value.keys() == {"entries"} and "entries" not in properties and isinstance(value["entries"], list):
            value = self._entries(value["entries"], path)
        required = required_of(schema)
        found = {}
        for name, one in value.items():
            if one is None and name in properties and name not in required:
                continue
            key = f"${name}" if self._references and name in properties and name.startswith("$") else name
            part = properties.get(name, schema.get("additionalProperties", {}))
            found[self._text(key, path)] = self.read(one, part, f"{path}/{name}", depth + 1)
        return found

    def _entries(self, entries: list[Any], path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for index, entry in enumerate(entries):
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or name in found or set(entry) != {"name", "value"}:
                message = "an entry has a name of its own and a value."
                self._faults.append(Fault(f"{path}/entries/{index}", "plan.bad_entry", message))
            else:
                found[name] = entry["value"]
        return found

    def _json(self, written: str, schema: Schema, path: str, depth: int) -> Any:
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            self._faults.append(Fault(f"{path}/json", "plan.bad_json", "this text is not JSON."))
            return None
        return self.read(value, schema, path, depth + 1)

    def _text(self, written: str, path: str) -> str:
        try:
            written.encode("utf-8")
        except UnicodeEncodeError:
            self._faults.append(Fault(path, "plan.bad_text", "a text holds half of a surrogate pair."))
            return ""
        return unicodedata.normalize("NFC", written)
