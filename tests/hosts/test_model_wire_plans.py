"""Plans that real small models wrote, out of recordings, through host and planner: a right plan, or an error that says why."""

from __future__ import annotations

import graphlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.actors.model_session import Session
from duly.actors.planner.model.plan import draft_plan
from duly.hosts.models.client import ModelHostClient
from duly.protocol.plan import validate
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, new_request
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.limits import DRAFTS_PER_PLAN_MAX
from model_host_world import ModelHostWorld
from nestools_words import package
from plans import table, tool
from scripted_model import Pauses
from scripted_model_server import ScriptedModelServer, raw, says

TOOLS = ("profile", "compare_periods", "decompose_by_dimension", "recompute", "report")
TAKES = {
    "type": "object",
    "properties": {"dimension": {"type": "string", "enum": ["none", "channel", "region", "device"]}},
    "required": ["dimension"],
    "additionalProperties": False,
}
GRANTED = table(*(tool(name, input_schema=TAKES) for name in TOOLS))
OF = package()
QUESTION = "New-customer conversion is down. Find the cause."


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def recorded(suites: Path) -> list[dict[str, Any]]:
    return [
        one
        for path in sorted((suites / "llm_wire").glob("*.json"))
        for one in json.loads(path.read_text())
        if one["case"].startswith("plan_")
    ]


def drafted(host: ModelHostWorld, question: str, script: Any) -> tuple[Plan | DulyError, int]:
    """What the planner makes of a server that answers like this, and how often it asked. Lists are steps that were meant."""
    answers = script if callable(script) else [says(meant(steps)) for steps in script]
    with ScriptedModelServer(answers) as server:
        host.renew(server.base_url)

        async def told(client: ModelHostClient) -> Plan | DulyError:
            asked = Session(
                client,
                package=host.package,
                run_id=host.run_id,
                mandate=host.mandate(),
                tokens_max=90_000,
                sleep=Pauses(),
            )
            try:
                return await draft_plan(
                    asked,
                    request=new_request(question),
                    binding=Binding(),
                    package=OF,
                    agent=AgentSpec(name="a", version="1", tools=sorted(GRANTED)),
                    catalogue=Catalogue(),
                    descriptors=GRANTED,
                    plan_id="p",
                    version=1,
                    provenance=None,
                    guidance=[],
                    left={"steps": 30, "tool_calls": 60},
                )
            except DulyError as error:
                return error

        return host.talk(told), len(server.requests)


def test_what_was_recorded_is_no_plan_of_ours_and_that_is_said(host, suites):
    """They were asked for another form, and none of it may be taken for a plan, in whatever way it is wrong."""
    ends: set[str] = set()
    for one in recorded(suites):
        body = one["body"] if isinstance(one["body"], str) else json.dumps(one["body"])
        reply = raw(body.encode(), status=one["status"], content_type=one["content_type"])
        made, _ = drafted(host, QUESTION, lambda asked, reply=reply: reply)
        assert isinstance(made, DulyError), one["case"]
        assert made.message.endswith((".", ")", "]")), made.message
        ends.add(made.code)
        if made.code == "plan.refused":
            assert made.faults and len(made.story) == DRAFTS_PER_PLAN_MAX
    assert ends == {"plan.refused", "model.unavailable"}


def meant(plan: list[dict[str, Any]]) -> dict[str, Any]:
    """The recorded plan in the form that duly asks for: the same steps, tools, arguments and order."""
    steps = [
        {
            "id": one["id"],
            "kind": "tool",
            "tool": f"t.{one['tool']}",
            "objective": one["objective"],
            "arguments": {"dimension": one["dimension"]},
            "after": one["depends_on"],
            "checks": [],
        }
        for one in plan
    ]
    return {"steps": steps, "report_step": None, "allow_partial": False}


def is_sound(steps: list[dict[str, Any]]) -> bool:
    """Whether the steps can be done in some order, said without any of duly's own judgement."""
    after = {one["id"]: set(one["depends_on"]) for one in steps}
    known = set().union(*after.values()) <= after.keys()
    try:
        list(graphlib.TopologicalSorter(after).static_order())
    except graphlib.CycleError:
        return False
    return known and len(after) == len(steps)


def mended(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same steps, each once and after earlier ones only, as whoever is told the faults would write them."""
    found: dict[str, dict[str, Any]] = {}
    for one in steps:
        found.setdefault(
            one["id"], {**one, "depends_on": [name for name in one["depends_on"] if name in found]}
        )
    return list(found.values())


def test_what_they_meant_is_refused_where_it_cannot_be_done_and_a_plan_once_mended(host, suites):
    plans = [steps for one in recorded(suites) if (steps := steps_of(one))]
    assert len(plans) == 10 and not any(map(is_sound, plans))  # every one of them goes in circles
    for steps in plans:
        made, requests = drafted(host, QUESTION, [steps] * DRAFTS_PER_PLAN_MAX)
        assert isinstance(made, DulyError) and made.code == "plan.refused"
        codes = {fault.code for fault in made.faults}
        assert codes & {"plan.cycle", "plan.duplicate_id", "plan.unknown_step"}, codes
        assert requests == DRAFTS_PER_PLAN_MAX

        right = mended(steps)
        assert is_sound(right)
        made, requests = drafted(host, QUESTION, [steps, right])
        assert isinstance(made, Plan), made
        assert validate.faults_of(made, GRANTED) == [] and requests == 2
        assert [(step.step_id, step.tool, step.depends_on) for step in made.steps] == [
            (step["id"], f"t.{step['tool']}", list(dict.fromkeys(step["depends_on"]))) for step in right
        ]


def steps_of(one: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a recorded plan; none where the answer is no plan, or was cut off."""
    if one["status"] != 200 or not one["case"].startswith("plan_schema"):
        return []
    body = one["body"] if isinstance(one["body"], dict) else json.loads(one["body"])
    try:
        return json.loads(body["choices"][0]["message"]["content"])["steps"]
    except ValueError:
        return []
