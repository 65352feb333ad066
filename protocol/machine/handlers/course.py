"""Stimuli of the course of things: a restart, and time that passes."""

from __future__ import annotations

from ...wire import canon
from ...wire.errors import RunError
from .. import calls, ends
from ..events import Event, event
from ..phases import Phase
from ..run import Run
from ..stimuli import Resumed, Stimulus, TimePassed
from . import outcomes
from .verification import time_is_up


def resumed(run: Run, stimulus: Resumed) -> list[Event]:
    """A new harness goes on. Started reads run again; of a write that was under way the host knows how it ended, or that
    it never began; else it is idempotent, or unknown."""
    ended, never_began = outcomes.settled(run, stimulus)
    known = {one.facts["step_id"] for one in ended}
    outstanding = [name for name in run.outstanding if name not in known]
    again = [name for name in outstanding if name in never_began or _may_repeat(run, name)]
    unknown = [name for name in outstanding if name not in again]
    first = event(
        "run.resumed",
        {"again": canon.encode(again), "changed": canon.encode(list(stimulus.changed))},
        epoch=stimulus.epoch,
        again=len(again),
        unknown=len(unknown),
        changed=len(stimulus.changed),
        at_ms=stimulus.now_ms,
    )
    said = [
        event("step.outcome_unknown", step_id=name, key=calls.key_now(run, run.step(name)))
        for name in unknown
    ]
    return [*ended, first, *said]


def _may_repeat(run: Run, step_id: str) -> bool:
    descriptor = run.descriptors.get(run.step(step_id).tool or "")
    return run.reads_only(step_id) or (descriptor is not None and descriptor.idempotency != "none")


def time_passed(run: Run, stimulus: TimePassed) -> list[Event]:
    """A retry that is due follows by itself; an expired gate and a spent clock end the run."""
    if run.phase is Phase.WAITING_APPROVAL:
        return gate_timeout(run, stimulus.now_ms)
    if run.phase.ended or run.phase.waits or not time_is_up(run, stimulus):
        return []
    if any(not run.reads_only(name) for name in run.outstanding):
        return []  # an effect under way is not abandoned: its own deadline is near, and its outcome counts
    return ends.exhausted(run, "wall_seconds")


def gate_timeout(run: Run, now_ms: int) -> list[Event]:
    """The end of a run whose gate nobody decided in time, nothing while there is time."""
    ttl = run.mandate.gate_ttl_seconds
    if ttl is None or run.gate is None or now_ms < run.gate.asked_ms + ttl * 1000:
        return []
    return [ends.end(Phase.FAILED, "gate.timeout", "Nobody decided in time.", next_owner="person")]


def not_awaited(run: Run, stimulus: Stimulus) -> list[Event]:
    """What no phase waits for."""
    raise RunError("run.not_waiting_for_that", f"Run {run.run_id} does not wait for {stimulus.kind}.")
