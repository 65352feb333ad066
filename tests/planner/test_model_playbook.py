"""A plan kept as a playbook: it loads, drafts the same plan for the same request, and another for another month."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from duly.actors.planner.bind import bind
from duly.actors.planner.draft import draft
from duly.protocol.plan import validate
from duly.protocol.plan.model_draft import plan_of
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.playbook_yaml import parse_playbook
from duly.protocol.plan.request import new_request
from duly.protocol.views.plan_playbook import playbook_of
from duly.protocol.wire.errors import PlanError
from flights import catalogue, descriptors, package, package_files

TEXT = "Walk me through what became of the on-time arrivals in June against May, carrier by carrier."
MAY, JUNE = {"year": 2013, "month": 5}, {"year": 2013, "month": 6}


def tool_step(
    step_id: str, tool: str, arguments: dict[str, Any], objective: str, **more: Any
) -> dict[str, Any]:
    given = {"id": step_id, "kind": "tool", "tool": tool, "objective": objective, "arguments": arguments}
    return {**given, "after": [], "checks": [], **more}


PERIODS = {"metric": "on_time_arrival_rate", "baseline": MAY, "current": JUNE, "filters": []}
WORDS = {
    "steps": [
        tool_step("s1", "metrics.completeness", PERIODS, "Is June 2013 known well enough?"),
        tool_step(
            "s2",
            "metrics.decompose",
            {
                **PERIODS,
                "dimension": "carrier",
                "sign_certain": {"from_step": "s1", "pointer": "/sign_certain"},
            },
            "Who accounts for it?",
            checks=[{"rule": "not_null", "path": "/status"}],
        ),
        tool_step("s3", "incidents.find", {"key": "k", "where": None}, "Is it known?", after=["s2"]),
    ],
    "report_step": None,
    "allow_partial": True,
}


def planned(words: dict[str, Any] = WORDS, text: str = TEXT) -> Plan:
    plan, faults = plan_of(
        words, package=package(), descriptors=descriptors(), objective=text, steps_max=9, plan_id="p-1"
    )
    assert faults == []
    return plan


def with_playbook(data: bytes, name: str = "kept") -> Package:
    return load_package({**package_files(), f"playbooks/{name}.yaml": data}, "flights")


def drafted(of: Package, text: str) -> Plan:
    binding = bind(new_request(text), of, catalogue(), of.agent())
    assert binding.playbook == "kept" and binding.question is None, binding
    return draft(new_request(text), binding, of, descriptors(), of.agent(), plan_id="p-2").plan


def test_the_same_request_gives_the_same_plan():
    plan = planned()
    again = drafted(with_playbook(playbook_of(plan, package(), descriptors(), name="kept")), TEXT)
    assert again.content_digest() == plan.content_digest()
    assert again.origin == "playbook"


def test_the_requests_values_are_typed_parameters():
    data = playbook_of(planned(), package(), descriptors(), name="kept")
    found = parse_playbook(data, "kept.yaml")
    kinds = {name: parameter.kind for name, parameter in found.parameters.items()}
    assert kinds == {"metric": "metric", "periods": "period_pair", "dimension": "dimension"}
    assert found.steps[1].arguments["current"] == {"$param": "current"}
    assert found.steps[1].arguments["dimension"] == {"$param": "dimension"}
    assert found.steps[1].arguments["sign_certain"] == {"$ref": "s1#/sign_certain"}
    assert found.steps[0].objective == ["Is", {"$param": "current"}, "known well enough?"]


def test_another_month_gives_another_plan():
    of = with_playbook(playbook_of(planned(), package(), descriptors(), name="kept"))
    other = drafted(of, TEXT.replace("June", "August").replace("May", "July"))
    assert other.steps[1].tool_contract.arguments["current"] == {"year": 2013, "month": 8}
    assert other.steps[0].objective == "Is August 2013 known well enough?"
    assert validate.faults_of(other, descriptors()) == []


def test_what_the_request_does_not_name_stays_as_it_is():
    plan = planned(text="Do the usual walk, please.")
    data = playbook_of(plan, package(), descriptors(), name="kept")
    assert parse_playbook(data, "kept.yaml").parameters == {}
    again = drafted(with_playbook(data), plan.objective)
    assert again.content_digest() == plan.content_digest()


def test_a_playbooks_own_plan_can_be_kept_too():
    text = "Open an incident for the carrier that contributed most to the fall in June"
    flights = package()
    binding = bind(new_request(text), flights, catalogue(), flights.agent())
    plan = draft(new_request(text), binding, flights, descriptors(), flights.agent(), plan_id="p-1").plan
    again = drafted(with_playbook(playbook_of(plan, flights, descriptors(), name="kept")), text)
    for ours, theirs in zip(again.steps, plan.steps, strict=True):
        assert ours.tool_contract == theirs.tool_contract
        assert ours.verification == theirs.verification
        assert (ours.depends_on, ours.on_failure) == (theirs.depends_on, theirs.on_failure)


def test_what_needs_a_model_at_every_run_is_refused_with_every_fault():
    words = copy.deepcopy(WORDS)
    words["steps"][0]["arguments"] = None
    words["steps"].append(
        {
            "id": "s4",
            "kind": "reason",
            "objective": "What of it?",
            "reads": ["s2"],
            "gives": [{"name": "text", "type": "string"}],
        }
    )
    words["steps"][1]["arguments"].pop("sign_certain")
    with pytest.raises(PlanError) as caught:
        playbook_of(planned(words), package(), descriptors(), name="1 bad")
    assert [fault.path for fault in caught.value.faults] == [
        "name",
        "steps/0/tool_contract/arguments",
        "steps/3/kind",
    ]


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(PlanError, match="already"):
        playbook_of(planned(), package(), descriptors(), name="metric_diagnosis")


@pytest.mark.parametrize(
    "text", ["\u8bf7\u505a\u8ba1\u5212", "x" * 3_000, "key: [a, *b]\n- &c {d}: 'e' \"f\" # g", "no"]
)
def test_any_request_makes_a_file_that_loads(text):
    data = playbook_of(planned(text=text), package(), descriptors(), name="kept")
    assert with_playbook(data).playbooks["kept"].steps
