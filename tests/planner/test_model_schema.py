"""Strict forms of any schema: closed and bounded, and a value written under one reads back as the value that it means."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.plan.model_schema import closed, definitions, fits, strict, whole
from duly.protocol.plan.model_value import plain
from duly.protocol.wire import canon
from duly.protocol.wire.errors import Fault
from duly.protocol.wire.limits import MODEL_SCHEMA_PROPERTIES_MAX, MODEL_STRING_CHARS_MAX

names = st.text("abc", min_size=1, max_size=3)
scalars = st.sampled_from(
    [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
    + [{"enum": ["x", "y"]}, {"const": 3}, {"enum": ["x", 1, None]}, {}]
)


def _object(parts: dict, every: bool) -> dict:
    return {
        "type": "object",
        "properties": parts,
        "required": list(parts) if every else [],
        "additionalProperties": False,
    }


schemas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(_object, st.dictionaries(names, inner, min_size=1, max_size=3), st.booleans()),
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda one: {"anyOf": one}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)
odd = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                "type properties required items anyOf oneOf allOf enum const $ref $defs maxLength additionalProperties".split()
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)


def form(schema, references=False):
    known = definitions(references=references, step_ids=["s1", "s2"])
    return whole(closed({"v": strict(schema, references=references)}), known)


def maps(value):
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from maps(one)
    elif isinstance(value, list):
        for one in value:
            yield from maps(one)


def is_strict(schema):
    for node in maps(schema):
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
        if node.get("type") == "string" and "enum" not in node:
            assert node["maxLength"] <= MODEL_STRING_CHARS_MAX
        if node.get("type") == "array":
            assert node["maxItems"] >= 0
        target = node.get("$ref")
        assert target is None or isinstance(target, dict) or target.rpartition("/")[2] in schema["$defs"]


@given(schemas, st.booleans())
def test_every_schema_has_a_strict_form(schema, references):
    found = form(schema, references)
    is_strict(found)
    assert jsonschema_rs.validator_for(found)
    assert canon.encode(found)


@given(odd)
def test_what_strangers_write_as_schemas_has_one_too(schema):
    found = form(schema)
    is_strict({"$defs": {}, **found})
    assert plain({"a": [1, {"b": None}], "json": "x"}, schema, "", []) is not None


def test_schemas_that_name_themselves_stay_small():
    node = {"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(60)}}
    found = form(node)
    assert len(json.dumps(found)) < 400 * MODEL_SCHEMA_PROPERTIES_MAX
    is_strict(found)
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert strict(circle) == {"$ref": "#/$defs/value"}
    assert strict({"$ref": "https://example.org/x.json"}) == {"$ref": "#/$defs/value"}


def test_no_property_is_named_like_a_reference():
    """Servers that compile schemas into grammars follow whatever stands under ``$ref``."""
    found = form({"type": "object", "properties": {"$ref": {"type": "string"}, "a": {}}}, references=True)
    for node in maps(found):
        assert "$ref" not in node.get("properties", {})


READ_BACK = [
    ({"type": "string"}, "e\u0301", "\u00e9"),
    ({"type": "integer"}, 7.0, 7),
    ({"type": "integer"}, "7", "7"),
    ({"type": "number"}, 7.0, 7.0),
    ({}, {"json": '[1, {"a": null}]'}, [1, {"a": None}]),
    ({"type": "object"}, {"entries": [{"name": "a", "value": {"json": "[2]"}}]}, {"a": [2]}),
    (
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
        {"a": None, "b": None},
        {"a": None},
    ),
    ({"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {}}}]}, {"a": None}, {}),
    ({"type": "object", "properties": {"json": {"type": "string"}}}, {"json": "{"}, {"json": "{"}),
    ({"type": "object", "properties": {"entries": {"type": "array"}}}, {"entries": []}, {"entries": []}),
    ({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}}}, {"a": None}, {}),
    ({}, {"from_step": "s1", "pointer": "/a"}, {"$ref": "s1#/a"}),
    ({"properties": {"$top": {}}}, {"$top": 3}, {"$$top": 3}),
]


@pytest.mark.parametrize(("schema", "written", "meant"), READ_BACK)
def test_a_value_reads_back_as_what_it_means(schema, written, meant):
    faults: list[Fault] = []
    assert plain(written, schema, "v", faults, references=True) == meant
    assert faults == []


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ({"json": "{"}, "plan.bad_json"),
        ({"json": "[" * 100_000}, "plan.bad_json"),
        ({"entries": [{"name": "a"}]}, "plan.bad_entry"),
        ({"entries": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}, "plan.bad_entry"),
        ({"entries": ["a"]}, "plan.bad_entry"),
        ("\ud800", "plan.bad_text"),
        ({"\ud800": 1}, "plan.bad_text"),
        (json.loads("[" * 60 + "]" * 60), "plan.too_deep"),
    ],
)
def test_what_cannot_be_read_is_a_fault(written, code):
    faults: list[Fault] = []
    plain(written, {"type": "object"}, "v", faults)
    assert {fault.code for fault in faults} == {code}


def test_without_references_none_is_made():
    written = {"from_step": "s1", "pointer": "/a"}
    assert plain(written, {}, "v", []) == written
    assert "reference" not in form({})["$defs"]


def test_a_schema_is_too_big_by_bytes_or_by_properties():
    assert fits(form({"type": "string"}))
    assert not fits(closed({f"p{n}": {"type": "null"} for n in range(MODEL_SCHEMA_PROPERTIES_MAX + 1)}))
    assert not fits({"type": "string", "enum": ["x" * 100_000]})
