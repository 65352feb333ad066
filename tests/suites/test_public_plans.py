"""Public plans through duly's protocol: levels, validation with every fault, references resolved level by level.

What runs here are the pure rules; the same cases go through a driver elsewhere.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from duly.protocol.plan import refs, schedule, schema, validate
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from duly.protocol.wire.errors import PlanError
from duly.protocol.wire.tagged import to_tagged
from suite_rows import Case, nestful, nestful_math, nestools, rows

NUMBERS: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "sqrt": math.sqrt,
}
INSIDE_A_TEXT = [
    "nestful-executable-14",
    "nestful-executable-16",
    "nestful-executable-18",
    "nestful-executable-34",
    "nestful-glaive-77",
    "nestful-glaive-137",
]


def walked(case: Case, act: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Runs a plan level by level in memory, with every resolved argument checked against its schema; the outputs."""
    outputs: dict[str, Any] = {}
    for level in schedule.levels(case.plan):
        done = {}
        for name in level:
            step = case.plan.step(name)
            arguments = refs.resolve(step.tool_contract.arguments, outputs)
            descriptor = case.descriptors[step.tool or ""]
            assert schema.faults_of(arguments, descriptor.input_schema, "", "tool.bad_arguments") == []
            output = to_tagged(act(name, arguments))
            assert schema.faults_of(output, step.output_contract.json_schema, "", "tool.bad_output") == []
            done[name] = output
        outputs |= done
    return outputs


def test_nestools_levels_are_as_expected(suites: Path):
    found = rows(suites / "nestools.jsonl")
    assert len(found) == 500
    for row in found:
        case = nestools(row)
        levels = schedule.levels(case.plan)
        placed = {name: number for number, level in enumerate(levels, 1) for name in level}
        assert placed == row["expected"]["levels"], case.plan.plan_id
        assert len(levels) == row["expected"]["depth"], case.plan.plan_id
        assert max(map(len, levels)) == row["expected"]["width"], case.plan.plan_id


def test_nestools_levels_do_not_need_depends_on(suites: Path):
    """A reference is a dependency: without a word in ``depends_on`` the levels are the same."""
    changed = 0
    for row in rows(suites / "nestools.jsonl"):
        case = nestools(row)
        bare = [step.model_copy(update={"depends_on": []}) for step in case.plan.steps]
        changed += any(step.depends_on for step in case.plan.steps)
        assert schedule.levels(case.plan.model_copy(update={"steps": bare})) == schedule.levels(case.plan)
    assert changed > 100


def test_nestools_levels_of_two_and_more_run_at_once(suites: Path):
    """Every suite tool only reads; a step whose tool writes takes the whole level out of it."""
    wide = 0
    for row in rows(suites / "nestools.jsonl"):
        case = nestools(row)
        for level in schedule.by_level(case.plan, lambda _: True):
            assert schedule.is_concurrent(level, case.descriptors) == (len(level) >= 2)
            if len(level) >= 2:
                wide += 1
                one = case.descriptors[level[0].tool or ""]
                writing = {**case.descriptors, one.full_name: one.model_copy(update={"effect": "write"})}
                assert not schedule.is_concurrent(level, writing)
    assert wide > 100


def test_nestools_plans_are_valid_and_run(suites: Path):
    for row in rows(suites / "nestools.jsonl"):
        case = nestools(row)
        assert validate.faults_of(case.plan, case.descriptors) == []
        outputs = walked(case, case.made_up)
        assert list(outputs[row["steps"][-1]["step_id"]]) == row["steps"][-1]["outputs"]


def test_plans_survive_the_wire_and_keep_their_digest(suites: Path):
    cases = [nestools(row) for row in rows(suites / "nestools.jsonl")]
    cases += [nestful(row) for row in rows(suites / "nestful_v1.jsonl")]
    for case in cases:
        back = validate.parse_plan(canon.decode(canon.encode(case.plan.to_data())))
        assert back == case.plan
        again = back.model_copy(update={"plan_id": "another", "version": 7, "origin": "model"})
        assert again.content_digest() == case.plan.content_digest()
    assert len({case.plan.content_digest() for case in cases}) == len(cases)


def test_nestful_plans_run_save_those_with_a_reference_inside_a_text(suites: Path):
    found = rows(suites / "nestful_v1.jsonl")
    assert len(found) == 142
    refused = []
    for row in found:
        case = nestful(row)
        faults = validate.faults_of(case.plan, case.descriptors)
        if faults:
            assert {fault.code for fault in faults} == {"plan.reference_in_text"}
            refused.append(case.plan.plan_id)
            continue
        outputs = walked(case, case.made_up)
        assert outputs.keys() == {step["step_id"] for step in row["steps"]}
    assert sorted(refused) == sorted(INSIDE_A_TEXT)


def test_a_price_is_no_reference(suites: Path):
    """``$100-$200`` looks like one to a template engine."""
    row = next(row for row in rows(suites / "nestful_v1.jsonl") if row["id"] == "nestful-glaive-147")
    case = nestful(row)
    assert validate.faults_of(case.plan, case.descriptors) == []
    seen: list[Any] = []

    def act(name: str, arguments: Mapping[str, Any]) -> Any:
        seen.append(arguments)
        return case.made_up(name, arguments)

    walked(case, act)
    assert "$100-$200" in str(seen)


def named(case: Case, issue: Mapping[str, str]) -> tuple[str, str]:
    """The code and a word of the sentence with which duly names an issue of the suite."""
    if issue["kind"] == "unknown_tool":
        return "plan.tool_not_granted", issue["tool"]
    assert issue["kind"] == "dangling_reference"
    return "plan.dangling_reference", issue["ref"].strip("$")


def at_step(plan: Plan, path: str) -> str:
    parts = path.split("/")
    return plan.steps[int(parts[1])].step_id if parts[0] == "steps" and len(parts) > 1 else ""


def test_broken_public_plans_are_refused_with_every_fault_named(suites: Path):
    found = rows(suites / "nestful_v1_invalid.jsonl")
    assert len(found) == 16
    for row in found:
        case = nestful(row)
        with pytest.raises(PlanError) as caught:
            validate.check(case.plan, case.descriptors)
        assert caught.value.code == "plan.invalid"
        faults = [
            (fault.code, at_step(case.plan, fault.path), fault.message) for fault in caught.value.faults
        ]
        for issue in row["issues"]:
            code, word = named(case, issue)
            hits = [fault for fault in faults if fault[:2] == (code, issue["step"]) and word in fault[2]]
            assert len(hits) == 1, (case.plan.plan_id, issue, faults)
        issues = {(named(case, issue)[0], issue["step"]) for issue in row["issues"]}
        unnamed = {
            fault[:2] for fault in faults if fault[0] in ("plan.tool_not_granted", "plan.dangling_reference")
        }
        assert unnamed <= issues, case.plan.plan_id


def test_faults_beyond_those_that_the_suite_lists_are_named_too(suites: Path):
    """Four rows use one step id twice, one has a reference inside a text."""
    doubled, inside = set(), set()
    for row in rows(suites / "nestful_v1_invalid.jsonl"):
        case = nestful(row)
        codes = {fault.code for fault in validate.faults_of(case.plan, case.descriptors)}
        ids = [step["step_id"] for step in row["steps"]]
        assert ("plan.duplicate_id" in codes) == (len(set(ids)) < len(ids))
        doubled |= {row["id"]} if "plan.duplicate_id" in codes else set()
        inside |= {row["id"]} if "plan.reference_in_text" in codes else set()
    assert doubled == {"nestful-glaive-45", "nestful-glaive-94", "nestful-sgd-18", "nestful-sgd-34"}
    assert inside == {"nestful-glaive-104"}


def test_ten_plans_over_numbers_reach_their_gold_answers(suites: Path):
    reached = 0
    for row in rows(suites / "nestful_v2_math.jsonl"):
        if not all(call["name"] in NUMBERS for call in row["output"]):
            continue
        case = nestful_math(row)
        assert validate.faults_of(case.plan, case.descriptors) == []

        def act(name: str, arguments: Mapping[str, Any], case: Case = case) -> Any:
            tool = case.plan.step(name).tool or ""
            return {"result": NUMBERS[tool.removeprefix("suite.")](*arguments.values())}

        outputs = walked(case, act)
        assert outputs[case.plan.steps[-1].step_id]["result"] == pytest.approx(row["gold_answer"], rel=1e-12)
        reached += 1
    assert reached == 10
