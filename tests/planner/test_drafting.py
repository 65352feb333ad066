"""From a binding to a plan that holds all seven fields, passes validation, and has the levels that the playbook means."""

from __future__ import annotations

from typing import Any

import pytest

import flights
import shoppers
from duly.actors.planner.bind import bind
from duly.actors.planner.draft import Draft, draft
from duly.protocol.judgement.checks import check_read_back
from duly.protocol.plan import refs, validate
from duly.protocol.plan.catalogue import (
    Catalogue,
    DimensionCatalogue,
    DimensionValue,
    MonthCoverage,
    SourceCatalogue,
)
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.plan import Plan, Provenance, ReadBack
from duly.protocol.plan.request import Binding, new_request
from duly.protocol.plan.schedule import is_concurrent, levels
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import PlanError

FLAGSHIP = "On-time arrivals fell in June compared with May. Find the cause and recommend what to do."
INCIDENT = "Open an incident for the carrier that contributed most to the fall in June"
COMPARISON = "Compare on-time arrivals of Delta and US Airways"
VALUE = "How many flights departed from JFK in March?"
DIMENSIONS = ["origin", "carrier", "day_part", "destination", "maker"]
WIDEST = Scope(sources=["airlines", "flights", "planes"], resources=["sqlite:incidents"])


def drafted(text: str, binding: Binding | None = None, **more: Any) -> Draft:
    package = flights.package()
    request = new_request(text)
    binding = binding or bind(request, package, flights.catalogue(), package.agent())
    assert binding.question is None
    return draft(request, binding, package, flights.descriptors(), package.agent(), plan_id="p-1", **more)


@pytest.mark.parametrize("text", [FLAGSHIP, INCIDENT, COMPARISON, VALUE])
def test_a_draft_has_no_fault_and_lies_within_the_widest_scope(text: str) -> None:
    plan = drafted(text).plan
    assert validate.faults_of(plan, flights.descriptors(), WIDEST) == []
    assert Plan.model_validate(plan.to_data()) == plan
    assert plan.objective == text
    assert len({step.objective for step in plan.steps}) == len(plan.steps)


def test_a_diagnosis_decomposes_every_dimension_in_one_parallel_level() -> None:
    draft = drafted(FLAGSHIP)
    plan = draft.plan
    assert draft.playbook == "metric_diagnosis"
    assert (plan.task_class, plan.allow_partial, plan.report_step) == ("open", True, "report")
    assert levels(plan) == [
        ["completeness"],
        [f"decompose-{name}" for name in DIMENSIONS],
        [f"interact-{name}" for name in DIMENSIONS],
        ["report"],
    ]
    for level in levels(plan)[1:3]:
        assert is_concurrent([plan.step(name) for name in level], flights.descriptors())
    assert plan.step("interact-carrier").tool_contract.arguments == {
        "metric": "on_time_arrival_rate",
        "baseline": {"year": 2013, "month": 5},
        "current": {"year": 2013, "month": 6},
        "dimension": "carrier",
        "others": ["origin", "day_part", "destination", "maker"],
        "filters": [],
        "sign_certain": {"$ref": "decompose-carrier#/sign_certain"},
    }
    evidence = (plan.step("report").tool_contract.arguments or {})["evidence"]
    assert [item["step"] for item in evidence] == [step.step_id for step in plan.steps[:-1]]
    assert [item["output"] for item in evidence] == [{"$ref": f"{step.step_id}#"} for step in plan.steps[:-1]]


def test_one_value_is_a_plan_of_one_read() -> None:
    draft = drafted(VALUE, mode="constrained")
    (step,) = draft.plan.steps
    assert draft.playbook == "constrained"
    assert step.tool == "metrics.value"
    assert draft.plan.report_step == step.step_id
    assert step.tool_contract.arguments == {
        "metric": "departed_flights",
        "period": {"year": 2013, "month": 3},
        "filters": [{"dimension": "origin", "value": "JFK"}],
    }
    assert draft.plan.scope.predicates == ["origin = JFK"]


def test_an_incident_is_one_read_one_write_and_a_read_back() -> None:
    plan = drafted(INCIDENT).plan
    read, write = plan.steps
    assert (read.tool, write.tool) == ("metrics.decompose", "incidents.append")
    assert [step.tool_contract.effect for step in plan.steps] == ["read", "write"]
    assert levels(plan) == [["decompose"], ["open"]]
    assert plan.scope.resources == ["sqlite:incidents"]
    assert write.tool_contract.idempotency == "key"
    back = write.verification.independent
    assert isinstance(back, ReadBack)
    assert back.read_back.full_name == "incidents.find"
    assert back.read_back.descriptor == flights.descriptors()["incidents.find"].digest()
    record = {"segment": "B6", "label": "JetBlue Airways", "note": "largest", "contribution": -2.019}
    output = {"top": record, "baseline": {"period_text": "May 2013"}, "current": {"period_text": "June 2013"}}
    resolved = refs.resolve(write.tool_contract.arguments, {"decompose": output})
    assert resolved["record"] == {
        "subject": "B6",
        "label": "JetBlue Airways",
        "metric": "on_time_arrival_rate",
        "baseline": "May 2013",
        "current": "June 2013",
        "contribution": -2.019,
        "note": "largest",
        "status": "open",
    }


@pytest.mark.parametrize("text", [FLAGSHIP, INCIDENT, COMPARISON, VALUE])
def test_every_field_is_given_or_none_with_a_reason(text: str) -> None:
    for step in drafted(text).plan.to_data()["steps"]:
        assert step["objective"] and step["on_failure"]
        assert step["output_contract"]["json_schema"]
        for part in ("acceptance", "tolerance", "independent"):
            value = step["verification"][part]
            assert value is not None
            if isinstance(value, dict) and "none" in value:
                assert value["none"]
        if step["tool_contract"]["tool"]["server"] == "metrics":
            assert {source["source"] for source in step["inputs"]["sources"]} == set(WIDEST.sources)
        assert set(step["inputs"]["artifacts"].values()) <= set(step["depends_on"])


def test_a_draft_is_the_same_every_time_but_for_its_name() -> None:
    first = drafted(FLAGSHIP).plan
    package = flights.package()
    request = new_request(FLAGSHIP)
    binding = bind(request, package, flights.catalogue(), package.agent())
    second = draft(
        request,
        Binding.model_validate(binding.to_data()),
        load_package(flights.package_files(), "elsewhere"),
        flights.descriptors(),
        package.agent(),
        plan_id="p-2",
        version=4,
        provenance=Provenance(kind="replan", number=1, reason="verification"),
    ).plan
    assert first.content_digest() == second.content_digest()
    assert (second.plan_id, second.version, second.provenance.number) == ("p-2", 4, 1)


def test_nothing_else_plans_what_one_playbook_plans() -> None:
    for text, playbook in ((FLAGSHIP, "metric_diagnosis"), (VALUE, "constrained")):
        with pytest.raises(PlanError) as caught:
            drafted(text, exclude_playbooks=[playbook])
        assert caught.value.code == "plan.no_alternative"


def test_what_matches_nothing_is_no_plan_and_says_what_there_is() -> None:
    with pytest.raises(PlanError) as caught:
        drafted("Write a poem about the sea")
    assert caught.value.code == "plan.no_playbook"
    assert "metric_diagnosis" in str(caught.value)


def test_a_tool_that_is_not_granted_is_no_plan() -> None:
    package = flights.package()
    request = new_request(FLAGSHIP)
    binding = bind(request, package, flights.catalogue(), package.agent())
    few = {name: d for name, d in flights.descriptors().items() if name != "metrics.interact"}
    with pytest.raises(PlanError) as caught:
        draft(request, binding, package, few, package.agent(), plan_id="p-1")
    assert caught.value.code == "plan.tool_not_granted"
    without = package.agent().model_copy(update={"tools": ["metrics.value"]})
    unplanned = bind(request, package, flights.catalogue(), without)
    assert unplanned.playbook is None


def shop() -> tuple[Package, Catalogue]:
    """The second package, as if its table were there."""
    package = load_package(shoppers.package_files(shoppers.FOLDER / "nowhere.csv"), "shoppers")
    values = {
        "visitor": ["Returning_Visitor", "New_Visitor", "Other"],
        "channel": [str(number) for number in range(1, 21)],
        "region": ["1", "2", "3"],
        "weekend": ["false", "true"],
    }
    months = [MonthCoverage(year=None, month=month, rows=10) for month in (2, 3, 5, 6, 7, 8, 9, 10, 11, 12)]
    return package, Catalogue(
        sources={"sessions": SourceCatalogue(name="sessions", fingerprint="0" * 64, rows=1, coverage=months)},
        dimensions={
            name: DimensionCatalogue(name=name, values=[DimensionValue(value=value) for value in known])
            for name, known in values.items()
        },
    )


def test_a_fallback_plans_with_the_parameters_that_are_bound() -> None:
    from duly.hosts.tools import metrics, report

    package, catalogue = shop()
    agent = package.agent()
    tools = [*metrics.tools("numbers"), *report.tools("pages")]
    descriptors = {tool.descriptor.full_name: tool.descriptor for tool in tools}
    request = new_request("New-customer conversion is down, November to December. Why?")
    binding = bind(request, package, catalogue, agent)
    assert binding.parameters["who"] == [{"dimension": "visitor", "value": "New_Visitor"}]
    assert binding.parameters["cuts"] == ["channel", "region", "weekend"]
    first = draft(request, binding, package, descriptors, agent, plan_id="p-1")
    assert levels(first.plan) == [["known"], ["parts-channel", "parts-region", "parts-weekend"], ["told"]]
    second = draft(
        request, binding, package, descriptors, agent, plan_id="p-1", exclude_playbooks=["conversion_change"]
    )
    assert (first.playbook, second.playbook) == ("conversion_change", "only_change")
    assert validate.faults_of(second.plan, descriptors) == []
    # The artifact of the first step is reused: tool, descriptor and arguments are the same.
    assert first.plan.step("known").tool_contract == second.plan.step("known").tool_contract
    with pytest.raises(PlanError) as caught:
        draft(
            request,
            binding,
            package,
            descriptors,
            agent,
            plan_id="p-1",
            exclude_playbooks=["conversion_change", "only_change"],
        )
    assert caught.value.code == "plan.no_alternative"


def test_a_package_without_semantics_plans_by_its_cues() -> None:
    manifest = """
[package]
name = "bare"
version = "1"
[[agents]]
name = "a"
tools = ["own.ping"]
[tools.own]
kind = "python"
functions = ["ping"]
"""
    playbook = """
name: ping
title: see whether it answers
task_class: deterministic
match: {least: 1, cues: [{words: [ping], weight: 1}]}
steps: [{id: ping, tool: own.ping, objective: Try it, arguments: {}, on_failure: [escalate]}]
"""
    files = {"agent.toml": manifest.encode(), "playbooks/ping.yaml": playbook.encode(), "tools.py": b""}
    package = load_package(files, "bare")
    ping = Descriptor(server="own", name="ping", effect="read", output_schema={"type": "object"})
    request = new_request("Ping it!")
    binding = bind(request, package, Catalogue(), package.agent())
    plan = draft(request, binding, package, {"own.ping": ping}, package.agent(), plan_id="p-1").plan
    assert validate.faults_of(plan, {"own.ping": ping}, Scope()) == []
    assert not bind(new_request("Hello!"), package, Catalogue(), package.agent()).matched


@pytest.mark.parametrize(
    ("text", "parameters", "says"),
    [
        ("Why did conversion of channel 8 fall from Nov to Dec?", {"who": [{"dimension": "channel", "value": "8"}]}, None),
        ("Why did conversion fall from Nov to Dec on 8 of the channels?", {"who": []}, None),
        ("Why did conversion fall in January compared with December?", {}, "February to March, May to December"),
        ("Why did conversion fall in December?", {}, "compared with"),
        ("Why did conversion fall in December 2017 compared with November?", {}, "no year"),
        ("Why did conversion fall in March compared with February by campaign?", {}, "'campaign'"),
    ],
)  # fmt: skip
def test_another_package_binds_by_its_own_words(
    text: str, parameters: dict[str, Any], says: str | None
) -> None:
    package, catalogue = shop()
    binding = bind(new_request(text), package, catalogue, package.agent())
    assert binding.playbook == "conversion_change"
    assert parameters.items() <= binding.parameters.items()
    if says is None:
        assert binding.question is None
    else:
        assert binding.question is not None
        assert says in binding.question.text


@pytest.mark.parametrize(
    ("wanted", "outcome"), [(829, "pass"), (829.0, "pass"), (830, "fail"), ("829.0", "fail"), (True, "fail")]
)
def test_a_whole_number_read_back_from_a_column_of_reals_agrees(wanted: Any, outcome: str) -> None:
    step = drafted(INCIDENT).plan.step("open")
    written = {"subject": "EV", "metric": "m", "baseline": "b", "current": "c", "note": "n", "status": "open"}
    read = {"records": [{"key": "k", "record": {**written, "contribution": 829.0}}], "count": 1}
    assert check_read_back(step, {"record": {**written, "contribution": wanted}}, read).outcome == outcome
