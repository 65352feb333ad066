"""How tagged values look to JSON Schema: a schema speaks of numbers and texts, not of the tags that keep them exact."""

from __future__ import annotations

from typing import Any

_NUMBERS = {"$decimal": float, "$int": int}


def plain_view(value: Any) -> Any:
    """A value's tagged form with exact numbers as numbers, dates as texts, tuples as lists, and no escapes.

    Only for judging a value by its schema: the view loses what the tags keep. A ``$float`` (nan, inf) stays a map, for
    JSON Schema has no such number.
    """
    kind = type(value)
    if kind is list:
        return [plain_view(item) for item in value]
    if kind is not dict:
        return value
    if len(value) == 1 or "$datetime" in value:
        ((tag, held), *_) = value.items()
        if tag in _NUMBERS and type(held) is str:
            return _number(tag, held)
        if tag in ("$date", "$time", "$bytes", "$text"):
            return held
        if tag == "$tuple":
            return plain_view(held)
    if "$datetime" in value:
        return value["$datetime"]
    return {key[1:] if key.startswith("$$") else key: plain_view(item) for key, item in value.items()}


def _number(tag: str, held: str) -> Any:
    try:
        return _NUMBERS[tag](held)
    except ValueError:
        return held
