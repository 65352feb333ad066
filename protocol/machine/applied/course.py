"""The course of a run as a whole: reservations, verification, verdict, restart, end."""

from __future__ import annotations

from dataclasses import replace

from ..events import Event
from ..phases import Phase
from ..run import Run
from .attached import value_of


def budget_reserved(run: Run, event: Event) -> Run:
    run = replace(run, budget=run.budget.reserve(event.facts["amounts"]))
    if event.facts["purpose"] == "verification":
        return replace(run, verification="judge", reads=tuple(value_of(event, "reads")))
    return run


def budget_warned(run: Run, event: Event) -> Run:
    return replace(run, budget=replace(run.budget, warned=run.budget.warned | {event.facts["name"]}))


def verification_started(run: Run, event: Event) -> Run:
    return replace(run, phase=Phase.VERIFYING, verification="prepare", reads=())


def verdict_reached(run: Run, event: Event) -> Run:
    used = event.facts["tool_calls"]
    budget = run.budget.settle({"tool_calls": used}, {"tool_calls": used}) if used else run.budget
    return replace(
        run,
        verdict=event.facts["outcome"],
        checks=tuple(value_of(event, "checks")),
        verification="",
        reads=(),
        budget=budget,
    )


def run_resumed(run: Run, event: Event) -> Run:
    """What was open is forfeit: every reservation counts as spent, once. Calls that may run again wait for their start.

    Which of them may is attached as ``again``; a plan of thousands of steps does not fit into a leaf.
    """
    again = frozenset(value_of(event, "again"))
    steps = {}
    for name, state in run.steps.items():
        if state.status != "started":
            steps[name] = state
        elif name in again:
            steps[name] = replace(state, status="pending", attempts=state.attempts - 1)
        else:
            steps[name] = replace(state, status="unknown", code="step.outcome_unknown")
    verifying = run.phase is Phase.VERIFYING
    return replace(
        run,
        epoch=event.facts["epoch"],
        steps=steps,
        verification="prepare" if verifying else run.verification,
        reads=() if verifying else run.reads,
        budget=run.budget.forfeit(),
    )


def run_ended(run: Run, event: Event) -> Run:
    return replace(
        run,
        phase=Phase(event.facts["end"]),
        reason=event.facts["reason"],
        message=value_of(event, "message"),
        gate=None,
        asked=None,
        verification="",
        next_owner=event.facts["next_owner"],
        budget=run.budget.forfeit(),
    )


def unchanged(run: Run, event: Event) -> Run:
    """Events that the record needs and the state does not."""
    return run
