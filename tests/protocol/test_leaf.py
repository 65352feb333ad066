"""Entries of the journal: one event, one sequence of bytes, whichever way it came in."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.log.leaf import draft, read_leaf, unpack
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError, LogError
from duly.protocol.wire.limits import LEAF_BYTES_MAX

DIGEST = "ab" * 32


def an_event(**changes: Any) -> dict[str, Any]:
    event = {
        "v": 1,
        "time_ms": 1_790_000_000_000,
        "run_id": "run-1",
        "kind": "step.succeeded",
        "epoch": 3,
        "cause": "m-1",
        "facts": {"step_id": "s1", "attempt": 1},
        "artifacts": {"output": DIGEST},
    }
    return {**event, **changes}


def test_golden_leaf() -> None:
    leaf = draft(an_event()).leaf(300)
    assert leaf.hex() == (
        "89a961727469666163747381a66f7574707574d940"
        + "6162" * 32
        + "a56361757365a36d2d31a565706f636803a5666163747382a7617474656d707401a7737465705f6964a27331a4"
        "6b696e64ae737465702e737563636565646564a672756e5f6964a572756e2d31a3736571cd012ca774696d655f6d73cf000001a0c4506c00a17601"
    )
    assert leaf == canon.encode({**an_event(), "seq": 300})


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.text(alphabet=st.characters(codec="ascii"), max_size=40)
    | st.text(alphabet="aé\u4e2d\U0001f600", max_size=5)
)
facts = st.dictionaries(
    st.text(alphabet="abcé_", min_size=1, max_size=6),
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner)
    ),
    max_size=6,
)
events = st.builds(
    an_event,
    facts=facts,
    epoch=st.integers(0, (1 << 63) - 1),
    time_ms=st.integers(0, (1 << 63) - 1),
    run_id=st.sampled_from(["", "run-1", "a" * 128]),
    cause=st.text(alphabet="aé-", max_size=8),
    artifacts=st.dictionaries(st.sampled_from(["a", "b", "é"]), st.just(DIGEST)),
)


@given(events, st.integers(0, (1 << 40)))
def test_map_and_bytes_give_the_canonical_leaf(event: dict[str, Any], seq: int) -> None:
    expected = canon.encode({**event, "seq": seq})
    assert draft(event).leaf(seq) == expected
    made = draft(canon.encode(event))
    assert made.leaf(seq) == expected
    assert (made.run_id, made.kind, made.epoch, made.time_ms) == (
        event["run_id"],
        event["kind"],
        event["epoch"],
        event["time_ms"],
    )
    assert read_leaf(expected, seq) == unpack(expected) == {**event, "seq": seq}


def reordered(event: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(event)
    return packed


@pytest.mark.parametrize(
    "data",
    [
        reordered(an_event()),
        reordered(dict(sorted(an_event(facts={"b": 1, "a": 2}).items()))),
        reordered(dict(sorted(an_event(artifacts={"b": DIGEST, "a": DIGEST}).items()))),
        reordered(dict(sorted(an_event(facts={b"a": 1}).items()))),
        reordered(dict(sorted(an_event(facts={1: 1}).items()))),
        reordered(dict(sorted(an_event(facts={"a": msgpack.ExtType(5, b"x")}).items()))),
        reordered(dict(sorted(an_event(facts={"a": msgpack.Timestamp(5)}).items()))),
        reordered(dict(sorted(an_event(facts={"a": "e\u0301"}).items()))),
        reordered(dict(sorted(an_event(facts={"e\u0301": 1}).items()))),
        reordered(dict(sorted(an_event(cause="e\u0301").items()))),
        reordered(dict(sorted(an_event(facts={"a": float("nan")}).items()))),
        canon.encode(an_event()) + b"\0",
        canon.encode(an_event())[:-1],
        canon.encode(an_event(epoch=3)).replace(b"\xa5epoch\x03", b"\xa5epoch\xcc\x03"),
        canon.encode(an_event()).replace(b"\xa7attempt\x01", b"\xa7attempt\xca\x3f\x80\x00\x00"),
        canon.encode(an_event(facts={"a": 1, "b": 2})).replace(b"\xa1b\x02", b"\xa1a\x02"),
        b"",
        b"\x88",
        b"\x90",
        b"\xc1",
        canon.encode([1]),
        canon.encode(None),
        b"\x91" * 500,
    ],
)
def test_bytes_that_are_not_canonical(data: bytes) -> None:
    with pytest.raises(DulyError) as caught:
        draft(data)
    assert caught.value.code.partition(".")[0] in ("wire", "log")


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2},
        {"v": True},
        {"epoch": -1},
        {"epoch": True},
        {"epoch": "1"},
        {"epoch": 1 << 63},
        {"time_ms": -1},
        {"time_ms": 1.5},
        {"kind": ""},
        {"kind": "two words"},
        {"kind": 5},
        {"run_id": "../x"},
        {"run_id": None},
        {"run_id": "a" * 129},
        {"cause": None},
        {"cause": 1},
        {"facts": []},
        {"facts": None},
        {"artifacts": {"output": "ab"}},
        {"artifacts": {"output": 5}},
        {"artifacts": {"output": DIGEST.upper()}},
        {"artifacts": []},
        {"seq": 4},
        {"extra": 1},
    ],
)
def test_events_that_are_refused(changes: dict[str, Any]) -> None:
    event = an_event(**changes)
    for form in (event, canon.encode(event)):
        with pytest.raises(LogError) as caught:
            draft(form)
        assert caught.value.code == "log.event"


@pytest.mark.parametrize("name", sorted(an_event()))
def test_a_missing_field_is_refused(name: str) -> None:
    event = an_event()
    del event[name]
    for form in (event, canon.encode(event)):
        with pytest.raises(LogError):
            draft(form)


def test_the_longest_entry_and_one_byte_more() -> None:
    room = LEAF_BYTES_MAX - 13 - len(canon.encode(an_event(facts={"text": ""}))) - 2
    longest = an_event(facts={"text": "x" * room})
    assert len(canon.encode(longest)) == LEAF_BYTES_MAX - 13
    assert len(draft(longest).leaf((1 << 63) - 1)) == LEAF_BYTES_MAX
    for form in (
        an_event(facts={"text": "x" * (room + 1)}),
        canon.encode(an_event(facts={"text": "x" * (room + 1)})),
    ):
        with pytest.raises(LogError) as caught:
            draft(form)
        assert caught.value.code == "log.leaf_too_large"


def test_a_leaf_read_under_another_number_is_refused() -> None:
    leaf = draft(an_event()).leaf(4)
    with pytest.raises(LogError, match="number 4") as caught:
        read_leaf(leaf, 5)
    assert caught.value.place == "entry 5"


@given(st.binary(max_size=200))
def test_any_bytes_end_in_an_error_with_a_code(data: bytes) -> None:
    with pytest.raises(DulyError):
        draft(data)
    with pytest.raises(LogError):
        read_leaf(data, 0)
