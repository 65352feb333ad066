"""The lossless form of tool outputs: every value that a tool may return, as plain canonical data.

Plain JSON-like values stay as they are. What has no canonical form is wrapped in a map of one key:

    {"$decimal": "1.10"}                 Decimal, digits kept
    {"$int": "18446744073709551616"}     an integer beyond 64 bits
    {"$float": "nan"}                    nan, inf, -inf, -0.0
    {"$bytes": "AAE="}                   bytes, base64
    {"$text": "ZcyB"}                    a text that is not NFC or not UTF-8, base64 of its (surrogatepass) bytes
    {"$date": "2013-06-01"}              date
    {"$time": "12:00:00"}                time of day
    {"$datetime": "...", "fold": 0, "zone": null}   datetime; zone is an IANA name, or null with any offset inside
    {"$duration": [days, seconds, microseconds]}    timedelta
    {"$tuple": [...]}                    tuple
    {"$map": [[key, value], ...]}        a map with keys that are no texts

A literal key that begins with ``$`` is written with one more ``$``, so data can never become a reference or a tag.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import unicodedata
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from .errors import WireError
from .limits import DEPTH_MAX

_PLAIN = (type(None), bool)


def to_tagged(value: Any, path: str = "", depth: int = 0) -> Any:
    """The tagged form of any supported value. Raises ``WireError`` ``wire.unsupported`` with the path otherwise."""
    if isinstance(value, _PLAIN):
        return value
    if type(value) is str:
        return _text(value)
    if type(value) is int:
        return value if -(1 << 63) <= value < (1 << 64) else {"$int": str(value)}
    if type(value) is float:
        return _float(value)
    if depth >= DEPTH_MAX:
        raise WireError("wire.too_deep", f"Values are nested deeper than {DEPTH_MAX}.", place=path)
    if type(value) is list:
        return [to_tagged(item, f"{path}/{index}", depth + 1) for index, item in enumerate(value)]
    if type(value) is dict:
        return _map(value, path, depth)
    if type(value) is tuple:
        return {"$tuple": [to_tagged(item, f"{path}/{index}", depth + 2) for index, item in enumerate(value)]}
    return _scalar(value, path)


def from_tagged(value: Any, path: str = "") -> Any:
    """The value that ``to_tagged`` described. Raises ``WireError`` ``wire.bad_tag`` for an unknown or broken tag, and
    for a tag that holds another spelling than ``to_tagged`` writes: one value has one digest."""
    if type(value) is list:
        return [from_tagged(item, f"{path}/{index}") for index, item in enumerate(value)]
    if type(value) is not dict:
        return value
    tags = [key for key in value if key.startswith("$") and not key.startswith("$$")]
    if not tags:
        return {
            key[1:] if key.startswith("$$") else key: from_tagged(item, f"{path}/{key}")
            for key, item in value.items()
        }
    reader = _READERS.get(tags[0])
    if len(tags) != 1 or reader is None or (len(value) != 1 and tags[0] != "$datetime"):
        raise WireError("wire.bad_tag", f"{tags[0]} is no tag of the lossless form.", place=path)
    try:
        read = reader(value, path)
        if tags[0] not in _NESTING and to_tagged(read) != value:
            raise ValueError("another spelling of the same value")
        return read
    except (
        ValueError,
        TypeError,
        KeyError,
        ArithmeticError,
        binascii.Error,
        zoneinfo.ZoneInfoNotFoundError,
    ) as error:
        raise WireError(
            "wire.bad_tag",
            f"The value under {tags[0]} is not what that tag holds ({type(error).__name__}).",
            place=path,
        ) from None


def _text(value: str) -> Any:
    if value.isascii():
        return value
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError:
        data = value.encode("utf-8", "surrogatepass")
    else:
        if unicodedata.is_normalized("NFC", value):
            return value
    return {"$text": base64.b64encode(data).decode("ascii")}


def _float(value: float) -> Any:
    if math.isfinite(value) and not (value == 0.0 and math.copysign(1.0, value) < 0):
        return value
    return {"$float": repr(value)}


def _map(value: dict[Any, Any], path: str, depth: int) -> Any:
    if all(type(key) is str and _text(key) is key for key in value):
        return {
            "$" + key if key.startswith("$") else key: to_tagged(item, f"{path}/{key}", depth + 1)
            for key, item in value.items()
        }
    return {
        "$map": [
            [to_tagged(key, f"{path}/{key!r}", depth + 3), to_tagged(item, f"{path}/{key!r}", depth + 3)]
            for key, item in value.items()
        ]
    }


def _scalar(value: Any, path: str) -> Any:
    if type(value) is Decimal:
        return {"$decimal": str(value)}
    if type(value) is bytes:
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if type(value) is datetime.datetime:
        return _datetime(value, path)
    if type(value) is datetime.date:
        return {"$date": value.isoformat()}
    if type(value) is datetime.time and value.tzinfo is None and value.fold == 0:
        return {"$time": value.isoformat()}
    if type(value) is datetime.timedelta:
        return {"$duration": [value.days, value.seconds, value.microseconds]}
    raise WireError(
        "wire.unsupported",
        f"A value of type {type(value).__name__} cannot be kept without loss.",
        place=path or "/",
        hint="Return texts, numbers, lists, maps, dates, Decimal or bytes.",
    )


def _datetime(value: datetime.datetime, path: str) -> Any:
    zone = value.tzinfo
    if zone is None or isinstance(zone, datetime.timezone):
        return {"$datetime": value.replace(fold=0).isoformat(), "fold": value.fold, "zone": None}
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key:
        naive = value.replace(tzinfo=None, fold=0).isoformat()
        return {"$datetime": naive, "fold": value.fold, "zone": zone.key}
    raise WireError(
        "wire.unsupported", "A datetime with a zone of its own kind cannot be kept.", place=path or "/"
    )


def _read_datetime(value: dict[str, Any], path: str) -> datetime.datetime:
    if set(value) != {"$datetime", "fold", "zone"}:
        raise ValueError("fields")
    read = datetime.datetime.fromisoformat(value["$datetime"]).replace(fold=value["fold"])
    return read if value["zone"] is None else read.replace(tzinfo=zoneinfo.ZoneInfo(value["zone"]))


def _read_float(value: dict[str, Any], path: str) -> float:
    if value["$float"] not in ("nan", "inf", "-inf", "-0.0"):
        raise ValueError("float")
    return float(value["$float"])


def _read_duration(value: dict[str, Any], path: str) -> datetime.timedelta:
    parts = value["$duration"]
    if not all(type(part) is int for part in parts):
        raise ValueError("parts")
    return datetime.timedelta(*parts)


def _read_map(value: dict[str, Any], path: str) -> dict[Any, Any]:
    pairs = [(from_tagged(key, path), from_tagged(item, path)) for key, item in value["$map"]]
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("equal keys")
    return read


_NESTING = ("$tuple", "$map")  # their items are checked one by one
_READERS: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "$decimal": lambda value, path: Decimal(value["$decimal"]),
    "$int": lambda value, path: int(value["$int"]),
    "$float": _read_float,
    "$bytes": lambda value, path: base64.b64decode(value["$bytes"], validate=True),
    "$text": lambda value, path: base64.b64decode(value["$text"], validate=True).decode(
        "utf-8", "surrogatepass"
    ),
    "$date": lambda value, path: datetime.date.fromisoformat(value["$date"]),
    "$time": lambda value, path: datetime.time.fromisoformat(value["$time"]),
    "$datetime": _read_datetime,
    "$duration": _read_duration,
    "$tuple": lambda value, path: tuple(from_tagged(value["$tuple"], path)),
    "$map": _read_map,
}
