"""Which public keys are refused (attack list 11)."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.wire.ed25519 import check_public_key, raw_public_key
from duly.protocol.wire.errors import AuthorityError

P = 2**255 - 19
ORDER_8 = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
ORDER_8_OTHER = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"


def with_sign(data: bytes) -> bytes:
    return data[:31] + bytes([data[31] | 0x80])


@pytest.mark.parametrize(
    "raw",
    [
        (1).to_bytes(32, "little"),
        (P - 1).to_bytes(32, "little"),
        bytes(32),
        with_sign(bytes(32)),
        bytes.fromhex(ORDER_8),
        with_sign(bytes.fromhex(ORDER_8)),
        bytes.fromhex(ORDER_8_OTHER),
        with_sign(bytes.fromhex(ORDER_8_OTHER)),
    ],
)
def test_the_eight_points_of_small_order(raw: bytes) -> None:
    with pytest.raises(AuthorityError) as caught:
        check_public_key(raw)
    assert caught.value.code == "key.small_order"


@pytest.mark.parametrize(
    "raw",
    [
        (P).to_bytes(32, "little"),
        (P + 1).to_bytes(32, "little"),
        with_sign((P + 1).to_bytes(32, "little")),
        with_sign((1).to_bytes(32, "little")),
        with_sign((P - 1).to_bytes(32, "little")),
        (2).to_bytes(32, "little"),
        b"",
        bytes(31),
        bytes(33),
        b"\xff" * 32,
    ],
)
def test_other_encodings_and_points_off_the_curve(raw: bytes) -> None:
    with pytest.raises(AuthorityError) as caught:
        check_public_key(raw)
    assert caught.value.code == "key.malformed"


@given(st.binary(min_size=32, max_size=32))
def test_every_generated_key_is_accepted(seed: bytes) -> None:
    check_public_key(raw_public_key(Ed25519PrivateKey.from_private_bytes(seed)))


def test_a_refused_key_stays_refused_the_second_time() -> None:
    for _ in range(2):
        with pytest.raises(AuthorityError):
            check_public_key((1).to_bytes(32, "little"))
