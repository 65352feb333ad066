"""Stimuli of the course of things: a restart, and time that passes."""

from __future__ import annotations

from ...wire import canon
from ...wire.errors import RunError
from .. import calls, ends, revalidation
from ..events import Event, event
from ..moment import Moment
from ..phases import Phase
from ..run import Run
from ..stimuli import Resumed, TimePassed
from . import outcomes
from .verification import time_is_up


def resumed(run: Run, stimulus: Resumed) -> list[Event]:
    """A new harness goes on. Started reads run again; of a write that was under way the host knows how it ended, or that
    it never began; else it is idempotent, or unknown.

    What changed meanwhile is recorded. A gate is asked anew; a plan whose tools are described differently never runs on;
    and where nothing can execute the run, it says so and waits for the next start.
    """
    if stimulus.epoch <= run.epoch and not run.stalled:
        raise RunError("run.already_resumed", f"Run {run.run_id} goes on under epoch {run.epoch} already.")
    ended, never_began = outcomes.settled(run, stimulus)
    known = {one.facts["step_id"] for one in ended}
    outstanding = [name for name in run.outstanding if name not in known]
    again = [name for name in outstanding if name in never_began or _may_repeat(run, name)]
    unknown = [name for name in outstanding if name not in again]
    tools = [name for name in stimulus.changed if name in run.descriptors]
    first = event(
        "run.resumed",
        {"again": canon.encode(again), "changed": canon.encode(list(stimulus.changed))},
        epoch=stimulus.epoch,
        again=len(again),
        unknown=len(unknown),
        changed=len(stimulus.changed),
        withdrawn=tools,
        digests=dict(stimulus.digests),
        at_ms=stimulus.now_ms,
    )
    events = [
        *ended,
        first,
        *(outcomes.unknown(run.step(name), calls.key_now(run, run.step(name))) for name in unknown),
    ]
    if stimulus.stalled:
        return [*events, event("run.stalled", code=stimulus.stalled)]
    used = revalidation.still_used(run, tools)
    if used:
        return [*events, *revalidation.descriptors_changed(run, used, bool(unknown))]
    if run.gate is not None and stimulus.changed:
        moment = Moment(stimulus.now_ms, stimulus.fresh)
        return [*events, revalidation.asked_anew(run, moment, stimulus.changed)]
    return events


def _may_repeat(run: Run, step_id: str) -> bool:
    descriptor = run.descriptors.get(run.step(step_id).tool or "")
    return run.reads_only(step_id) or (descriptor is not None and descriptor.idempotency != "none")


def time_passed(run: Run, stimulus: TimePassed) -> list[Event]:
    """A retry that is due follows by itself; an expired gate and a spent clock end the run."""
    if run.phase is Phase.WAITING_APPROVAL:
        return gate_timeout(run, stimulus.now_ms)
    if run.stalled or run.phase.ended or run.phase.waits or not time_is_up(run, stimulus):
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
