"""DSSE signatures: what is signed is the payload together with its type, so no document can pose as another.

Source: the Dead Simple Signing Envelope, protocol.md of secure-systems-lab/dsse. The signed bytes are
``DSSEv1 <length of type> <type> <length of payload> <payload>``. The envelope itself is canonical msgpack with one
signature. Payloads are canonical msgpack without floats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..wire import canon
from ..wire.errors import AuthorityError, WireError

# The encodings of the points whose order divides 8, in their canonical and non-canonical forms: under such a key one
# fixed signature verifies many messages (RFC 8032 leaves the check to the verifier).
SMALL_ORDER_KEYS = frozenset(
    bytes.fromhex(text)
    for text in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    )
)


def key_id(public: bytes) -> str:
    """The name of a public key: the first 16 hexadecimal digits of SHA-256 over its 32 bytes."""
    return hashlib.sha256(public).hexdigest()[:16]


def check_public(public: bytes) -> bytes:
    """A public key that may be registered. Raises ``AuthorityError`` ``key.malformed`` or ``key.small_order``."""
    if len(public) != 32:
        raise AuthorityError("key.malformed", f"A public key has 32 bytes, this one has {len(public)}.")
    if public in SMALL_ORDER_KEYS:
        raise AuthorityError("key.small_order", "This public key is of small order; anybody can sign for it.")
    return public


def public_bytes(private: Ed25519PrivateKey) -> bytes:
    """The 32 bytes of a private key's public part."""
    return private.public_key().public_bytes_raw()


def sign(private: Ed25519PrivateKey, payload_type: str, payload: Mapping[str, Any]) -> bytes:
    """The signed envelope of a payload of integers, texts, lists and maps."""
    body = canon.encode(dict(payload), floats=False)
    signature = private.sign(_signed_bytes(payload_type, body))
    return canon.encode(
        {"payload": body, "type": payload_type, "keyid": key_id(public_bytes(private)), "sig": signature},
        floats=False,
    )


def verify(envelope: bytes, keys: Mapping[str, bytes], payload_type: str) -> tuple[dict[str, Any], str]:
    """The payload of an envelope that one of ``keys`` (key id to 32 bytes) signed, and that key's id.

    ``payload_type`` says what is expected; its first word is the error family. Raises ``AuthorityError``
    ``<family>.malformed``, ``<family>.wrong_type``, ``<family>.unknown_key`` or ``<family>.bad_signature``.
    """
    outer = peek(envelope, payload_type)
    public = keys.get(outer["keyid"])
    if public is None:
        raise AuthorityError(
            f"{payload_type}.unknown_key", f"This {payload_type} is signed by a key that is not known here."
        )
    check_public(public)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(
            outer["sig"], _signed_bytes(payload_type, outer["payload"])
        )
    except InvalidSignature:
        raise AuthorityError(
            f"{payload_type}.bad_signature", f"The signature of this {payload_type} does not hold."
        ) from None
    return _payload(outer, payload_type), outer["keyid"]


def peek(envelope: bytes, payload_type: str) -> dict[str, Any]:
    """The outer map of an envelope, its signature unchecked: ``payload, type, keyid, sig``."""
    try:
        outer = canon.decode(envelope, floats=False)
    except WireError as error:
        raise AuthorityError(
            f"{payload_type}.malformed", f"This is no {payload_type}: {error.message}"
        ) from None
    if (
        type(outer) is not dict
        or set(outer) != {"payload", "type", "keyid", "sig"}
        or type(outer["payload"]) is not bytes
        or type(outer["sig"]) is not bytes
        or type(outer["keyid"]) is not str
    ):
        raise AuthorityError(f"{payload_type}.malformed", f"This is no signed {payload_type}.")
    if outer["type"] != payload_type:
        raise AuthorityError(
            f"{payload_type}.wrong_type", f"This is a signed {outer['type']!r}, not a {payload_type}."
        )
    return outer


def peek_payload(envelope: bytes, payload_type: str) -> dict[str, Any]:
    """The payload with its signature unchecked: only for showing, never for deciding."""
    return _payload(peek(envelope, payload_type), payload_type)


def _payload(outer: dict[str, Any], payload_type: str) -> dict[str, Any]:
    try:
        payload = canon.decode(outer["payload"], floats=False)
    except WireError as error:
        raise AuthorityError(
            f"{payload_type}.malformed", f"This is no {payload_type}: {error.message}"
        ) from None
    if type(payload) is not dict:
        raise AuthorityError(f"{payload_type}.malformed", f"This is no {payload_type}.")
    return payload


def _signed_bytes(payload_type: str, body: bytes) -> bytes:
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)
