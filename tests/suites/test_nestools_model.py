"""NesTools' gold plans as a model would write them, with the faults that models make: found, told, repaired or refused."""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from duly.actors.planner.model.plan import draft_plan
from duly.protocol.plan import validate
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.model_plan import plan_form
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, new_request
from duly.protocol.wire.errors import Fault, PlanError
from duly.protocol.wire.limits import DRAFTS_PER_PLAN_MAX
from model_words import plan_words
from scripted_model import ScriptedModel, faults_told, scripted
from suite_rows import SERVER, Case, nestools, rows

ROWS = 500
MANIFEST = b"""
[package]
name = "suite"
version = "1"
data = "suite"

[[agents]]
name = "one"
"""
Words = dict[str, Any]
Break = Callable[[Words, random.Random, Case], str | None]


def cases(suites: Path) -> Iterator[Case]:
    for row in rows(suites / "nestools.jsonl"):
        yield nestools(row)


def package() -> Package:
    return load_package({"agent.toml": MANIFEST}, "suite")


def drafted(case: Case, *script: Words, of: Package) -> tuple[Any, ScriptedModel]:
    asked, model = scripted(*script)
    agent = AgentSpec(name="one", version="1", tools=sorted(case.descriptors))
    made = draft_plan(
        asked,
        request=new_request(case.plan.objective),
        binding=Binding(),
        package=of,
        agent=agent,
        catalogue=Catalogue(),
        descriptors=case.descriptors,
        plan_id=case.plan.plan_id,
        version=1,
        provenance=None,
        guidance=[],
        left={"steps": 30, "tool_calls": 60},
    )
    return made, model


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


def test_gold_plans_pass_the_form_and_come_back_as_they_are(suites: Path):
    of = package()
    whole = 0
    for case in cases(suites):
        if not good(case):
            continue
        words = plan_words(case.plan, case.descriptors)
        form = plan_form(case.descriptors, steps_max=30)
        assert jsonschema_rs.validator_for(form.json_schema).is_valid(words), case.plan.plan_id
        made, model = drafted(case, words, of=of)
        plan = asyncio.run(made)
        assert same_calls(plan, case), case.plan.plan_id
        assert validate.faults_of(plan, case.descriptors) == []
        assert len(model.calls) == 1
        whole += 1
    assert whole >= 0.9 * ROWS


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda one: one.__name__)
def test_a_fault_is_found_told_and_repaired(suites: Path, break_it: Break):
    of = package()
    tried = 0
    for index, case in enumerate(cases(suites)):
        if index % 4 or not good(case):
            continue
        words = plan_words(case.plan, case.descriptors)
        broken = copy.deepcopy(words)
        code = break_it(broken, random.Random(index), case)
        if code is None:
            continue
        made, model = drafted(case, broken, words, of=of)
        plan = asyncio.run(made)
        assert same_calls(plan, case), case.plan.plan_id
        assert faults_told(model.prompts()[0]) == []
        assert code in {fault["code"] for fault in faults_told(model.prompts()[1])}, case.plan.plan_id
        tried += 1
    assert tried > 40


def test_several_faults_at_once_are_all_told_and_at_last_refused(suites: Path):
    """The three attempts of one draft, each broken in another way: every prompt holds all faults before it."""
    of = package()
    seen: Counter[str] = Counter()
    for index, case in enumerate(cases(suites)):
        if index % 5 or not good(case):
            continue
        chance = random.Random(index)
        attempts = []
        for _ in range(DRAFTS_PER_PLAN_MAX):
            broken = plan_words(case.plan, case.descriptors)
            chosen = sorted(chance.sample(BREAKS[2:], 3), key=BREAKS.index)  # or one would undo another
            codes = {code for one in chosen if (code := one(broken, chance, case)) is not None}
            attempts.append((broken, codes))
        made, model = drafted(case, *(broken for broken, _ in attempts), of=of)
        with pytest.raises(PlanError) as caught:
            asyncio.run(made)
        assert caught.value.code == "plan.refused"
        last = {fault.code for fault in caught.value.faults}
        assert attempts[-1][1] <= last
        for number, prompt in enumerate(model.prompts()):
            told = {fault["code"] for fault in faults_told(prompt)}
            wanted = {code for _, codes in attempts[:number] for code in codes}
            assert wanted <= told, (case.plan.plan_id, wanted - told)
            assert (told == set()) == (number == 0)
        assert all(isinstance(fault, Fault) for fault in caught.value.faults)
        seen.update(last)
    assert {"plan.bad_arguments", "plan.cycle", "plan.reference_missing"} <= seen.keys()
