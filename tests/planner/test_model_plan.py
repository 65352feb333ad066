"""Plans that a model writes: the form, what is filled in by rule, every fault at once, and the attempts."""

from __future__ import annotations

import asyncio
import copy
import json

import jsonschema_rs
import pytest

from duly.actors.planner.model.plan import draft_plan
from duly.protocol.plan import validate
from duly.protocol.plan.model_draft import plan_of
from duly.protocol.plan.model_plan import plan_form
from duly.protocol.plan.plan import Nothing, ReadBack, Recompute
from duly.protocol.plan.request import Binding, new_request
from duly.protocol.plan.scope import Scope
from duly.protocol.wire import canon
from duly.protocol.wire.errors import Fault, ModelError, PlanError
from duly.protocol.wire.limits import DRAFTS_PER_PLAN_MAX, MODEL_SCHEMA_BYTES_MAX
from flights import catalogue, descriptors, package
from plans import tool
from scripted_model import blocks, faults_told, scripted

TEXT = "Why did on-time arrivals fall in June compared with May? Open an incident."
PERIODS = {"baseline": {"year": None, "month": 5}, "current": {"year": None, "month": 6}}
GOOD = {
    "steps": [
        {
            "id": "s1",
            "kind": "tool",
            "tool": "metrics.completeness",
            "objective": "Is enough known to be sure?",
            "arguments": {"metric": "on_time_arrival_rate", **PERIODS, "filters": None},
            "after": [],
            "checks": [{"rule": "not_null", "path": "/change"}],
        },
        {
            "id": "s2",
            "kind": "tool",
            "tool": "metrics.decompose",
            "objective": "Which carriers account for it?",
            "arguments": {
                "metric": "on_time_arrival_rate",
                **PERIODS,
                "dimension": "carrier",
                "filters": [],
                "sign_certain": {"from_step": "s1", "pointer": "/sign_certain"},
            },
            "after": [],
            "checks": [],
        },
        {
            "id": "s3",
            "kind": "reason",
            "objective": "What is the subject in a word?",
            "reads": ["s2"],
            "gives": [{"name": "subject", "type": "string"}, {"name": "parts", "type": "strings"}],
        },
        {
            "id": "s4",
            "kind": "tool",
            "tool": "incidents.append",
            "objective": "Is there an incident?",
            "arguments": {
                "record": {
                    "subject": {"from_step": "s3", "pointer": "/subject"},
                    "label": "x",
                    "metric": "on_time_arrival_rate",
                    "baseline": "May",
                    "current": "June",
                    "contribution": {"from_step": "s2", "pointer": "/change"},
                    "note": "n",
                    "status": "open",
                }
            },
            "after": ["s1"],
            "checks": [],
            "read_back": {
                "tool": "incidents.find",
                "arguments": {"key": {"from_step": "s4", "pointer": "/key"}, "where": None},
                "agree": [{"read": "/records/0/record/subject", "written": "/record/subject"}],
            },
        },
    ],
    "report_step": None,
    "allow_partial": False,
}


def granted():
    agent = package().agent("analyst")
    return {name: descriptors()[name] for name in agent.tools}


def read(value, **more):
    settings = {"objective": TEXT, "steps_max": 10, "plan_id": "p1", **more}
    return plan_of(value, package=package(), descriptors=granted(), **settings)


def changed(change):
    value = copy.deepcopy(GOOD)
    change(value)
    return value


def draft(*script, guidance=(), left=None, **more):
    asked, model = scripted(*script)
    drafted = draft_plan(
        asked,
        request=new_request(TEXT),
        binding=Binding(),
        package=package(),
        agent=package().agent("analyst"),
        catalogue=catalogue(),
        descriptors=descriptors(),
        plan_id="p1",
        version=3,
        provenance=None,
        guidance=guidance,
        left=left or {"steps": 12, "tool_calls": 20},
        **more,
    )
    return drafted, model


def test_the_form_takes_the_plan_and_the_plan_is_valid():
    form = plan_form(granted(), steps_max=10)
    assert not form.generic
    jsonschema_rs.validator_for(form.json_schema).validate(GOOD)
    plan, faults = read(GOOD)
    assert faults == []
    assert validate.faults_of(plan, granted()) == []


def test_what_is_no_words_of_the_model_comes_from_descriptors_and_package():
    plan, _ = read(GOOD)
    first, second, third, fourth = plan.steps
    known = granted()
    for step in (first, second, fourth):
        descriptor = known[step.tool]
        assert step.tool_contract.tool.descriptor == descriptor.digest()
        assert step.tool_contract.effect == descriptor.effect
        assert step.tool_contract.timeout_seconds == descriptor.timeout_seconds
        assert step.tool_contract.idempotency == descriptor.idempotency
        assert step.output_contract.json_schema == descriptor.output_schema
    assert [one.source for one in first.inputs.sources] == list(
        package().semantics.sources_of("on_time_arrival_rate")
    )
    assert isinstance(first.verification.independent, Recompute)
    assert isinstance(fourth.verification.independent, ReadBack)
    assert isinstance(second.verification.acceptance, Nothing)
    assert second.tool_contract.arguments["sign_certain"] == {"$ref": "s1#/sign_certain"}
    assert second.inputs.artifacts == {"s1.completeness": "s1"}
    assert "filters" not in first.tool_contract.arguments  # null for what is optional is left out
    assert third.output_contract.json_schema["required"] == ["subject", "parts"]
    assert third.tool_contract.tool is None and third.tool_contract.model is not None
    assert fourth.on_failure[-1].do == "escalate"
    assert plan.scope.resources == ["sqlite:incidents"]
    assert (plan.origin, plan.objective) == ("model", TEXT)


def test_arguments_may_wait():
    value = changed(lambda v: v["steps"][1].update(arguments=None))
    plan, faults = read(value)
    assert faults == []
    assert plan.steps[1].tool_contract.arguments is None
    every = set(package().semantics.sources)
    assert {one.source for one in plan.steps[1].inputs.sources} == every  # unknown metric: any of them


BROKEN = [
    (lambda v: v["steps"][0].update(tool="metrics.complete"), "plan.tool_not_granted"),
    (lambda v: v["steps"].pop(0), "plan.dangling_reference"),
    (lambda v: v["steps"][0]["arguments"].update(extra=1), "plan.bad_arguments"),
    (lambda v: v["steps"][0]["arguments"]["current"].update(month="6"), "plan.bad_arguments"),
    (lambda v: v["steps"][0]["arguments"].pop("metric"), "plan.bad_arguments"),
    (lambda v: v["steps"][0]["arguments"].update(metric="punctuality"), "plan.unknown_metric"),
    (lambda v: v["steps"][1]["arguments"].update(dimension="colour"), "plan.unknown_dimension"),
    (lambda v: v["steps"][0].update(after=["s2"]), "plan.cycle"),
    (lambda v: v["steps"][0].update(after=["s9"]), "plan.unknown_step"),
    (lambda v: v["steps"][1].update(id="s1"), "plan.duplicate_id"),
    (lambda v: v["steps"][3].update(read_back=None), "plan.no_read_back"),
    (lambda v: v["steps"][3]["read_back"].update(tool="incidents.append"), "plan.read_back"),
    (lambda v: v["steps"][3]["read_back"].update(agree=[]), "plan.malformed"),
    (
        lambda v: v["steps"][1]["arguments"].update(sign_certain={"from_step": "s1", "pointer": "/unit/x"}),
        None,
    ),
    (
        lambda v: v["steps"][1]["arguments"].update(sign_certain={"from_step": "s1", "pointer": "x"}),
        "plan.bad_reference",
    ),
    (lambda v: v["steps"][1]["arguments"].update(dimension="about {{s1.change}}"), "plan.reference_in_text"),
    (lambda v: v["steps"][0].update(objective=" "), "plan.objective"),
    (lambda v: v["steps"][0].update(effect="read"), "plan.malformed"),
    (lambda v: v["steps"][0].update(descriptor="0" * 64), "plan.malformed"),
    (lambda v: v["steps"][0].update(checks=[{"rule": "trust", "path": ""}]), "plan.bad_check"),
    (lambda v: v["steps"][0].update(checks=[{"rule": "not_null", "path": "change"}]), "plan.bad_pointer"),
    (lambda v: v["steps"][2].update(gives=[]), "plan.malformed"),
    (lambda v: v["steps"][2].update(kind="shell"), "plan.malformed"),
    (lambda v: v.update(report_step="s9"), "plan.unknown_step"),
    (lambda v: v.update(origin="person"), "plan.malformed"),
    (lambda v: v.update(steps=v["steps"] * 4), "plan.too_large"),
    (lambda v: v.update(steps=[]), "plan.empty"),
    (lambda v: v.update(steps="s1"), "plan.malformed"),
    (lambda v: v["steps"].append(7), "plan.malformed"),
    (lambda v: v["steps"][3]["arguments"]["record"].update(note="\ud800"), "plan.bad_text"),
    (lambda v: v["steps"][3]["arguments"]["record"].update(contribution=float("nan")), "wire.float"),
    (lambda v: v["steps"][3]["arguments"].update(record={"json": "{"}), "plan.bad_json"),
]


@pytest.mark.parametrize(("change", "code"), BROKEN)
def test_a_fault_is_found(change, code):
    _, faults = read(changed(change))
    if code is None:  # `unit` is a text without further promise
        assert [fault.code for fault in faults] in ([], ["plan.reference_type"])
    else:
        assert code in {fault.code for fault in faults}, faults


def test_all_faults_of_a_draft_are_found_at_once():
    value = copy.deepcopy(GOOD)
    value["steps"][0].update(tool="metrics.complete", checks=[{"rule": "trust"}])
    value["steps"][1]["arguments"].update(dimension="colour", extra=1)
    value["steps"][3].update(read_back=None)
    _, faults = read(value)
    assert {fault.code for fault in faults} >= {
        "plan.tool_not_granted",
        "plan.bad_check",
        "plan.unknown_dimension",
        "plan.bad_arguments",
        "plan.no_read_back",
    }


@pytest.mark.parametrize("value", [None, 3, "plan", [], {}, {"steps": None}, {"steps": [{}]}, [GOOD]])
def test_garbage_is_faults_and_never_a_crash(value):
    _, faults = read(value)
    assert faults


def test_a_scope_beyond_the_mandate_is_a_fault():
    _, faults = read(GOOD, scope=Scope(sources=["flights", "airlines", "planes"]))
    assert [fault.code for fault in faults] == ["plan.scope"]


def test_many_tools_are_written_under_one_shape():
    schema = {"type": "object", "properties": {f"part_{n}": {"type": "string"} for n in range(12)}}
    many = {f"t.tool{n}": tool(f"tool{n}", input_schema=schema) for n in range(200)}
    form = plan_form(many, steps_max=30)
    assert form.generic
    assert len(json.dumps(form.json_schema)) < MODEL_SCHEMA_BYTES_MAX
    entries = {"entries": [{"name": "part_1", "value": "a"}, {"name": "part_2", "value": {"json": '"b"'}}]}
    value = {
        "steps": [
            {
                "id": "s1",
                "kind": "tool",
                "tool": "t.tool7",
                "objective": "x",
                "arguments": entries,
                "after": [],
                "checks": [],
            }
        ],
        "report_step": "s1",
        "allow_partial": True,
    }
    jsonschema_rs.validator_for(form.json_schema).validate(value)
    plan, faults = plan_of(
        value, package=package(), descriptors=many, objective="x", steps_max=3, plan_id="p"
    )
    assert faults == []
    assert plan.steps[0].tool_contract.arguments == {"part_1": "a", "part_2": "b"}


def test_a_good_first_draft_is_the_plan():
    drafted, model = draft(GOOD)
    plan = asyncio.run(drafted)
    assert (plan.plan_id, plan.version) == ("p1", 3)
    assert len(model.calls) == 1
    given = blocks(model.prompts()[0])
    assert given["request"] == {"text": TEXT}
    assert {one["tool"] for one in given["tools"]} == set(granted())
    assert given["limits"]["steps"] == 12
    assert "earlier_attempts" not in given


def test_every_fault_and_all_guidance_go_to_each_further_attempt():
    first = changed(lambda v: v["steps"][0].update(tool="metrics.complete"))
    second = changed(lambda v: v["steps"][1]["arguments"].update(dimension="colour", extra=1))
    drafted, model = draft(first, second, GOOD, guidance=["Leave out JFK.", "Look at carriers only."])
    plan = asyncio.run(drafted)
    assert plan.steps[0].tool == "metrics.completeness"
    told = [{fault["code"] for fault in faults_told(prompt)} for prompt in model.prompts()]
    assert told[0] == set()
    assert told[1] == {"plan.tool_not_granted", "model.bad_answer"}
    assert told[2] == {
        "plan.tool_not_granted",
        "model.bad_answer",
        "plan.unknown_dimension",
        "plan.bad_arguments",
    }
    for prompt in model.prompts():
        assert blocks(prompt)["guidance"] == ["Leave out JFK.", "Look at carriers only."]


def test_an_answer_that_is_none_counts_as_an_attempt():
    wrong = ModelError(
        "model.bad_answer", "No.", faults=[Fault("steps/0", "model.bad_answer", "this is odd.")]
    )
    drafted, model = draft(wrong, ModelError("model.truncated", "It was cut off."), GOOD)
    assert asyncio.run(drafted).steps
    assert [fault["message"] for fault in faults_told(model.prompts()[2])] == [
        "this is odd.",
        "It was cut off.",
    ]


def test_after_the_last_attempt_the_plan_is_refused_with_all_faults():
    bad = changed(lambda v: (v["steps"][0].update(tool="metrics.complete"), v.update(report_step="s9")))
    drafted, model = draft(*[bad] * DRAFTS_PER_PLAN_MAX)
    with pytest.raises(PlanError) as caught:
        asyncio.run(drafted)
    assert caught.value.code == "plan.refused"
    assert {fault.code for fault in caught.value.faults} == {
        "plan.tool_not_granted",
        "plan.unknown_step",
        "model.bad_answer",
    }
    assert all(str(fault) in caught.value.message for fault in caught.value.faults)
    assert len(model.calls) == DRAFTS_PER_PLAN_MAX
    assert len(caught.value.story) == DRAFTS_PER_PLAN_MAX


def test_what_no_other_draft_would_mend_ends_it_at_once():
    drafted, model = draft(ModelError("model.refused_key", "The key was refused."))
    with pytest.raises(ModelError, match=r"model\.refused_key"):
        asyncio.run(drafted)
    assert len(model.calls) == 1


def test_the_budget_bounds_the_plan():
    drafted, model = draft(GOOD, GOOD, GOOD, left={"steps": 3, "tool_calls": 9})
    with pytest.raises(PlanError) as caught:
        asyncio.run(drafted)
    assert {fault.code for fault in caught.value.faults} == {"plan.too_large", "model.bad_answer"}
    assert model.calls[0].json_schema["properties"]["steps"]["maxItems"] == 3


def test_a_call_can_travel():
    """The schema nests far less deep than a message may."""
    drafted, model = draft(GOOD)
    asyncio.run(drafted)
    assert canon.encode(model.calls[0].to_data())
