"""NesTools' gold plans as a model would write them, and the faults that models make in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from duly.actors.model_session import Session
from duly.actors.planner.model.plan import draft_plan
from duly.protocol.plan import validate
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, new_request
from suite_rows import SERVER, Case, nestools, rows

MANIFEST = b"""
[package]
name = "suite"
version = "1"
data = "suite"

[[agents]]
name = "one"
"""
STEPS_MAX = 30
Words = dict[str, Any]
Break = Callable[[Words, random.Random, Case], str | None]


def cases(suites: Path) -> Iterator[Case]:
    for row in rows(suites / "nestools.jsonl"):
        yield nestools(row)


def package() -> Package:
    return load_package({"agent.toml": MANIFEST}, "suite")


def drafting(session: Session, case: Case, of: Package) -> Coroutine[Any, Any, Plan]:
    """The draft of a plan for a case's objective with the case's tools."""
    return draft_plan(
        session,
        request=new_request(case.plan.objective),
        binding=Binding(),
        package=of,
        agent=AgentSpec(name="one", version="1", tools=sorted(case.descriptors)),
        catalogue=Catalogue(),
        descriptors=case.descriptors,
        plan_id=case.plan.plan_id,
        version=1,
        provenance=None,
        guidance=[],
        left={"steps": STEPS_MAX, "tool_calls": 60},
    )


def renamed_tool(words: Words, chance: random.Random, case: Case) -> str | None:
    step = chance.choice(words["steps"])
    name = step["tool"].partition(".")[2]
    step["tool"] = chance.choice([f"{SERVER}.{name}_v2", f"{SERVER}.get_{name}", name, f"other.{name}"])
    return "plan.tool_not_granted"


def missing_dependency(words: Words, chance: random.Random, case: Case) -> str | None:
    """A step is left out that others refer to."""
    named = {
        value["from_step"]
        for step in words["steps"]
        for value in (step["arguments"] or {}).values()
        if isinstance(value, dict) and "from_step" in value
    }
    if not named:
        return None
    gone = chance.choice(sorted(named))
    words["steps"] = [step for step in words["steps"] if step["id"] != gone]
    return "plan.dangling_reference"


def extra_argument(words: Words, chance: random.Random, case: Case) -> str | None:
    step = chance.choice(words["steps"])
    step["arguments"][chance.choice(["verbose", "user_id", "limit"]) + "_x"] = chance.choice([True, "me", 10])
    return "plan.bad_arguments"


def number_as_text(words: Words, chance: random.Random, case: Case) -> str | None:
    """A number in quotes; where the schema wants a text anyway, a text without them."""
    places = [
        (step, name)
        for step in words["steps"]
        for name, value in step["arguments"].items()
        if type(value) in (int, float, str)
    ]
    if not places:
        return None
    step, name = chance.choice(places)
    value = step["arguments"][name]
    step["arguments"][name] = 7 if isinstance(value, str) else str(value)
    return "plan.bad_arguments"


def missing_argument(words: Words, chance: random.Random, case: Case) -> str | None:
    places = [
        (step, name)
        for step in words["steps"]
        for name in case.descriptors[step["tool"]].input_schema["required"]
        if name in step["arguments"]
    ]
    if not places:
        return None
    step, name = chance.choice(places)
    del step["arguments"][name]
    return "plan.bad_arguments"


def backwards(words: Words, chance: random.Random, case: Case) -> str | None:
    """Two steps that wait for each other."""
    if len(words["steps"]) < 2:
        return None
    first, second = chance.sample(words["steps"], 2)
    first["after"] = [*first["after"], second["id"]]
    second["after"] = [*second["after"], first["id"]]
    return "plan.cycle"


def invented_output(words: Words, chance: random.Random, case: Case) -> str | None:
    """A pointer to something that the step before does not give."""
    for step in words["steps"]:
        for name, value in step["arguments"].items():
            if isinstance(value, dict) and "from_step" in value:
                step["arguments"][name] = {**value, "pointer": "/result/of/it"}
                return "plan.reference_missing"
    return None


BREAKS: tuple[Break, ...] = (
    renamed_tool,
    missing_dependency,
    extra_argument,
    number_as_text,
    missing_argument,
    backwards,
    invented_output,
)


def good(case: Case) -> bool:
    return validate.faults_of(case.plan, case.descriptors) == []


def same_calls(plan: Plan, case: Case) -> bool:
    return [(one.step_id, one.tool, one.tool_contract.arguments) for one in plan.steps] == [
        (one.step_id, one.tool, one.tool_contract.arguments) for one in case.plan.steps
    ]
