"""Canonical msgpack: one value, one sequence of bytes.

Maps have string keys in sorted order, integers take their shortest form, strings are NFC, floats are finite float64
and never -0.0, there are no extension types and no duplicate keys. All Python decoders accept more than that, so
``decode`` encodes again what it read and requires equal bytes.

Source of the traps that this closes: the msgpack specification, CVE-2026-57585 (the streaming unpacker, not used
here), and `docs/protocol.md`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import msgpack

from .errors import WireError
from .ids import Digest, digest_bytes
from .limits import DEPTH_MAX, FRAME_BYTES_MAX

_INTEGER_MIN = -(1 << 63)
_INTEGER_MAX = (1 << 64) - 1
_AS_THEY_ARE = frozenset((int, bool, bytes, type(None)))


def encode(value: Any, *, floats: bool = True) -> bytes:
    """The canonical bytes of a value made of None, bool, int, float, str, bytes, list and dict with string keys.

    ``floats=False`` is for what is signed (mandates, approvals, grants, receipts): integers and strings only.
    Raises ``WireError`` with the path of the first value that has no canonical form.
    """
    try:
        return _packed(_quickly(value, DEPTH_MAX, floats))
    except (_Irregular, OverflowError):
        return _packed(_ordered(value, "", 0, floats))  # slower; it knows the path of what is wrong


def encode_entries(value: dict[str, Any]) -> dict[str, bytes]:
    """The canonical bytes of each entry of a map, by its key; ``join_entries`` makes the map's bytes of them.

    For maps that are encoded in several selections. Raises as ``encode`` does.
    """
    try:
        return {name: _packed(_quickly(item, DEPTH_MAX - 1, True)) for name, item in value.items()}
    except (_Irregular, OverflowError):
        ordered = _ordered(value, "", 0, True)
        return {name: _packed(item) for name, item in ordered.items()}


def join_entries(entries: Mapping[str, bytes]) -> bytes:
    """The canonical bytes of a map whose entries are encoded already."""
    parts: list[bytes] = [msgpack.Packer().pack_map_header(len(entries))]
    for name in sorted(entries):
        parts += (encode(name), entries[name])
    return b"".join(parts)


def decode(data: bytes, *, bytes_max: int = FRAME_BYTES_MAX, floats: bool = True) -> Any:
    """The value of canonical bytes. Raises ``WireError`` for anything that ``encode`` would not have written."""
    if len(data) > bytes_max:
        raise WireError(
            "wire.frame_too_large",
            f"A message of {len(data)} bytes exceeds the frame limit of {bytes_max}.",
            hint="Send large values as artifacts.",
        )
    if _may_be_deep(data):
        _check_depth(data)
    try:
        value = msgpack.unpackb(data, raw=False, strict_map_key=True)
    except msgpack.StackError:
        raise _too_deep() from None
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
        raise WireError("wire.malformed", f"These bytes are not msgpack: {type(error).__name__}.") from None
    if encode(value, floats=floats) != data:
        raise WireError(
            "wire.not_canonical",
            "These bytes are msgpack but not in canonical form (key order, duplicate keys or number width).",
        )
    return value


def digest(domain: str, value: Any, *, floats: bool = True) -> Digest:
    """The digest of a value's canonical bytes under a domain."""
    return digest_bytes(domain, encode(value, floats=floats))


def _packed(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


class _Irregular(Exception):
    """Something in a value has no canonical form; ``_ordered`` says what and where."""


def _quickly(value: Any, room: int, floats: bool) -> Any:
    """What ``_ordered`` gives, without keeping track of paths. ``room`` is how many levels may still follow.

    Every message, leaf, grant and receipt goes through here, so scalars are looked at in place.
    """
    kind = type(value)
    if kind is dict:
        if not room:
            raise _Irregular
        try:
            names = sorted(value)
        except TypeError:
            raise _Irregular from None
        made: dict[str, Any] = {}
        for name in names:
            if type(name) is not str or not (name.isascii() or _is_regular(name)):
                raise _Irregular
            item = value[name]
            kind = type(item)
            if kind is str:
                if not (item.isascii() or _is_regular(item)):
                    raise _Irregular
            elif kind not in _AS_THEY_ARE:
                item = _quickly(item, room - 1, floats)
            made[name] = item
        return made
    if kind is list:
        if not room:
            raise _Irregular
        return [item if type(item) in _AS_THEY_ARE else _quickly(item, room - 1, floats) for item in value]
    regular = (
        kind in _AS_THEY_ARE
        or (kind is str and (value.isascii() or _is_regular(value)))
        or (kind is float and floats and math.isfinite(value) and (value or math.copysign(1.0, value) > 0))
    )
    if regular:
        return value
    raise _Irregular


def _is_regular(text: str) -> bool:
    try:
        return unicodedata.is_normalized("NFC", text) and bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _ordered(value: Any, path: str, depth: int, floats: bool) -> Any:
    kind = type(value)
    if kind is str:
        return _text(value, path)
    if kind is int:
        if not _INTEGER_MIN <= value <= _INTEGER_MAX:
            raise WireError(
                "wire.integer_too_large", "An integer beyond 64 bits has no plain form.", place=path
            )
        return value
    if value is None or kind is bool or kind is bytes:
        return value
    if depth >= DEPTH_MAX:
        raise WireError("wire.too_deep", f"Values are nested deeper than {DEPTH_MAX}.", place=path)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise WireError(
                    "wire.key_type", f"A map key is a {type(key).__name__}, not a text.", place=path
                )
            _text(key, path)
        return {key: _ordered(value[key], f"{path}/{key}", depth + 1, floats) for key in sorted(value)}
    if kind is list:
        return [_ordered(item, f"{path}/{index}", depth + 1, floats) for index, item in enumerate(value)]
    if kind is float:
        return _float(value, path, floats)
    raise WireError("wire.type", f"A value of type {kind.__name__} has no canonical form.", place=path)


def _text(value: str, path: str) -> str:
    if value.isascii():
        return value
    if not unicodedata.is_normalized("NFC", value):
        raise WireError("wire.not_nfc", "A text is not in Unicode normal form C.", place=path)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise WireError("wire.surrogate", "A text holds half of a surrogate pair.", place=path) from None
    return value


def _float(value: float, path: str, floats: bool) -> float:
    if not floats:
        raise WireError("wire.float", "A signed document holds integers and texts only.", place=path)
    if not math.isfinite(value) or (value == 0.0 and math.copysign(1.0, value) < 0):
        raise WireError("wire.float", f"The number {value!r} has no canonical form.", place=path)
    return value


_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_CONTAINER = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def _may_be_deep(data: bytes) -> bool:
    """Whether bytes could make the C unpacker pay for nesting: more than ``DEPTH_MAX`` headers of large containers.

    The unpacker gives up at 1,024 levels, and what is deeper than ``DEPTH_MAX`` is refused when it is encoded again. That
    costs kilobytes, unless each level claims many items, for which it makes room at once. A claim of 256 items or more
    needs one of four header bytes, and messages hold few of them, so that the exact check is for what is odd. A text or
    signature that holds such bytes costs the check and nothing else.
    """
    if len(data) <= DEPTH_MAX:
        return False
    claims = data.count(b"\xdd") + data.count(b"\xdf")
    for header in (b"\xdc", b"\xde"):
        claims += data.count(header) - data.count(header + b"\0")
    return claims > DEPTH_MAX


def _too_deep() -> WireError:
    return WireError("wire.too_deep", f"Values are nested deeper than {DEPTH_MAX}.")


def _check_depth(data: bytes) -> None:
    """Refuses nesting beyond the limit before a single object is made. Only container headers matter; scalars are
    skipped by their length."""
    open_items = [1]
    position, end = 0, len(data)
    while position < end and open_items:
        byte = data[position]
        position += 1
        children = 0
        if byte <= 0x7F or byte >= 0xE0 or byte in (0xC0, 0xC2, 0xC3):
            pass
        elif byte <= 0x8F:
            children = (byte & 0x0F) * 2
        elif byte <= 0x9F:
            children = byte & 0x0F
        elif byte <= 0xBF:
            position += byte & 0x1F
        elif byte in _FIXED:
            position += _FIXED[byte]
        elif byte in _SIZED:
            width = _SIZED[byte]
            position += width + int.from_bytes(data[position : position + width], "big")
        elif byte in _CONTAINER:
            width, factor = _CONTAINER[byte]
            children = int.from_bytes(data[position : position + width], "big") * factor
            position += width
        else:
            raise WireError("wire.extension", "Extension types are not allowed.")
        open_items[-1] -= 1
        if children:
            open_items.append(children)
            if len(open_items) > DEPTH_MAX + 1:
                raise _too_deep()
        while open_items and open_items[-1] == 0:
            open_items.pop()
