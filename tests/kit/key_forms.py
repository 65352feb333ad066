"""What gives a key away, so that it can be looked for; and what a hostile server can make of one."""

from __future__ import annotations

import base64
from urllib.parse import quote


def forms_of(key: str) -> list[bytes]:
    """What gives the key away: raw, in hexadecimal, URL-encoded, and its part of a longer base64 text at each place."""
    data = key.encode()
    plain = [data, data.hex().encode(), data.hex().upper().encode(), quote(key, safe="").encode()]
    return plain + [coded[2 + before : -4] for before, coded in _coded(data)]


def _coded(data: bytes) -> list[tuple[int, bytes]]:
    ways = (base64.b64encode, base64.urlsafe_b64encode)
    return [
        (before, way(b":" * before + data + b"!" * after))
        for way in ways
        for before in range(3)
        for after in range(3)
    ]


def echo_of(key: str) -> str:
    """Everything that a hostile server can make of a key, in one text."""
    data = key.encode()
    coded = [one for _, one in _coded(data)]
    return b" ".join([*forms_of(key)[:4], *coded]).decode()


def forms_in(data: bytes, key: str) -> list[bytes]:
    """The forms of a key that stand in these bytes."""
    return [form for form in forms_of(key) if form in data]
