"""Faults inside of a choice name what is wrong in the branch that was meant, not only that no branch fits."""

from __future__ import annotations

import re

import pytest

from duly.protocol.plan import schema

WORD = re.compile(r"schema's '(\w+)'")
CALL = {
    "type": "object",
    "properties": {
        "tool": {"enum": ["find"]},
        "when": {
            "anyOf": [
                {"type": "object", "properties": {"month": {"type": "integer"}}, "required": ["month"]},
                {"type": "null"},
            ]
        },
    },
    "required": ["tool", "when"],
    "additionalProperties": False,
}
SEND = {
    "type": "object",
    "properties": {"tool": {"const": "send"}, "to": {"type": "string"}, "note": {"type": "string"}},
    "required": ["tool", "to", "note"],
    "additionalProperties": False,
}
STEPS = {"type": "array", "items": {"anyOf": [CALL, SEND, {"type": "null"}]}}


@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("step", "found"),
    [
        ({"tool": "find", "when": {"month": 6}}, []),
        ({"tool": "find", "when": {"month": "6"}}, ["v/0/when/month type"]),
        ({"tool": "find", "when": {}}, ["v/0/when required"]),
        ({"tool": "find", "when": "June"}, ["v/0/when anyOf"]),  # neither a map nor null: none is meant
        ({"tool": "find", "when": None, "x": 1}, ["v/0 additionalProperties"]),
        ({"tool": "send", "to": 5}, ["v/0 required", "v/0/to type"]),
        ("find", ["v/0 anyOf"]),
        (None, []),
    ],
)
def test_the_fault_is_the_one_of_the_branch_that_was_meant(union, step, found):
    wanted = {"type": "array", "items": {union: STEPS["items"]["anyOf"]}}
    faults = schema.faults_of([step], wanted, "v", "plan.bad_arguments")
    said = sorted(f"{fault.path} {WORD.findall(fault.message)[0]}" for fault in faults)
    assert said == [one.replace("v/0 anyOf", f"v/0 {union}") for one in found]


def test_an_unknown_word_is_named_at_its_place():
    faults = schema.faults_of([{"tool": "drop", "when": None}], STEPS, "v", "plan.bad_arguments")
    assert [fault.path for fault in faults] == ["v/0/tool"]


def test_what_a_reference_may_still_become_stays_out():
    step = {"tool": "find", "when": {"$ref": "s1#/when"}}
    assert schema.faults_of([step], STEPS, "v", "plan.bad_arguments", ["/0/when"]) == []
