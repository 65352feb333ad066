"""The course of a run as a whole: reservations, verification, verdict, restart, end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..events import Event
from ..phases import Phase
from ..run import Run, StepState
from .attached import value_of
from .steps import with_step


def budget_reserved(run: Run, event: Event) -> Run:
    """What is reserved, and for whom: a wave's steps say themselves that they started."""
    amounts = event.facts["amounts"]
    run = replace(run, budget=run.budget.reserve(amounts))
    match event.facts["purpose"]:
        case "verification":
            return replace(run, verification="judge", reads=tuple(value_of(event, "reads")), held=amounts)
        case "checks":
            return replace(run, checking=True, reads=tuple(value_of(event, "reads")), held=amounts)
        case "probe":
            step_id = event.facts["step_id"]
            asked = run.steps[step_id].probes + 1
            run = with_step(run, step_id, probe="asked", probes=asked)
            return replace(run, held=amounts, asking=step_id)
        case "plan" | "arguments" | "direct" as purpose:
            about = f"{purpose}:{event.facts['step_id']}" if event.facts["step_id"] else purpose
            return replace(run, held=amounts, thinking=about)
    return run


def budget_warned(run: Run, event: Event) -> Run:
    return replace(run, budget=replace(run.budget, warned=run.budget.warned | {event.facts["name"]}))


def verification_started(run: Run, event: Event) -> Run:
    return replace(run, phase=Phase.VERIFYING, verification="prepare", reads=())


def verdict_reached(run: Run, event: Event) -> Run:
    """The judgement; what the verifier's reads and the critic really took is settled."""
    return replace(
        run,
        verdict=event.facts["outcome"],
        checks=tuple(value_of(event, "checks")),
        verification="",
        reads=(),
        budget=run.budget.settle(run.held, event.facts["spent"]),
        held={},
    )


def checks_returned(run: Run, event: Event) -> Run:
    """The checks before a write are there; each step says its own outcome."""
    return replace(
        run, checking=False, reads=(), budget=run.budget.settle(run.held, event.facts["spent"]), held={}
    )


def run_resumed(run: Run, event: Event) -> Run:
    """What was open is forfeit: every reservation counts as spent, once. Calls that may run again wait for their start.

    Which of them may is attached as ``again``; a plan of thousands of steps does not fit into a leaf.
    """
    again = frozenset(value_of(event, "again"))
    steps = {}
    for name, state in run.steps.items():
        if state.probe == "asked":
            steps[name] = replace(state, probe="")
        elif state.status != "started":
            steps[name] = state
        elif name in again:
            steps[name] = replace(state, status="pending", attempts=state.attempts - 1)
        else:
            steps[name] = replace(state, status="unknown", code="step.outcome_unknown")
    verifying = run.phase is Phase.VERIFYING
    run = replace(
        run,
        epoch=event.facts["epoch"],
        steps=steps,
        verification="prepare" if verifying else "",
        checking=False,
        reads=(),
        held={},
        thinking="",
        asking=run.asking if run.asking and run.steps[run.asking].policy == "asked" else "",
        budget=run.budget.forfeit(),
        withdrawn=run.withdrawn | frozenset(event.facts["withdrawn"]),
    )
    return _under(_unstalled(run), {**run.digests, **event.facts["digests"]})


def _under(run: Run, digests: Mapping[str, str]) -> Run:
    """The run with its package's parts as they are now. An approval under another policy is none."""
    if run.digests.get("policy") == digests.get("policy"):
        return replace(run, digests=digests)
    valid = tuple(one for one in run.approvals if one.approval.policy == digests.get("policy"))
    return replace(run, digests=digests, approvals=valid, approved=False)


def _unstalled(run: Run) -> Run:
    if not run.stalled:
        return run
    reasons = {Phase.WAITING_APPROVAL: "gate.waiting", Phase.WAITING_INPUT: "input.needed"}
    owner = "person" if run.phase.waits else "duly"
    return replace(run, stalled="", reason=reasons.get(run.phase, ""), next_owner=owner)


def run_stalled(run: Run, event: Event) -> Run:
    """Nothing can execute this run: it stays where it is until the next start."""
    return replace(run, stalled=event.facts["code"], reason="run.no_executor", next_owner="operator")


def run_ended(run: Run, event: Event) -> Run:
    return replace(
        run,
        phase=Phase(event.facts["end"]),
        reason=event.facts["reason"],
        message=value_of(event, "message"),
        gate=None,
        asked=None,
        verification="",
        checking=False,
        reads=(),
        held={},
        asking="",
        thinking="",
        steps={name: _at_the_end(state) for name, state in run.steps.items()},
        next_owner=event.facts["next_owner"],
        budget=run.budget.forfeit(),
    )


def _at_the_end(state: StepState) -> StepState:
    """Nothing goes on after an end: what still ran is given up, and its result comes too late."""
    if state.status == "started":
        return replace(state, status="abandoned", code="run.ended")
    return state


def unchanged(run: Run, event: Event) -> Run:
    """Events that the record needs and the state does not."""
    return run
