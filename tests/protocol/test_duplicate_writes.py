"""Two writes that their tool would take for one are a fault of the plan, and no others are."""

from __future__ import annotations

from typing import Any

import pytest

from duly.protocol.authority.grant import arguments_digest, idempotency_key
from duly.protocol.plan import validate
from plans import plan, ref, step, table, tool

READ = tool("read")
KEYED = tool("keyed", "write", idempotency="key")
OTHER = tool("other", "write", idempotency="key")
NATURAL = tool("natural", "write", idempotency="natural")
PLAIN = tool("plain", "write")
SENT = tool("sent", "external", idempotency="key")
ALL = table(READ, KEYED, OTHER, NATURAL, PLAIN, SENT)


def found(*steps: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.code) for fault in validate.faults_of(plan(steps), ALL)]


def write(step_id: str, descriptor: Any, arguments: Any, **more: Any) -> Any:
    return step(step_id, descriptor, arguments, reader=READ, **more)


@pytest.mark.parametrize("descriptor", [KEYED, SENT])
def test_equal_arguments_for_a_tool_that_acts_once_for_a_key(descriptor: Any):
    one, two = {"key": "x", "n": 1}, {"n": 1, "key": "x"}
    steps = [write(name, descriptor, given) for name, given in (("a", one), ("b", two), ("c", one))]
    assert found(*steps) == [
        ("steps/1/tool_contract/arguments", "plan.duplicate_write"),
        ("steps/2/tool_contract/arguments", "plan.duplicate_write"),
    ]


def test_the_fault_names_both_steps_and_what_to_do():
    steps = [write("first", KEYED, {"key": "x"}), write("second", KEYED, {"key": "x"})]
    (fault,) = validate.faults_of(plan(steps), ALL)
    assert "second is the very effect of first" in fault.message and "Leave one of them out" in fault.message


def test_equal_references_become_equal_values():
    read = step("r", READ, {"key": "x"})
    steps = [write(name, KEYED, {"key": ref("r")}) for name in ("a", "b")]
    assert found(read, *steps) == [("steps/2/tool_contract/arguments", "plan.duplicate_write")]


@pytest.mark.parametrize("descriptor", [READ, PLAIN, NATURAL])
def test_a_tool_that_takes_no_key_acts_each_time(descriptor: Any):
    assert found(*(write(name, descriptor, {"key": "x"}) for name in ("a", "b"))) == []


def test_other_arguments_another_tool_or_none_yet_are_other_effects():
    steps = [
        write("a", KEYED, {"key": "x"}),
        write("b", KEYED, {"key": "y"}),
        write("c", OTHER, {"key": "x"}),
        write("d", KEYED, {"key": "x", "n": 1}),
    ]
    assert found(*steps) == []
    open_ones = [one.model_copy(update={"step_id": f"o{n}"}) for n, one in enumerate(steps[:2])]
    for one in open_ones:
        one.tool_contract.__dict__["arguments"] = None
    assert "plan.duplicate_write" not in [code for _, code in found(*open_ones)]


@pytest.mark.parametrize("left, right", [(1, 1.0), (1, True), ("1", 1), ({}, []), ("é", "é")])
def test_it_is_judged_as_the_key_is(left: Any, right: Any):
    def key(value: Any) -> str:
        digest = arguments_digest({"key": value})
        return idempotency_key(run_id="r", tool="t.keyed", resource="sink:keyed", arguments=digest)

    codes = [code for _, code in found(write("a", KEYED, {"key": left}), write("b", KEYED, {"key": right}))]
    assert ("plan.duplicate_write" in codes) == (key(left) == key(right))
