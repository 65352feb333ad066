"""Public Ed25519 keys: raw bytes, and which of them are refused.

The library that checks signatures accepts keys of small order, under which one fixed signature verifies every message.
So a key is looked at once, when it is registered: it must be the canonical encoding of a point on the curve, and eight
times the point must not be the neutral element.

Source: RFC 8032 section 5.1 (decoding, addition).
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .errors import AuthorityError

PUBLIC_KEY_BYTES = 32

_P = 2**255 - 19
_D = -121665 * pow(121666, _P - 2, _P) % _P
_SQRT_M1 = pow(2, (_P - 1) // 4, _P)


def raw_public_key(key: Ed25519PrivateKey) -> bytes:
    """The 32 bytes of a private key's public part."""
    return key.public_key().public_bytes_raw()


def check_public_key(raw: bytes) -> None:
    """Refuses bytes that may not stand for somebody: ``key.malformed`` or ``key.small_order`` (``AuthorityError``)."""
    if raw in _ACCEPTED:
        return
    point = _decode(raw)
    if point is None:
        raise AuthorityError("key.malformed", "These are not the 32 bytes of an Ed25519 public key.")
    x, y = point
    for _ in range(3):
        x, y = _double(x, y)
    if (x, y) == (0, 1):
        raise AuthorityError(
            "key.small_order",
            "This public key has a small order: one signature would hold for every message.",
            hint="Ask its owner for a key that was really generated.",
        )
    if len(_ACCEPTED) < _ACCEPTED_MAX:
        _ACCEPTED.add(bytes(raw))


_ACCEPTED: set[bytes] = set()  # keys already found good: the arithmetic takes a quarter of a millisecond
_ACCEPTED_MAX = 256


def _decode(raw: bytes) -> tuple[int, int] | None:
    if len(raw) != PUBLIC_KEY_BYTES:
        return None
    number = int.from_bytes(raw, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= _P:
        return None
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if v * x * x % _P == -u % _P:
        x = x * _SQRT_M1 % _P
    if v * x * x % _P != u or (x == 0 and sign):
        return None
    return (_P - x if x & 1 != sign else x), y


def _double(x: int, y: int) -> tuple[int, int]:
    """Twice a point, in affine coordinates (a = -1); the denominators are never zero on this curve."""
    product = _D * x * x * y * y % _P
    return (
        2 * x * y * pow(1 + product, _P - 2, _P) % _P,
        (y * y + x * x) * pow(1 - product, _P - 2, _P) % _P,
    )
