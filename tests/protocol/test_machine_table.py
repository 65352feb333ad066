"""Exhaustiveness: every pair of phase and stimulus, every kind of event, every order, every verdict."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from answers import Answers, CallFailure
from driver import Driver, run_plan
from duly.protocol.machine import decide as decider
from duly.protocol.machine import effects, events, evolve, stimuli, table, verdicts
from duly.protocol.machine.decide import decide
from duly.protocol.machine.phases import END_PHASES, WAITING_PHASES, Phase
from duly.protocol.machine.stimulus import Stimulus
from duly.protocol.plan.request import Binding, Question
from duly.protocol.wire.errors import LogError, RuntimeFault
from plans import REPLAN, plan, step, tool
from plans import table as tools_table

# Named in DESIGN 5.3 for scripts; nothing of what exists so far makes them.
NOT_YET_MADE = {
    "plan.cached",
}
A = tool("a")


def test_every_stimulus_has_a_row_for_every_phase_and_a_handler():
    kinds = {one.kind for one in stimuli.STIMULI}
    assert len(kinds) == len(stimuli.STIMULI)
    assert set(table.TABLE) == set(itertools.product(Phase, kinds))
    assert set(decider.HANDLERS) == kinds - {"submitted"}


def test_every_refusal_of_the_table_has_a_sentence():
    codes = set(table.TABLE.values()) - {table.HANDLED}
    assert codes <= set(decider._SENTENCES)


def test_every_stimulus_class_is_in_the_table():
    made = {one for one in vars(stimuli).values() if isinstance(one, type) and issubclass(one, Stimulus)}
    assert made - {Stimulus} == set(stimuli.STIMULI)


def test_evolve_knows_every_kind_that_is_ever_made():
    assert set(evolve.HANDLERS) | {"run.submitted"} | NOT_YET_MADE == events.KINDS
    assert not set(evolve.HANDLERS) & NOT_YET_MADE


def test_every_event_in_the_source_is_of_a_known_kind_and_every_known_kind_is_made(checkout: Path):
    made: set[str] = set()
    for path in (checkout / "protocol/machine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "event":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    made.add(str(first.value))
                else:
                    made |= set(re.findall(r"\b(?:plan|step)\.[a-z_]+", path.read_text(encoding="utf-8")))
    assert {"plan.approved", "step.approved"} <= made
    assert made >= events.KINDS - NOT_YET_MADE


def test_an_unknown_kind_is_neither_made_nor_replayed():
    with pytest.raises(ValueError):
        events.event("plan.guessed")
    with pytest.raises(LogError) as caught:
        evolve.evolve(None, events.event("run.ended"))
    assert caught.value.code == "log.bad_event"


def test_every_order_is_performed_by_the_driver_or_is_a_timer():
    ordered = set(get_args(effects.Order)) - {effects.Wake}
    named = set(
        re.findall(
            r"case effects\.(\w+)\(\)", Path(__import__("answers").__file__).read_text(encoding="utf-8")
        )
    )
    assert {one.__name__ for one in ordered} == named


def test_the_verdict_table_is_complete_and_only_a_pass_completes():
    outcomes = ("pass", "fail", "inconclusive", "unverified")
    assert set(verdicts.AFTER_VERDICT) == set(itertools.product(outcomes, (False, True), (False, True)))
    for (outcome, missing, partial), phase in verdicts.AFTER_VERDICT.items():
        if phase is Phase.COMPLETED:
            assert (outcome, missing) == ("pass", False)
        if phase is Phase.PARTIAL:
            assert partial or outcome == "unverified"
        assert (phase is Phase.REPLAN_REQUIRED) == (outcome == "fail")


def driver_in(phase: Phase) -> Driver:
    """A run that stands in a phase, its orders not yet performed."""
    if phase in (Phase.COMPLETED, Phase.PARTIAL, Phase.FAILED, Phase.CANCELLED):
        return _ended(phase)
    writes = tool("w", "write")
    descriptors = tools_table(A, writes)
    tools = {"t.a": lambda **_: {"key": 1}, "t.w": lambda **_: {}}
    if phase is Phase.WAITING_APPROVAL:
        driver = Driver(
            Answers(tools=tools), descriptors, plan=plan([step("s1", writes, {"key": 1}, reader=A)])
        )
        driver.submit()
    elif phase is Phase.WAITING_INPUT:
        question = Question(parameter="month", text="Which month?")
        driver = Driver(
            Answers(bind=lambda run, order: Binding(playbook="p", question=question)), descriptors
        )
        driver.submit()
    elif phase is Phase.PLANNING:
        driver = Driver(Answers(), descriptors)
        driver.give(driver.submission())
    elif phase is Phase.REPLAN_REQUIRED:
        steps = [step("s1", A, on_failure=REPLAN)]
        driver = Driver(Answers(tools={"t.a": _failing}), descriptors, plan=plan(steps))
        driver.give(driver.submission())
        driver._one_order()
    else:
        driver = Driver(Answers(tools=tools), descriptors, plan=plan([step("s1", A, {"key": 1})]))
        driver.give(driver.submission())
        if phase is Phase.VERIFYING:
            while driver.run is not None and driver.run.phase is not Phase.VERIFYING:
                driver._one_order()
    assert driver.run is not None
    return driver


def _failing(**_: Any) -> Any:
    raise CallFailure("tool.broken")


def _ended(phase: Phase) -> Driver:
    fine = {"t.a": lambda **_: {"key": 1}}
    if phase is Phase.COMPLETED:
        return run_plan(plan([step("s1", A, {})]), tools_table(A), fine)
    if phase is Phase.PARTIAL:
        steps = [step("s1", A, {}), step("s2", A, {"key": {"$ref": "s1#/key"}})]
        return run_plan(
            plan(steps, allow_partial=True),
            tools_table(A),
            fine,
            settings={"budget": {"steps": 1}},
        )
    driver = Driver(Answers(tools=fine), tools_table(A), plan=plan([step("s1", A, {})]))
    if phase is Phase.CANCELLED:
        driver.give(driver.submission())
        driver.cancel()
    else:
        driver = run_plan(plan([step("s1", A, {})]), tools_table(A), fine, settings={"budget": {"steps": 0}})
    return driver


REACHED = [phase for phase in Phase if phase is not Phase.READY]  # never rests there for long


def stimulus_of(driver: Driver, kind: str) -> Stimulus:
    """A stimulus of a kind that is well formed, and that nobody waits for in particular."""
    run = driver.run
    assert run is not None
    moment = driver.moment()
    error = RuntimeFault("runtime.actor_lost", "Gone.")
    made: dict[str, Any] = {
        "submitted": lambda: driver.submission(),
        "bound": lambda: stimuli.Bound(**moment, binding=Binding(playbook="p")),
        "cache_replied": lambda: stimuli.CacheReplied(**moment, outcome="miss"),
        "drafted": lambda: stimuli.Drafted(**moment, error=error),
        "approved": lambda: _approved(driver),
        "authority_refused": lambda: stimuli.AuthorityRefused(**moment, error=error),
        "rejected": lambda: stimuli.Rejected(**moment, gate=run.gate.gate_id if run.gate else "g-1"),
        "edited": lambda: stimuli.Edited(**moment, plan=plan([step("s1", A)])),
        "guided": lambda: stimuli.Guided(**moment, text="by day"),
        "amended": lambda: _amended(driver),
        "probed": lambda: stimuli.Probed(**moment, step_id="s1", outcome="happened"),
        "policy_judged": lambda: stimuli.PolicyJudged(**moment, step_id="s1", gated=True),
        "answered": lambda: stimuli.Answered(**moment, text="June"),
        "cancel_asked": lambda: stimuli.CancelAsked(**moment),
        "steps_returned": lambda: stimuli.StepsReturned(**moment, outcomes=[]),
        "arguments_filled": lambda: stimuli.ArgumentsFilled(**moment, step_id="s1", arguments={}),
        "turn_answered": lambda: stimuli.TurnAnswered(**moment, answer="So it is."),
        "checks_returned": lambda: stimuli.ChecksReturned(**moment, checks=[]),
        "reads_wanted": lambda: stimuli.ReadsWanted(**moment, reads=[]),
        "judged": lambda: stimuli.Judged(**moment, outcome="pass", reason="", checks=[]),
        "verifier_lost": lambda: stimuli.VerifierLost(**moment, error=error),
        "resumed": lambda: stimuli.Resumed(**moment, epoch=9),
        "time_passed": lambda: stimuli.TimePassed(**moment),
    }
    return made[kind]()


def _amended(driver: Driver) -> stimuli.Amended:
    order = driver.submission()
    return stimuli.Amended(
        **driver.moment(),
        request=order.request,
        mandate=order.mandate,
        envelope=order.mandate_envelope,
        submitter=order.submitter,
    )


def _approved(driver: Driver) -> stimuli.Approved:
    waiting = driver if driver.run is not None and driver.run.gate else driver_in(Phase.WAITING_APPROVAL)
    approval = waiting.approval()
    return stimuli.Approved(
        **driver.moment(), approval=approval, envelope=approval.sign(driver.person), approver="k1"
    )


@pytest.mark.parametrize("phase", REACHED, ids=str)
@pytest.mark.parametrize("kind", [one.kind for one in stimuli.STIMULI])
def test_every_pair_is_handled_or_refused_by_name(phase: Phase, kind: str):
    """Real decisions, not only the table: a refused pair changes nothing and says why."""
    driver = driver_in(phase)
    assert driver.run is not None and driver.run.phase is phase or phase is Phase.RUNNING
    before = driver.run
    decision = decide(before, stimulus_of(driver, kind), driver.record.seal)
    verb = table.TABLE[phase, kind]
    if verb != table.HANDLED:
        assert decision.refusal is not None and decision.refusal.code == verb
        assert decision.run == before and not decision.events and not decision.orders
    else:
        assert decision.run is not None
        assert decision.refusal is None or "." in decision.refusal.code


@pytest.mark.parametrize("phase", sorted(END_PHASES), ids=str)
def test_nothing_leads_out_of_an_end(phase: Phase):
    driver = driver_in(phase)
    for kind in (one.kind for one in stimuli.STIMULI):
        decision = decide(driver.run, stimulus_of(driver, kind), driver.record.seal)
        assert decision.run is not None and decision.run.phase is phase
        assert not decision.orders


@pytest.mark.parametrize("phase", sorted(WAITING_PHASES), ids=str)
def test_waiting_costs_no_time(phase: Phase):
    driver = driver_in(phase)
    assert driver.run is not None
    spent = driver.run.budget.spent.get("wall_ms", 0)
    driver.clock.now_ms += 10**9
    decision = driver.give(stimuli.CancelAsked(**driver.moment(), elapsed_ms=10**6))
    assert decision.run is not None
    assert decision.run.budget.spent.get("wall_ms", 0) == spent


def test_an_unknown_run_is_refused():
    driver = driver_in(Phase.PLANNING)
    for kind in (one.kind for one in stimuli.STIMULI if one.kind != "submitted"):
        decision = decide(None, stimulus_of(driver, kind), driver.record.seal)
        assert decision.run is None and decision.refusal is not None
        assert decision.refusal.code == "run.unknown"
