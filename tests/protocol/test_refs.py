"""References: what is one, what looks like one and is none, and that data never becomes one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.plan import refs
from duly.protocol.plan.refs import Ref
from duly.protocol.wire.errors import PlanError
from duly.protocol.wire.tagged import to_tagged

STEPS = frozenset(("s1", "s2", "var_1"))


def codes(arguments: Any) -> list[str]:
    return [fault.code for fault in refs.faults_in(arguments, STEPS, "args")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s1#", Ref("s1", ())),
        ("s1#/", Ref("s1", ("",))),
        ("s1#/rows/0/rate", Ref("s1", ("rows", "0", "rate"))),
        ("s1#/a~1b/c~0d", Ref("s1", ("a/b", "c~d"))),
        ("s1#/~01", Ref("s1", ("~1",))),
        ("s1#/é/#", Ref("s1", ("é", "#"))),
    ],
)
def test_parse_and_back(text: str, expected: Ref):
    assert refs.parse(text) == expected and str(expected) == text


@pytest.mark.parametrize("text", ["", "s1", "#/a", "s1#a", "s 1#/a", "-s#/a", "s1/#", "../s#/a"])
def test_no_reference(text: str):
    with pytest.raises(PlanError) as caught:
        refs.parse(text)
    assert caught.value.code == "plan.bad_reference"


@given(st.text(min_size=1, max_size=8), st.lists(st.text(max_size=5), max_size=4))
def test_what_is_written_is_read(name: str, parts: list[str]):
    ref = Ref("s1", tuple(parts))
    assert refs.parse(str(ref)) == ref


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": {"$ref": "s1#/x"}}, []),
        ({"a": [{"$ref": "s1#/x"}, {"b": {"$ref": "s2#"}}]}, []),
        ({"a": {"$ref": "s9#/x"}}, ["plan.dangling_reference"]),
        ({"a": {"$ref": "s1"}}, ["plan.bad_reference"]),
        ({"a": {"$ref": 7}}, ["plan.bad_reference"]),
        ({"a": {"$ref": None}}, ["plan.bad_reference"]),
        ({"a": {"$ref": "s1#/x", "also": 1}}, ["plan.bad_reference"]),
        ({"a": {"$reff": "s1#/x"}}, ["plan.bad_key"]),
        ({"a": {"$": 1}}, ["plan.bad_key"]),
        ({"a": {"$$ref": "s1#/x"}}, []),
        ({"a": {"$decimal": "1.10"}}, []),
        ({"a": {"$ref": "s8#/x"}, "b": {"$ref": "s9#/x"}}, ["plan.dangling_reference"] * 2),
    ],
)
def test_every_fault_is_named(arguments: Any, expected: list[str]):
    assert codes(arguments) == expected


@pytest.mark.parametrize(
    "text",
    [
        "$s1.name$",
        "${s1}",
        "${{s1}}",
        "{{s1}}",
        "{{ s1.name }}",
        "from $s1 on",
        "a${s1.x}b",
        "$var_1.result$",
        "$s1",
        "$s1#/name",
        "$s1[0]",
        "x {{s2}} y",
    ],
)
def test_a_reference_inside_a_text_is_a_fault(text: str):
    assert codes({"a": text}) == ["plan.reference_in_text"]
    assert codes({"a": ["fine", {"b": text}]}) == ["plan.reference_in_text"]


@pytest.mark.parametrize(
    "text",
    [
        "$100-$200",
        "$5",
        "costs $12.50",
        "s1#/name",
        "s1",
        "US$ 30",
        "$",
        "$$",
        "${}",
        "{{}}",
        "{{s9}}",
        "$s9",
        "$HOME",
        "100$s",
        "a {s1} b",
        "e$10n",
    ],
)
def test_a_price_is_no_reference(text: str):
    assert codes({"a": text}) == []


def test_resolve_changes_nothing_else():
    outputs = {"s1": {"rows": [{"rate": 0.5}], "a/b": {"~": 1}}, "s2": ["x"]}
    arguments = {
        "whole": {"$ref": "s2#"},
        "rate": {"$ref": "s1#/rows/0/rate"},
        "odd": {"$ref": "s1#/a~1b/~0"},
        "deep": [[{"k": {"$ref": "s2#/0"}}], "$s1.rows$", {"$$ref": "s1#/rows"}, {"$decimal": "1.10"}],
        "none": None,
    }
    assert refs.resolve(arguments, outputs) == {
        "whole": ["x"],
        "rate": 0.5,
        "odd": 1,
        "deep": [[{"k": "x"}], "$s1.rows$", {"$$ref": "s1#/rows"}, {"$decimal": "1.10"}],
        "none": None,
    }


def test_without_references_arguments_are_the_same_object():
    arguments = {"a": [1, {"b": 2}]}
    assert refs.resolve(arguments, {}) is arguments and refs.resolve(None, {}) is None


def test_some_references_may_stay():
    arguments = {"a": {"$ref": "s1#/x"}, "b": [{"$ref": "s2#/x"}]}
    assert refs.resolve(arguments, {"s1": {"x": 1}}, keep=("s2",)) == {"a": 1, "b": [{"$ref": "s2#/x"}]}


@pytest.mark.parametrize(
    "pointer", ["/gone", "/rows/1", "/rows/-1", "/rows/00", "/rows/x", "/rows/0/rate/x", "/rows/١", "/$x", ""]
)
def test_where_nothing_is(pointer: str):
    outputs: dict[str, Any] = {"s1": {"rows": [{"rate": 0.5}]}} if pointer else {}
    with pytest.raises(PlanError) as caught:
        refs.resolve({"$ref": f"s1#{pointer}"}, outputs)
    assert caught.value.code == "plan.reference_unresolved" and caught.value.place == f"s1#{pointer}"


def test_a_key_that_begins_with_a_dollar_is_found_by_its_own_name():
    assert refs.lookup(to_tagged({"$price": 3}), ("$price",)) == 3


def test_steps_are_named_once_in_order():
    arguments = [{"$ref": "s2#/a"}, {"x": {"$ref": "s1#"}}, {"$ref": "s2#/b"}, {"$ref": 3}, {"$ref": "none"}]
    assert refs.steps_of(arguments) == ["s2", "s1"]


HOSTILE = st.recursive(
    st.none() | st.integers() | st.text(max_size=6) | st.sampled_from(["s1#/x", "$ref", "$s1$"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$ref", "$$ref", "$decimal", "$stated", "$", "a", "é"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(HOSTILE)
def test_no_output_becomes_a_reference(value: Any):
    """Whatever a tool returns: as tagged data it holds no reference, and arguments that take it in hold none either."""
    tagged = to_tagged(value)
    assert refs.is_data(tagged)
    assert list(refs.find(tagged)) == []
    resolved = refs.resolve({"a": {"$ref": "s1#"}, "b": [{"$ref": "s1#"}]}, {"s1": tagged})
    assert list(refs.find(resolved)) == []
    assert resolved == {"a": tagged, "b": [tagged]}
    assert refs.resolve(resolved, {}) is resolved


@pytest.mark.parametrize(
    "value", [{"$ref": "s1#/x"}, [{"a": {"$stated": 1}}], {"$": 1}, {"a": [{"$any": 1}]}]
)
def test_raw_bytes_of_a_host_may_pose_and_are_found_out(value: Any):
    assert not refs.is_data(value)
