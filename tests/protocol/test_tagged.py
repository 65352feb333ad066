"""The lossless form of tool outputs: exact round trips, golden forms, and data that can never become a reference."""

from __future__ import annotations

import datetime
import json
import math
import struct
import zoneinfo
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.wire import canon
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.limits import DEPTH_MAX
from duly.protocol.wire.tagged import from_tagged, to_tagged

UTC = datetime.UTC
NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
HALF_PAST = datetime.timezone(datetime.timedelta(hours=5, minutes=30))

# (value, tagged form); the forms stand on disk and must never change
GOLDEN = [
    (Decimal("1.10"), {"$decimal": "1.10"}),
    (Decimal("-0"), {"$decimal": "-0"}),
    (Decimal("1E+500"), {"$decimal": "1E+500"}),
    (1 << 64, {"$int": "18446744073709551616"}),
    (-(1 << 63) - 1, {"$int": "-9223372036854775809"}),
    (math.nan, {"$float": "nan"}),
    (math.inf, {"$float": "inf"}),
    (-math.inf, {"$float": "-inf"}),
    (-0.0, {"$float": "-0.0"}),
    (b"\x00\x01", {"$bytes": "AAE="}),
    ("e\u0301", {"$text": "ZcyB"}),
    ("\ud800", {"$text": "7aCA"}),
    (datetime.date(2013, 6, 1), {"$date": "2013-06-01"}),
    (datetime.time(12, 0, 0, 5), {"$time": "12:00:00.000005"}),
    (datetime.datetime(2013, 6, 1, 4), {"$datetime": "2013-06-01T04:00:00", "fold": 0, "zone": None}),
    (
        datetime.datetime(2013, 6, 1, 4, tzinfo=UTC),
        {"$datetime": "2013-06-01T04:00:00+00:00", "fold": 0, "zone": None},
    ),
    (
        datetime.datetime(2013, 6, 1, 4, tzinfo=HALF_PAST),
        {"$datetime": "2013-06-01T04:00:00+05:30", "fold": 0, "zone": None},
    ),
    (
        datetime.datetime(2013, 11, 3, 1, 30, fold=1, tzinfo=NEW_YORK),
        {"$datetime": "2013-11-03T01:30:00", "fold": 1, "zone": "America/New_York"},
    ),
    (datetime.timedelta(days=-1, seconds=3, microseconds=7), {"$duration": [-1, 3, 7]}),
    ((1, ("a",)), {"$tuple": [1, {"$tuple": ["a"]}]}),
    ({1: "a", None: b""}, {"$map": [[1, "a"], [None, {"$bytes": ""}]]}),
    ({"e\u0301": 1}, {"$map": [[{"$text": "ZcyB"}, 1]]}),
    ({"$ref": "s1#/rows"}, {"$$ref": "s1#/rows"}),
    ({"$$ref": 1, "plain": 2}, {"$$$ref": 1, "plain": 2}),
    ({"price": "$100-$200"}, {"price": "$100-$200"}),
]


def identity(value: object) -> object:
    """A form in which two values are equal only when nothing at all was lost: type, sign of zero, zone, fold, digits."""
    kind = type(value).__name__
    if isinstance(value, float):
        return kind, "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, datetime.datetime):
        zone = value.tzinfo
        name = zone.key if isinstance(zone, zoneinfo.ZoneInfo) else repr(zone)
        return kind, value.replace(tzinfo=None).isoformat(), value.fold, name
    if isinstance(value, Decimal):
        return kind, str(value)
    if isinstance(value, list | tuple):
        return kind, [identity(item) for item in value]
    if isinstance(value, dict):
        return kind, sorted((repr(identity(key)), identity(item)) for key, item in value.items())
    return kind, value


@pytest.mark.parametrize(("value", "form"), GOLDEN, ids=lambda each: ascii(each)[:50])
def test_golden_forms(value, form):
    assert to_tagged(value) == form
    assert identity(from_tagged(form)) == identity(value)
    assert canon.decode(canon.encode(form)) == form


zones = st.none() | st.just(UTC) | st.just(NEW_YORK) | st.just(HALF_PAST)
special = (
    st.decimals(allow_nan=False)
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010))
    | st.sampled_from(["$ref", "$$", "$100-$200", "$decimal", "e\u0301"])
    | st.binary()
    | st.dates()
    | st.times().map(lambda time: time.replace(fold=0))
    | st.datetimes(timezones=zones, allow_imaginary=True)
    | st.timedeltas()
    | st.none()
    | st.booleans()
)
keys = st.text() | st.sampled_from(["$ref", "$$ref", "$tuple", "$map", "$datetime", "fold", "zone"])
odd_keys = keys | st.integers() | st.none() | st.binary() | st.dates()
outputs = st.recursive(
    special,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(odd_keys, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(outputs)
def test_every_output_comes_back_exactly_or_fails_with_its_path(value):
    """Attack list 29: through the tagged form, canonical bytes, and back."""
    try:
        data = canon.encode(to_tagged(value))
    except WireError as error:
        assert error.code == "wire.too_deep"
    else:
        back = from_tagged(canon.decode(data))
        assert identity(back) == identity(value)
        assert canon.encode(to_tagged(back)) == data


@given(outputs)
def test_the_tagged_form_is_json_too(value):
    """It is shown and exported as JSON: no value of it needs more than JSON has."""
    try:
        form = to_tagged(value)
    except WireError as error:
        assert error.code == "wire.too_deep"
    else:
        assert json.loads(json.dumps(form, allow_nan=False)) == form


def bare_references(value: object) -> list[object]:
    if isinstance(value, dict):
        return [key for key in value if key == "$ref"] + [
            hit for item in value.values() for hit in bare_references(item)
        ]
    if isinstance(value, list):
        return [hit for item in value for hit in bare_references(item)]
    return []


@given(outputs)
def test_data_never_becomes_a_reference(value):
    try:
        form = to_tagged(value)
    except WireError as error:
        assert error.code == "wire.too_deep"
    else:
        assert bare_references(form) == []


class Odd:
    """A value of a type that nobody promised to keep."""


class OwnZone(datetime.tzinfo):
    """A zone that only this process knows."""

    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(hours=1)


@pytest.mark.parametrize(
    "value",
    [
        Odd(),
        {1, 2},
        1j,
        bytearray(b"a"),
        range(3),
        datetime.datetime(2013, 1, 1, tzinfo=OwnZone()),
        datetime.time(1, tzinfo=UTC),
        type("Text", (str,), {})("a"),
        type("Number", (int,), {})(1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_kept_is_refused_with_its_path(value):
    with pytest.raises(WireError) as caught:
        to_tagged({"rows": [0, {"cell": value}]})
    assert caught.value.code == "wire.unsupported"
    assert caught.value.place == "/rows/1/cell"


BROKEN = {
    "unknown tag": {"$pickle": "gASVAAAA"},
    "a reference": {"$ref": "s1#/a"},
    "two tags": {"$int": "1", "$decimal": "1"},
    "a tag and a key": {"$int": "1", "other": 2},
    "words for digits": {"$int": "one"},
    "a list for digits": {"$decimal": [1]},
    "no decimal": {"$decimal": "1.1.1"},
    "a plain float under the tag": {"$float": "1.5"},
    "broken base64": {"$bytes": "A"},
    "text that is no text": {"$text": "//8="},
    "no date": {"$date": "2013-02-30"},
    "datetime without its zone": {"$datetime": "2013-06-01T04:00:00", "fold": 0},
    "datetime with one more field": {"$datetime": "2013-06-01T04:00:00", "fold": 0, "zone": None, "more": 1},
    "unknown zone": {"$datetime": "2013-06-01T04:00:00", "fold": 0, "zone": "Nowhere/Land"},
    "a zone that climbs out": {"$datetime": "2013-06-01T04:00:00", "fold": 0, "zone": "../../etc/passwd"},
    "fold 2": {"$datetime": "2013-06-01T04:00:00", "fold": 2, "zone": None},
    "a duration of two": {"$duration": [1, 2]},
    "a duration of fractions": {"$duration": [1.5, 0, 0]},
    "a duration that is not normal": {"$duration": [0, 90_000, 0]},
    "digits with a blank": {"$int": " 18446744073709551616"},
    "an integer that fits": {"$int": "1"},
    "a text that is plain": {"$text": "YQ=="},
    "a week date": {"$date": "2013-W01-1"},
    "equal keys": {"$map": [[1, "a"], [1, "b"]]},
    "keys that are equal in Python": {"$map": [[1, "a"], [True, "b"]]},
    "a duration out of range": {"$duration": [10**12, 0, 0]},
    "a tuple of nothing": {"$tuple": None},
    "a map of single keys": {"$map": [[1]]},
    "a map with an unhashable key": {"$map": [[[1], 2]]},
}


@pytest.mark.parametrize("form", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_tag_is_refused_with_its_path(form):
    with pytest.raises(WireError) as caught:
        from_tagged({"rows": [form]})
    assert caught.value.code == "wire.bad_tag"
    assert (caught.value.place or "").startswith("/rows/0")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(keys, inner) | st.lists(inner)
    )
)
def test_any_form_reads_or_is_refused(form):
    try:
        value = from_tagged(form)
    except WireError as error:
        assert error.code == "wire.bad_tag"
    else:
        assert identity(from_tagged(to_tagged(value))) == identity(value)


def test_nesting_beyond_the_limit_is_refused_not_a_crash():
    value: object = 1
    for _ in range(5_000):
        value = [value]
    with pytest.raises(WireError) as caught:
        to_tagged(value)
    assert caught.value.code == "wire.too_deep"


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (inner,)])
def test_what_has_a_tagged_form_has_canonical_bytes(wrap):
    """The two depth limits agree: no output passes the one and fails at the other."""
    value: object = 1
    accepted = 0
    for depth in range(1, DEPTH_MAX + 2):
        value = wrap(value)
        try:
            form = to_tagged(value)
        except WireError as error:
            assert error.code == "wire.too_deep"
        else:
            accepted = depth
            assert canon.decode(canon.encode(form)) == form
    assert 0 < accepted <= DEPTH_MAX
