"""Signed documents: DSSE over canonical bytes, one vector built independently, and who may not sign."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.authority import signing
from duly.protocol.authority.signing import (
    SMALL_ORDER_KEYS,
    key_id,
    peek,
    peek_payload,
    public_bytes,
    sign,
    verify,
)
from duly.protocol.wire import canon
from duly.protocol.wire.errors import AuthorityError, WireError

# RFC 8032, section 7.1, test 1
PRIVATE = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
)
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
KEYS = {key_id(PUBLIC): PUBLIC}
PAYLOAD = {"n": 1, "text": "é"}


def code(envelope: bytes, keys: Any = KEYS, kind: str = "mandate") -> str:
    with pytest.raises(AuthorityError) as caught:
        verify(envelope, keys, kind)
    return caught.value.code


def outer(**changes: Any) -> bytes:
    return canon.encode({**canon.decode(sign(PRIVATE, "mandate", PAYLOAD)), **changes})


def test_the_key_of_the_rfc():
    assert public_bytes(PRIVATE) == PUBLIC
    assert key_id(PUBLIC) == hashlib.sha256(PUBLIC).hexdigest()[:16]


def test_one_envelope_by_hand():
    """The bytes that are signed, put together without any code of duly's: the DSSE pre-authentication encoding."""
    body = b"\x82\xa1n\x01\xa4text\xa2\xc3\xa9"
    signed = b"DSSEv1 7 mandate 12 " + body
    signature = PRIVATE.sign(signed)
    envelope = (
        b"\x84"
        + b"\xa5keyid\xb0"
        + key_id(PUBLIC).encode()
        + b"\xa7payload\xc4\x0c"
        + body
        + b"\xa3sig\xc4\x40"
        + signature
        + b"\xa4type\xa7mandate"
    )
    assert len(body) == 12
    assert sign(PRIVATE, "mandate", PAYLOAD) == envelope
    assert verify(envelope, KEYS, "mandate") == (PAYLOAD, key_id(PUBLIC))


def test_golden_signature():
    """Ed25519 is deterministic: another signature would mean that other bytes are signed."""
    assert hashlib.sha256(sign(PRIVATE, "mandate", PAYLOAD)).hexdigest() == (
        "e34d286e2f1a487f33f111c3502b0ffa7c90804b23fa46fe9f71af1146d2b41b"
    )


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        (b"", "mandate.malformed"),
        (b"\xc1", "mandate.malformed"),
        (canon.encode({}), "mandate.malformed"),
        (canon.encode([1]), "mandate.malformed"),
        (outer(more=1), "mandate.malformed"),
        (outer(payload="text"), "mandate.malformed"),
        (outer(sig="text"), "mandate.malformed"),
        (outer(keyid=b"x"), "mandate.malformed"),
        (outer(type="approval"), "mandate.wrong_type"),
        (outer(type="mandat"), "mandate.wrong_type"),
        (outer(keyid="0" * 16), "mandate.unknown_key"),
        (outer(sig=bytes(64)), "mandate.bad_signature"),
        (outer(sig=b""), "mandate.bad_signature"),
        (outer(payload=canon.encode({"n": 2, "text": "é"})), "mandate.bad_signature"),
    ],
)
def test_each_refusal_has_its_code(envelope: bytes, expected: str):
    assert code(envelope) == expected


def test_no_document_poses_as_another():
    """A good signature over the same payload under another type does not help, nor does a type that runs into it."""
    approval = canon.decode(sign(PRIVATE, "approval", PAYLOAD))
    assert code(canon.encode(approval), kind="mandate") == "mandate.wrong_type"
    assert code(canon.encode({**approval, "type": "mandate"}), kind="mandate") == "mandate.bad_signature"


def test_a_signed_payload_that_is_no_map_is_refused():
    body = canon.encode([1])
    signature = PRIVATE.sign(b"DSSEv1 7 mandate %d " % len(body) + body)
    assert code(outer(payload=body, sig=signature)) == "mandate.malformed"
    bad = b"\xc1"
    signature = PRIVATE.sign(b"DSSEv1 7 mandate 1 " + bad)
    assert code(outer(payload=bad, sig=signature)) == "mandate.malformed"


def test_floats_are_not_signed():
    with pytest.raises(WireError) as caught:
        sign(PRIVATE, "mandate", {"n": 1.5})
    assert caught.value.code == "wire.float"


@pytest.mark.parametrize("key", sorted(SMALL_ORDER_KEYS), ids=lambda key: key.hex()[:8] + key.hex()[-4:])
def test_keys_of_small_order_are_refused_though_their_signatures_hold(key: bytes):
    """Under the neutral element, R = identity with S = 0 verifies every message; so no such key counts at all."""
    forged = canon.encode(
        {
            "keyid": key_id(key),
            "payload": canon.encode(PAYLOAD),
            "sig": bytes([1]) + bytes(63),
            "type": "mandate",
        }
    )
    assert code(forged, {key_id(key): key}) == "key.small_order"


def test_the_library_would_accept_such_a_signature_for_anything():
    """Why the list is there."""
    neutral = bytes([1]) + bytes(31)
    assert neutral in SMALL_ORDER_KEYS
    for message in (b"pay Alice", b"pay Mallory"):
        Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), message)
    with pytest.raises(InvalidSignature):
        Ed25519PublicKey.from_public_bytes(PUBLIC).verify(neutral + bytes(32), b"pay Alice")


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_has_32_bytes(length: int):
    key = bytes(length)
    assert code(outer(keyid=key_id(key)), {key_id(key): key}) == "key.malformed"


def test_a_peek_judges_nothing():
    envelope = outer(sig=bytes(64))
    assert peek_payload(envelope, "mandate") == PAYLOAD
    assert peek(envelope, "mandate")["keyid"] == key_id(PUBLIC)
    with pytest.raises(AuthorityError):
        peek(envelope, "approval")


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_is_accepted(position: int, flip: int):
    data = bytearray(sign(PRIVATE, "mandate", PAYLOAD))
    data[position % len(data)] ^= flip
    assert code(bytes(data)).startswith("mandate.")


@given(st.binary(max_size=100))
def test_random_bytes_are_refused_in_an_orderly_way(data: bytes):
    assert code(data) == "mandate.malformed"


def test_signatures_of_several_keys():
    other = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    keys = {**KEYS, key_id(public_bytes(other)): public_bytes(other)}
    assert verify(sign(other, "receipt", {}), keys, "receipt")[1] == key_id(public_bytes(other))
    assert signing.check_public(PUBLIC) == PUBLIC
