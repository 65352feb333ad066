"""Canonical msgpack: golden bytes, exact round trips, and refusal of everything that is not canonical."""

from __future__ import annotations

import math
import struct
import tracemalloc
import unicodedata

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.wire import canon
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.ids import digest_bytes
from duly.protocol.wire.limits import DEPTH_MAX, FRAME_BYTES_MAX

# Bytes that must never change: journals on disk and signatures in the world depend on them.
GOLDEN = [
    (None, "c0"),
    (False, "c2"),
    (True, "c3"),
    (0, "00"),
    (127, "7f"),
    (128, "cc80"),
    (255, "ccff"),
    (256, "cd0100"),
    (65_535, "cdffff"),
    (65_536, "ce00010000"),
    (4_294_967_296, "cf0000000100000000"),
    (18_446_744_073_709_551_615, "cfffffffffffffffff"),
    (-1, "ff"),
    (-32, "e0"),
    (-33, "d0df"),
    (-128, "d080"),
    (-129, "d1ff7f"),
    (-32_769, "d2ffff7fff"),
    (-2_147_483_649, "d3ffffffff7fffffff"),
    (-9_223_372_036_854_775_808, "d38000000000000000"),
    (0.0, "cb0000000000000000"),
    (1.5, "cb3ff8000000000000"),
    ("", "a0"),
    ("duly", "a464756c79"),
    ("é", "a2c3a9"),
    ("a" * 32, "d920" + "61" * 32),
    (b"", "c400"),
    (b"\x00\xff", "c40200ff"),
    ([], "90"),
    ([1, "a", None], "9301a161c0"),
    ({}, "80"),
    ({"b": 1, "a": [True]}, "82a16191c3a16201"),
    ({"z": {"y": 1, "x": 2}, "B": 3}, "82a14203a17a82a17802a17901"),
    ([0] * 16, "dc0010" + "00" * 16),
]


def assert_refused(data: bytes, code: str, **options: object) -> None:
    with pytest.raises(WireError) as caught:
        canon.decode(data, **options)  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize(("value", "expected"), GOLDEN, ids=lambda each: repr(each)[:40])
def test_golden_bytes(value, expected):
    assert canon.encode(value).hex() == expected
    assert canon.decode(bytes.fromhex(expected)) == value


def test_golden_digest():
    """The domain keeps one kind's digest from being another's."""
    value = {"a": 1, "b": [None, "é"]}
    assert canon.encode(value).hex() == "82a16101a16292c0a2c3a9"
    assert canon.digest("plan", value) == digest_bytes("plan", canon.encode(value))
    assert canon.digest("plan", value) == "df2dd6753c378b9098ef03e349e64e495e10041dc17f08f38c38e270e547e5f9"
    assert canon.digest("plan", value) != canon.digest("arguments", value)


texts = st.text(st.characters(codec="utf-8")).map(lambda text: unicodedata.normalize("NFC", text))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
    | texts
    | st.binary()
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30)


def same(left: object, right: object) -> bool:
    """Equal, and of the same types all the way down (``True == 1`` is not enough)."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))  # type: ignore[arg-type]
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)  # type: ignore
    return left == right


@given(values)
def test_round_trip_is_exact(value):
    data = canon.encode(value)
    back = canon.decode(data)
    assert same(back, value)
    assert canon.encode(back) == data


@given(st.dictionaries(texts, scalars, min_size=2), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert canon.encode(dict(items)) == canon.encode(value)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_canonical(data):
    try:
        value = canon.decode(data)
    except WireError as error:
        assert error.code.startswith("wire.")
    else:
        assert canon.encode(value) == data


@given(values, st.data())
def test_a_changed_byte_never_reads_as_the_same_value(value, data):
    encoded = canon.encode(value)
    at = data.draw(st.integers(0, len(encoded) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = encoded[:at] + bytes([encoded[at] ^ flip]) + encoded[at + 1 :]
    try:
        back = canon.decode(changed)
    except WireError as error:
        assert error.code.startswith("wire.")
    else:
        assert not same(back, value)


NOT_CANONICAL = {
    "duplicate keys": "82a16101a16101",
    "duplicate keys, other value": "82a16101a16102",
    "unsorted keys": "82a16201a16102",
    "uint8 for 1": "cc01",
    "uint16 for 128": "cd0080",
    "uint32 for 1": "ce00000001",
    "uint64 for 1": "cf0000000000000001",
    "int8 for -1": "d0ff",
    "int8 for 5": "d005",
    "int64 for -1": "d3ffffffffffffffff",
    "float32": "ca3fc00000",
    "str8 for a short text": "d90161",
    "str16 for a short text": "da000161",
    "array16 for one item": "dc000101",
    "map16 for one item": "de0001a16101",
    "bin16 for one byte": "c5000100",
}


@pytest.mark.parametrize("data", NOT_CANONICAL.values(), ids=NOT_CANONICAL.keys())
def test_another_spelling_of_a_value_is_refused(data):
    """Attack list 28."""
    assert_refused(bytes.fromhex(data), "wire.not_canonical")


MALFORMED = {
    "nothing": "",
    "trailing byte": "c0c0",
    "trailing text": "01a161",
    "cut text": "a5616263",
    "cut map": "82a16101",
    "the reserved byte": "c1",
    "bad utf-8": "a1ff",
    "an overlong utf-8": "a2c080",
    "a surrogate in utf-8": "a3eda080",
    "integer key": "810101",
    "nil key": "81c001",
    "array key": "819101c0",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_message_is_refused(data):
    """Attack list 28: trailing bytes, keys of another type, and plain nonsense."""
    assert_refused(bytes.fromhex(data), "wire.malformed")


def test_binary_keys_are_refused():
    """Attack list 28: msgpack's own strict mode lets them through."""
    assert_refused(bytes.fromhex("81c4016101"), "wire.key_type")


@pytest.mark.parametrize(
    "data", ["d40100", "d50100ff", "d6ff00000000", "d7ff0000000000000000", "c70301aabbcc"]
)
@pytest.mark.parametrize("padding", [0, 40])
def test_extension_types_are_refused(data, padding):
    """Attack list 28; msgpack's own timestamp is one of them. Also behind as many items as make the depth check run."""
    message = bytes.fromhex(data)
    if padding:
        message = b"\xdc" + (padding + 1).to_bytes(2, "big") + b"\x00" * padding + message
    with pytest.raises(WireError) as caught:
        canon.decode(message)
    assert caught.value.code in ("wire.extension", "wire.malformed", "wire.type")


UNSIGNABLE = {
    "nan": (math.nan, "wire.float"),
    "infinity": (math.inf, "wire.float"),
    "minus zero": (-0.0, "wire.float"),
    "decomposed": ("e\u0301", "wire.not_nfc"),
    "2^64": (1 << 64, "wire.integer_too_large"),
    "-2^63-1": (-(1 << 63) - 1, "wire.integer_too_large"),
    "half a surrogate pair": ("\ud800", "wire.surrogate"),
    "tuple": ((1,), "wire.type"),
    "set": ({1}, "wire.type"),
    "bytearray": (bytearray(b"a"), "wire.type"),
    "complex": (1j, "wire.type"),
}


@pytest.mark.parametrize(("value", "code"), UNSIGNABLE.values(), ids=UNSIGNABLE.keys())
def test_what_has_no_canonical_form_is_refused_with_its_path(value, code):
    """Attack list 29."""
    with pytest.raises(WireError) as caught:
        canon.encode({"rows": [1, {"cell": value}]})
    assert (caught.value.code, caught.value.place) == (code, "/rows/1/cell")


@pytest.mark.parametrize("key", [1, None, b"a", ("a",)])
def test_keys_are_texts(key):
    with pytest.raises(WireError) as caught:
        canon.encode({"outer": {key: 1}})
    assert (caught.value.code, caught.value.place) == ("wire.key_type", "/outer")


@pytest.mark.parametrize("number", [math.nan, -0.0, math.inf])
def test_floats_without_canonical_form_are_refused_on_the_wire(number):
    """Attack list 29: such bytes pass every msgpack decoder."""
    assert_refused(msgpack.packb(number), "wire.float")


def test_decomposed_text_is_refused_on_the_wire():
    assert_refused(msgpack.packb("e\u0301"), "wire.not_nfc")


@pytest.mark.parametrize("value", [1.5, [0.0], {"rate": 0.25}])
def test_signed_documents_hold_no_floats(value):
    with pytest.raises(WireError) as caught:
        canon.encode(value, floats=False)
    assert caught.value.code == "wire.float"
    assert_refused(canon.encode(value), "wire.float", floats=False)


def test_the_frame_limit_comes_before_decoding():
    """Attack list 30: 4 MB of empty arrays would become hundreds of megabytes of objects."""
    data = b"\xdd" + (4_000_000).to_bytes(4, "big") + b"\x90" * 4_000_000
    tracemalloc.start()
    assert_refused(data, "wire.frame_too_large")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_the_frame_limit_is_exact():
    body = FRAME_BYTES_MAX - 5
    assert canon.decode(b"\xc6" + body.to_bytes(4, "big") + b"a" * body) == b"a" * body
    assert_refused(b"\xc6" + (body + 1).to_bytes(4, "big") + b"a" * (body + 1), "wire.frame_too_large")


@pytest.mark.parametrize("header", ["c6ffffffff", "dbffffffff", "ddffffffff", "dfffffffff", "c9ffffffff01"])
@pytest.mark.parametrize("tail", [b"", b"\x00" * 100])
def test_a_claimed_length_of_four_gigabytes_costs_nothing(header, tail):
    """Attack list 31."""
    tracemalloc.start()
    with pytest.raises(WireError) as caught:
        canon.decode(bytes.fromhex(header) + tail)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.code in ("wire.malformed", "wire.extension")
    assert peak < 1 << 20


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01"])
def test_depth_of_100_000_is_refused_in_bounded_memory(opening):
    """Attack list 31."""
    tracemalloc.start()
    assert_refused(opening * 100_000 + b"\xc0", "wire.too_deep")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


def test_deep_nesting_of_large_claims_is_refused_before_room_is_made_for_them():
    """Each level claims as many items as a message of this size may have; a thousand levels would take gigabytes."""
    data = b"\xdd\x00\x0f\xff\x00" * 1_000 + b"\xc0" * 1_000_000
    tracemalloc.start()
    assert_refused(data, "wire.too_deep")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


def test_text_full_of_header_bytes_is_no_nesting():
    value = {"sig": bytes(range(0xDC, 0xE0)) * 500, "text": "\u07ff" * 100}
    assert canon.decode(canon.encode(value)) == value


@given(values, st.booleans())
def test_the_quick_way_and_the_careful_way_agree(value, floats):
    """``encode`` takes the second only for what the first does not like; both must give the same bytes."""
    try:
        careful = msgpack.packb(canon._ordered(value, "", 0, floats))
    except WireError as error:
        with pytest.raises(WireError) as caught:
            canon.encode(value, floats=floats)
        assert (caught.value.code, caught.value.place) == (error.code, error.place)
    else:
        assert msgpack.packb(canon._quickly(value, DEPTH_MAX, floats)) == careful


def nested(depth: int) -> object:
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


def test_the_depth_limit_is_exact_and_the_same_both_ways():
    deepest = nested(DEPTH_MAX)
    assert canon.decode(canon.encode(deepest)) == deepest
    with pytest.raises(WireError) as caught:
        canon.encode(nested(DEPTH_MAX + 1))
    assert caught.value.code == "wire.too_deep"
    assert_refused(msgpack.packb(nested(DEPTH_MAX + 1)), "wire.too_deep")


def test_a_wide_message_is_not_taken_for_a_deep_one():
    value = {f"key{index}": [[index], {"a": [index]}] for index in range(1_000)}
    assert canon.decode(canon.encode(value)) == value


def test_float_bytes_are_big_endian_float64():
    assert canon.encode(0.1) == b"\xcb" + struct.pack(">d", 0.1)
