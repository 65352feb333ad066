"""The plan as an artifact: its content digest, its seven fields, its bytes."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from duly.protocol.plan.plan import (
    Destination,
    Plan,
    Provenance,
    Retry,
    Step,
    ToolContract,
)
from duly.protocol.plan.rules import Rule
from duly.protocol.plan.scope import Scope
from duly.protocol.wire import canon
from duly.protocol.wire.limits import ATTEMPTS_PER_STEP_MAX, TOOL_TIMEOUT_SECONDS_MAX
from plans import plan, ref, step, tool

A = tool("a")
PLAN = plan([step("s1", A, {"key": 1}), step("s2", A, {"key": ref("s1")})])


def test_a_plan_cannot_return_under_a_new_number():
    again = PLAN.model_copy(
        update={
            "plan_id": "p9",
            "version": 9,
            "origin": "model",
            "provenance": Provenance(kind="replan", number=2, reason="x"),
        }
    )
    assert again != PLAN and again.content_digest() == PLAN.content_digest()


@pytest.mark.parametrize(
    "change",
    [
        {"objective": "Find it."},
        {"constraints": ["fast"]},
        {"scope": Scope(sources=["flights"])},
        {"task_class": "open"},
        {"allow_partial": True},
        {"report_step": "s1"},
        {"steps": PLAN.steps[:1]},
        {"steps": PLAN.steps[::-1]},
    ],
)
def test_anything_else_is_another_plan(change: dict[str, Any]):
    assert PLAN.model_copy(update=change).content_digest() != PLAN.content_digest()


def test_every_field_of_every_step_counts():
    first = PLAN.steps[0]
    changed = {
        "step_id": "s9",
        "objective": "other",
        "kind": "reason",
        "depends_on": ["s2"],
        "inputs": first.inputs.model_copy(update={"artifacts": {"x": "s2"}}),
        "tool_contract": first.tool_contract.model_copy(update={"arguments": {"key": 2}}),
        "output_contract": first.output_contract.model_copy(update={"version": "2"}),
        "verification": first.verification.model_copy(update={"tolerance": 1}),
        "on_failure": [Retry(), *first.on_failure],
    }
    assert set(changed) == set(Step.model_fields)
    digests = {
        PLAN.model_copy(
            update={"steps": [first.model_copy(update={name: value}), PLAN.steps[1]]}
        ).content_digest()
        for name, value in changed.items()
    }
    assert len(digests | {PLAN.content_digest()}) == len(changed) + 1


def test_the_digest_is_that_of_the_canonical_bytes():
    assert PLAN.content_digest() == canon.digest("plan", PLAN.content())
    assert Plan.decoded(PLAN.encoded()) == PLAN
    assert canon.decode(PLAN.encoded()) == PLAN.to_data()


def test_a_whole_number_is_no_real_number():
    """1 and 1.0 are different bytes to a tool, and so to an approver."""
    one, real = (plan([step("s1", A, {"key": value})]) for value in (1, 1.0))
    assert one.content_digest() != real.content_digest()


def test_a_step_is_found_by_its_id():
    assert PLAN.step("s2").step_id == "s2" and PLAN.step("s2").tool == "t.a"
    with pytest.raises(KeyError):
        PLAN.step("s3")


@pytest.mark.parametrize("seconds", [0, -1, TOOL_TIMEOUT_SECONDS_MAX + 1])
def test_timeouts_are_bounded(seconds: int):
    with pytest.raises(ValidationError):
        ToolContract(tool=None, arguments=None, effect="read", timeout_seconds=seconds)


def test_retries_are_bounded():
    assert Retry(attempts=ATTEMPTS_PER_STEP_MAX)
    for attempts in (0, ATTEMPTS_PER_STEP_MAX + 1):
        with pytest.raises(ValidationError):
            Retry(attempts=attempts)


def test_destinations_and_rules_are_told_by_one_word():
    destinations = {one.model_fields["do"].default for one in get_args(get_args(Destination)[0])}
    assert destinations == {"retry", "replan", "degrade", "clarify", "escalate"}
    rules = {one.model_fields["rule"].default for one in get_args(get_args(Rule)[0])}
    assert rules == {"range", "equals", "not_null", "unique", "count", "sums_to", "agrees"}


def test_nothing_is_converted():
    data = PLAN.to_data()
    data["version"] = "1"
    with pytest.raises(ValidationError):
        Plan.model_validate(data)
