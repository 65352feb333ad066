"""The envelope: its bytes, and that nothing but a known message for this recipient gets through."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.wire import canon
from duly.protocol.wire.envelope import Envelope, pack, unpack
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.limits import DEPTH_MAX, FRAME_BYTES_MAX
from duly.protocol.wire.model import Model


class Ping(Model):
    n: int
    ok: bool = True


KINDS = {"ping": Ping}
MESSAGE = Envelope(
    id="m1",
    kind="ping",
    sender="harness",
    recipient="executor",
    run_id="r1",
    cause="m0",
    epoch=3,
    body={"n": 1, "ok": True},
)
# written down by hand from the msgpack specification: a map of nine, keys in order
GOLDEN = bytes.fromhex(
    "89"
    "a4626f6479"
    "82"
    "a16e01"
    "a26f6bc3"  # body {n: 1, ok: true}
    "a56361757365"
    "a26d30"  # cause m0
    "a565706f6368"
    "03"  # epoch 3
    "a26964"
    "a26d31"  # id m1
    "a46b696e64"
    "a470696e67"  # kind ping
    "a9726563697069656e74"
    "a86578656375746f72"  # recipient executor
    "a672756e5f6964"
    "a27231"  # run_id r1
    "a673656e646572"
    "a76861726e657373"  # sender harness
    "a176"
    "01"  # v 1
)


def refused(data: bytes, recipient: Any = None) -> str:
    with pytest.raises(WireError) as caught:
        unpack(data, kinds=KINDS, recipient=recipient)
    return caught.value.code


def changed(**changes: Any) -> bytes:
    return canon.encode({**MESSAGE.to_data(), **changes})


def test_golden_bytes():
    assert pack(MESSAGE) == GOLDEN
    envelope, body = unpack(GOLDEN, kinds=KINDS, recipient="executor")
    assert envelope == MESSAGE and body == Ping(n=1)


def test_for_somebody_else():
    assert refused(GOLDEN, "planner") == "wire.wrong_recipient"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (changed(kind="pong"), "wire.unknown_kind"),
        (changed(kind="ping "), "wire.unknown_kind"),
        (changed(v=2), "wire.bad_envelope"),
        (changed(v="1"), "wire.bad_envelope"),
        (changed(extra=1), "wire.bad_envelope"),
        (changed(sender="root"), "wire.bad_envelope"),
        (changed(recipient="everybody"), "wire.bad_envelope"),
        (changed(id=""), "wire.bad_envelope"),
        (changed(id="x" * 65), "wire.bad_envelope"),
        (changed(epoch=True), "wire.bad_envelope"),
        (changed(epoch=1.0), "wire.bad_envelope"),
        (changed(body=[]), "wire.bad_envelope"),
        (changed(body={}), "wire.bad_body"),
        (changed(body={"n": "1"}), "wire.bad_body"),
        (changed(body={"n": 1, "more": 1}), "wire.bad_body"),
        (canon.encode([]), "wire.bad_envelope"),
        (canon.encode(None), "wire.bad_envelope"),
        (b"", "wire.malformed"),
        (GOLDEN[:-1], "wire.malformed"),
        (GOLDEN + b"\xc0", "wire.malformed"),
        (bytes([0x8A]) + GOLDEN[1:] + b"\xa1v\x01", "wire.not_canonical"),  # a key twice
        (msgpack.packb({**MESSAGE.to_data()}), "wire.not_canonical"),  # keys in another order
        (GOLDEN.replace(b"\xa5epoch\x03", b"\xa5epoch\xcc\x03"), "wire.not_canonical"),  # a longer integer
        (b"\x80" * 2, "wire.malformed"),
        (b"\xc1", "wire.malformed"),
        (b"\xdd\xff\xff\xff\xff", "wire.malformed"),  # an array that claims 4 Gi entries
        (b"\xc6\xff\xff\xff\xff", "wire.malformed"),  # 4 GB of bytes that are not there
        (b"\xdb\xff\xff\xff\xff", "wire.malformed"),
        (b"\xdf\xff\xff\xff\xff", "wire.malformed"),
        (b"\x91" * 100_000 + b"\xc0", "wire.too_deep"),
        (b"\x81\xa1a" * 100_000 + b"\xc0", "wire.too_deep"),
        (bytes(FRAME_BYTES_MAX + 1), "wire.frame_too_large"),
    ],
)
def test_anything_else_is_refused_by_its_code(data: bytes, code: str):
    assert refused(data) == code


@pytest.mark.parametrize("data", [b"\xc7\x01\x01\x00", b"\xd4\x01\x00", b"\xd6\xff\x00\x00\x00\x00"])
@pytest.mark.parametrize("before", [b"", b"\x9a" + b"\x00" * 9], ids=["alone", "in a list"])
def test_extension_types_are_refused(data: bytes, before: bytes):
    assert refused(before + data) in ("wire.extension", "wire.type")


def test_what_is_refused_costs_no_memory():
    """A claimed length, a claimed count and a great depth are refused before anything is made of them."""
    for data in (b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff" + b"\x90" * 50_000, b"\x91" * 1_000_000):
        tracemalloc.start()
        refused(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20, f"{peak} bytes for {data[:8]!r}"


def test_faults_name_their_place_and_repeat_no_value():
    with pytest.raises(WireError) as caught:
        unpack(changed(body={"n": "secret", "more": "secret"}), kinds=KINDS)
    assert {fault.path for fault in caught.value.faults} == {"n", "more"}
    assert "secret" not in str(caught.value.to_data())


def test_depth_is_allowed_up_to_its_limit():
    inner: Any = None
    for _ in range(DEPTH_MAX - 2):  # the envelope and its body are two
        inner = [inner]
    assert unpack(canon.encode({**MESSAGE.to_data(), "body": {"n": 1}}), kinds=KINDS)
    with pytest.raises(WireError) as caught:
        unpack(changed(body={"n": inner}), kinds=KINDS)
    assert caught.value.code == "wire.bad_body"
    with pytest.raises(WireError) as caught:
        changed(body={"n": [inner]})
    assert caught.value.code == "wire.too_deep"


def test_a_message_that_is_too_large_is_not_made():
    with pytest.raises(WireError) as caught:
        pack(MESSAGE.model_copy(update={"body": {"n": 1, "text": "x" * FRAME_BYTES_MAX}}))
    assert caught.value.code == "wire.frame_too_large" and caught.value.hint


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_in_an_orderly_way(data: bytes):
    assert refused(data).startswith("wire.")


@given(st.integers(0, len(GOLDEN) - 1), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(index: int, flip: int):
    """Either it is refused, or it says something else, in canonical form."""
    data = bytearray(GOLDEN)
    data[index] ^= flip
    try:
        envelope, body = unpack(bytes(data), kinds=KINDS, recipient="executor")
    except WireError:
        return
    assert (envelope, body) != (MESSAGE, Ping(n=1)) and pack(envelope) == bytes(data)
