"""Outputs as a model gets them: whole where they are small, else as shape, size and a small sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ...wire.limits import DEPTH_MAX, MODEL_HANDLE_BYTES_MAX
from .marked import size

_SHAPE_DEPTH = 3
_SHAPE_KEYS = 30
# Entries of a list, characters of a text, keys of a map and levels of a sample, ever fewer until it fits.
_SAMPLES = ((8, 400, 40, 6), (3, 200, 24, 5), (2, 100, 12, 4), (1, 60, 8, 3), (1, 24, 4, 2))
WITHHELD = "sensitive: its values are not shown"


def readable(value: Any, depth: int = 0) -> Any:
    """Any value that a tool may return, plain or tagged, as JSON data. For reading only: exact types are lost."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    if depth > DEPTH_MAX:
        return "nested too deep to show"
    if isinstance(value, Mapping):
        return {str(key): readable(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [readable(one, depth + 1) for one in value]
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def handle(value: Any, bytes_max: int = MODEL_HANDLE_BYTES_MAX, *, withheld: bool = False) -> dict[str, Any]:
    """``{"value"}`` where it fits, else ``{"shape", "bytes", "sample"}``; of a withheld value its kind and size alone.

    The JSON of the handle never exceeds ``bytes_max`` by more than the shape's few hundred bytes.
    """
    seen = readable(value)
    if withheld:
        return {"withheld": WITHHELD, "shape": _kind(seen)}
    if size(seen) <= bytes_max:
        return {"value": seen}
    found: dict[str, Any] = {"bytes": size(seen), "shape": shape(seen)}
    if size(found["shape"]) > bytes_max // 2:
        found["shape"] = _kind(seen)
    for limits in _SAMPLES:
        cut = _sample(seen, *limits)
        if size(cut) <= bytes_max // 2:
            return {**found, "sample": cut}
    return found


def shape(seen: Any, depth: int = 0) -> Any:
    """What a value is made of: kinds, keys and counts."""
    if depth >= _SHAPE_DEPTH or not isinstance(seen, dict | list) or not seen:
        return _kind(seen)
    if isinstance(seen, list):
        return {"list": len(seen), "first": shape(seen[0], depth + 1)}
    keys = {key[:64]: shape(one, depth + 1) for key, one in list(seen.items())[:_SHAPE_KEYS]}
    return {"map": len(seen), "keys": keys}


def _kind(seen: Any) -> str:
    if isinstance(seen, dict | list):
        return f"{'map' if isinstance(seen, dict) else 'list'} of {len(seen)}"
    if isinstance(seen, str):
        return f"text of {len(seen)}"
    if seen is None or isinstance(seen, bool):
        return "null" if seen is None else "boolean"
    return "integer" if isinstance(seen, int) else "number"


def _sample(seen: Any, entries: int, characters: int, keys: int, levels: int) -> Any:
    if isinstance(seen, str):
        return seen if len(seen) <= characters else f"{seen[:characters]}... ({len(seen)} characters)"
    if isinstance(seen, int) and not isinstance(seen, bool) and seen.bit_length() > 256:
        return "an integer of many digits"
    if not isinstance(seen, dict | list):
        return seen
    if levels == 0:
        return _kind(seen)
    if isinstance(seen, list):
        cut = [_sample(one, entries, characters, keys, levels - 1) for one in seen[:entries]]
        return cut if len(seen) <= entries else [*cut, f"... ({len(seen)} entries)"]
    chosen = list(seen.items())[:keys]
    found = {key[:characters]: _sample(one, entries, characters, keys, levels - 1) for key, one in chosen}
    if len(seen) > keys:
        found["..."] = f"({len(seen)} keys)"
    return found
