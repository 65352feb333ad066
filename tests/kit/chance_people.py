"""What people do to a run by chance: at its gates and questions, and in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chance_plans import READS, call_of, random_plan
from duly.protocol.machine import gates, stimuli
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import Stimulus
from duly.protocol.plan.plan import Plan
from plans import step

if TYPE_CHECKING:
    from chance_world import World

WRONG: list[dict[str, Any]] = [
    {"plan": "0" * 64},
    {"shown": "0" * 64},
    {"run_id": "r2"},
    {"expires_ms": 1},
    {"budget": {"steps": 1}},
    {"policy": "0" * 64},
    {"scope": "0" * 64},
]


def decide(world: World, run: Run) -> Run:
    """One decision about a run that waits."""
    chance = world.chance
    if chance.random() < 0.03:
        return world.cancel()
    if chance.random() < 0.03:
        return world.amend(f"Find out more, {world.sent}.")
    if run.gate is not None:
        return _at_the_gate(world, run)
    assert run.asked is not None
    about, _, step_id = run.asked.about.partition(":")
    if about == "bind":
        return world.answer("that one")
    if about == "outcome":
        if chance.random() < 0.1:
            return world.answer("give up")
        return world.answer("it happened" if happened(world, run, step_id) else "it did not")
    return world.answer(chance.choice(["retry", "skip", "give up"]))


def _at_the_gate(world: World, run: Run) -> Run:
    word = world.chance.random()
    if word < 0.04:
        return world.reject()
    if word < 0.1:
        return world.reject("do it in another way")
    if word < 0.16:
        return world.guide("look at the other one")
    if word < 0.24:
        return world.edit(_edited(world, run))
    if word < 0.32:
        return world.approve(**world.chance.choice(WRONG))
    if word < 0.34:
        world.clock.now_ms += 2 * 3600 * 1000
    world.approver_name = "ada" if world.chance.random() < 0.8 else "somebody"
    return world.approve(with_references=world.chance.random() < 0.3)


def _edited(world: World, run: Run) -> Plan:
    """The waiting plan with a step less, a step more, another objective, or as it is."""
    assert run.plan is not None
    plan, word = run.plan, world.chance.random()
    if word < 0.4:
        more = step(f"e{world.sent}", READS[0], {"key": f"e-{world.sent}"})
        return plan.model_copy(update={"steps": [*plan.steps, more]})
    if word < 0.7 and len(plan.steps) > 1:
        return plan.model_copy(update={"steps": plan.steps[:-1]})
    if word < 0.8:
        return plan.model_copy(update={"objective": "Something else."})
    return plan if word < 0.9 else random_plan(world.chance, None, plan.objective)


def unasked(world: World) -> Stimulus | None:
    """What a person says without being asked, now and then."""
    word = world.chance.random()
    if word < 0.004:
        return stimuli.Guided(**world.moment(), text="mind the gap")
    if word < 0.008:
        return world.amendment(f"Find out more, {world.sent}.")
    if word < 0.01:
        return stimuli.CancelAsked(**world.moment())
    if word < 0.012:
        return stimuli.Edited(**world.moment(), plan=random_plan(world.chance, None))
    return None


def happened(world: World, run: Run, step_id: str) -> bool:
    """What a person finds who looks at the sink."""
    arguments = gates.resolved(run, run.step(step_id))
    return (run.step(step_id).tool, call_of(arguments["key"], arguments)) in world.sink.effects
