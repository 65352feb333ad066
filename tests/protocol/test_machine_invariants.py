"""The invariants fire: each is broken by hand, in a state that was sound before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from answers import Answers
from driver import Driver, run_plan
from duly.protocol.machine import invariants
from duly.protocol.machine.invariants import BrokenInvariant
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Asked, Gate, Run, StepState
from duly.protocol.plan.request import Question
from plans import plan, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")


def running() -> Run:
    """Two reads are under way."""
    driver = Driver(
        Answers(),
        table(A, B, W),
        plan=plan([step("s1", A), step("s2", B), step("s3", W, {"key": 1}, reader=A)]),
        settings={"tier": "bounded_autonomous"},
    )
    driver.give(driver.submission())
    assert driver.run is not None and driver.run.outstanding == ["s1", "s2"]
    return driver.run


def completed() -> Run:
    run = run_plan(plan([step("s1", A)]), table(A), {"t.a": dict}).run
    assert run is not None and run.phase is Phase.COMPLETED
    return run


def writing(**mandate: Any) -> Run:
    """A write is under way, under a mandate with some fields changed."""
    run = running()
    steps = {"s1": StepState(), "s2": StepState(), "s3": StepState(status="started")}
    run = replace(run, steps=steps, mandate=run.mandate.model_copy(update=mandate))
    return with_budget(run, reserved={"steps": 1, "tool_calls": 1})


def with_budget(run: Run, **changes: dict[str, int]) -> Run:
    return replace(run, budget=replace(run.budget, **changes))


GATE = Gate("g-1", "plan", None, 0, "always")
ASKED = Asked("bind", Question(parameter="p", text="Which?"))

ALWAYS: dict[str, Callable[[], Run]] = {
    "a gate is open exactly": lambda: replace(running(), gate=GATE),
    "a gate is open exactly while": lambda: replace(running(), phase=Phase.WAITING_APPROVAL),
    "a question is open exactly": lambda: replace(running(), asked=ASKED),
    "a question is open exactly while": lambda: replace(running(), phase=Phase.WAITING_INPUT),
    "only a passing verdict": lambda: replace(completed(), verdict="inconclusive"),
    "only a passing verdict completes": lambda: replace(completed(), verdict="none"),
    "an end has a reason": lambda: replace(completed(), reason=""),
    "a run that goes on has a plan": lambda: replace(running(), plan=None),
    "nothing reserved or spent is negative": lambda: with_budget(running(), reserved={"steps": -1}),
    "nothing reserved or spent": lambda: with_budget(running(), spent={"tool_calls": -1}),
    "nothing is spent beyond a limit": lambda: with_budget(running(), spent={"steps": 49}),
    "nothing is spent beyond": lambda: with_budget(running(), reserved={"tool_calls": 101}),
    "verification is only under way": lambda: replace(running(), verification="judge"),
    "nothing is under way in an ended run": lambda: replace(
        completed(), steps={"s1": StepState(status="started")}
    ),
    "nothing is under way": lambda: replace(completed(), asking="s1"),
    "an end holds no reservation": lambda: with_budget(completed(), reserved={"steps": 1}),
}

SETTLED: dict[str, Callable[[], Run]] = {
    "calls are only under way while running": lambda: replace(running(), phase=Phase.READY),
    "what is under way holds its reservation": lambda: with_budget(running(), reserved={"steps": 1}),
    "what is under way holds": lambda: with_budget(running(), reserved={"steps": 3}),
    "an effect runs alone": lambda: with_budget(
        replace(running(), steps={**running().steps, "s3": StepState(status="started")}),
        reserved={"steps": 3, "tool_calls": 3},
    ),
    "a shadow run dispatches no write": lambda: writing(shadow=True),
    "no write starts without an approval or a mandate": lambda: writing(tier="assisted"),
    "no write starts without": lambda: writing(tools={}),
    "every result that counts is there": lambda: replace(completed(), outputs={}),
    "a completed run has no step left": lambda: replace(
        completed(), steps={"s1": replace(completed().steps["s1"], checked="fail")}
    ),
}


@pytest.mark.parametrize("name", ALWAYS)
def test_an_unsound_state_is_noticed_after_its_event(name: str):
    with pytest.raises(BrokenInvariant, match=name):
        invariants.check(ALWAYS[name]())


@pytest.mark.parametrize("name", SETTLED)
def test_an_unsound_state_is_noticed_after_its_decision(name: str):
    with pytest.raises(BrokenInvariant, match=name):
        invariants.check_settled(SETTLED[name]())


def test_sound_states_pass_and_every_invariant_is_broken_above():
    for run in (running(), completed()):
        invariants.check(run)
        invariants.check_settled(run)
    for found, broken in ((invariants._always(running()), ALWAYS), (invariants._settled(running()), SETTLED)):
        for name, _ in found:
            assert any(name.startswith(prefix) for prefix in broken), name
