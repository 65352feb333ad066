"""Messages on a stream: any cutting of the bytes gives the same messages, and hostile bytes cost nothing."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.hosts.framing import FrameParser, frame
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, FRAME_BYTES_MAX

MESSAGES = st.lists(
    st.tuples(
        st.dictionaries(
            st.text(alphabet="abcdef", max_size=3).filter(lambda key: key != "blobs"),
            st.integers(0, 1 << 40) | st.text(alphabet="xyz", max_size=20),
            max_size=4,
        ),
        st.lists(st.binary(max_size=300), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@given(MESSAGES, st.lists(st.integers(1, 200), min_size=1, max_size=20), st.booleans())
def test_any_cutting_gives_the_same_messages(messages, sizes, canonical):
    data = b"".join(
        part for message, blobs in messages for part in frame(message, blobs, canonical=canonical)
    )
    parser = FrameParser(canonical=canonical)
    found, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found += list(parser.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    assert found == [(message, blobs) for message, blobs in messages]
    assert not parser.partial


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ((1 << 32) - 1, "wire.frame_too_large"),
        (FRAME_BYTES_MAX + 1, "wire.frame_too_large"),
        (b"\x81\xa1a" + b"\x91" * 100_000, "wire.too_deep"),
        (b"\xff\xfe\x00rubbish", "wire.malformed"),
        (b"\x93\x01\x02\x03", "wire.malformed"),
        (b"\x82\xa1b\x01\xa1a\x01", "wire.not_canonical"),
        (b"\x81\xa5blobs\x91\xff", "wire.bad_blobs"),
        (b"\x81\xa5blobs\xa3abc", "wire.bad_blobs"),
        (b"\x81\xa5blobs\x91\xce\x7f\xff\xff\xff", "wire.frame_too_large"),
        (b"\x81\xa5blobs\xdd\x00\x00\x10\x00" + b"\x00" * 4_096, "wire.not_canonical"),
        (b"\x81\xa5blobs\xdc\x10\x00" + b"\x00" * 4_096, "wire.frame_too_large"),
    ],
)
def test_hostile_bytes_are_refused_with_their_code(data, code):
    sent = data.to_bytes(4, "big") if isinstance(data, int) else len(data).to_bytes(4, "big") + data
    with pytest.raises(WireError) as refused:
        list(FrameParser().feed(sent))
    assert refused.value.code == code


def test_a_claimed_length_is_refused_before_anything_is_kept():
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            list(FrameParser().feed(b"\xff\xff\xff\xff" + b"\x00" * 1_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_what_exceeds_a_frame_is_not_sent():
    with pytest.raises(WireError) as refused:
        frame({"text": "x" * FRAME_BYTES_MAX})
    assert refused.value.code == "wire.frame_too_large"
    with pytest.raises(WireError):
        frame({}, [bytes(ARTIFACT_BYTES_MAX), b"x"])
