"""What follows from a state by itself: the next events of a run that waits for nobody.

Called again and again until nothing follows. Nothing here is random and nothing comes from outside, so the same state
always goes on in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.plan import Step
from ..plan.schedule import dependencies, is_concurrent
from ..wire import canon
from ..wire.errors import PlanError
from . import calls, ends, failures, gates, starting
from .events import Event, event
from .phases import Phase
from .run import DONE, GONE, Run


@dataclass(frozen=True, slots=True)
class Moment:
    """Time and randomness of one decision. ``fresh`` is 32 random hexadecimal digits."""

    now_ms: int
    fresh: str


def advance(run: Run, moment: Moment) -> list[Event]:
    """The next events of a run, or none when it waits for somebody or has ended."""
    if run.plan is None or run.phase not in (Phase.READY, Phase.RUNNING):
        return []
    if waits_for_plan_gate(run):
        why = "always" if run.mandate.gate == "always" else "consequential"
        return [_ask_gate(run, moment, "plan", None, why)]
    if run.outstanding:
        return []
    if run.budget.out_of_time:
        return ends.exhausted(run, "wall_seconds")
    return failures.follow(run) or _settle(run) or _next(run, moment)


def waits_for_plan_gate(run: Run) -> bool:
    """Whether a plan must be approved before anything of it runs."""
    return (
        run.phase is Phase.READY
        and not run.approved
        and run.plan is not None
        and gates.needs_plan_gate(run, run.plan)
    )


def _ask_gate(run: Run, moment: Moment, kind: str, step_id: str | None, why: str) -> Event:
    gate_id = (
        "g-" + canon.digest("gate", [run.run_id, run.plan_digest, kind, step_id or "", moment.fresh])[:16]
    )
    return event("gate.asked", gate=gate_id, gate_kind=kind, step_id=step_id, at_ms=moment.now_ms, why=why)


def _settle(run: Run) -> list[Event]:
    """Steps that need no call: those without their input are skipped, those with a kept result reuse it."""
    if not run.kept and not any(state.status in GONE for state in run.steps.values()):
        return []  # no result to use again, none that will never come: the search through every step is for the rest
    for level in run.levels:
        for step_id in level:
            if run.steps[step_id].status != "pending":
                continue
            step = run.step(step_id)
            lacks = calls.lacking(run, step)
            if lacks:
                return [event("step.skipped", step_id=step_id, code="step.input_missing", lacks=lacks[:10])]
            if run.kept and calls.is_ready(run, step):
                key = calls.key_now(run, step)
                if calls.can_reuse(run, step, key):
                    return [event("step.reused", step_id=step_id, key=key)]
    return []


def _next(run: Run, moment: Moment) -> list[Event]:
    """The next level, or segment of single reads, or the verification when nothing is left."""
    for level in run.levels:
        waiting = [run.step(name) for name in level if run.steps[name].status in ("pending", "retrying")]
        if not waiting:
            continue
        due = [step for step in waiting if run.steps[step.step_id].retry_at_ms <= moment.now_ms]
        if is_concurrent([run.step(name) for name in level], run.descriptors):
            return _level(run, moment, due) if due else []
        if not due or due[0] is not waiting[0]:
            return []
        if gates.acts(run, due[0]):
            return _act(run, moment, due[0])
        return starting.start(run, moment.now_ms, starting.segment(run, due[0]), "serial")
    return [event("verification.started")]


def _level(run: Run, moment: Moment, due: list[Step]) -> list[Event]:
    """Reads that run at once. Where a tool among them is gated, nothing starts before a person saw each such call."""
    for step in due:
        if gates.acts(run, step):
            asked = _gated(run, moment, step)
            if asked:
                return asked
    return starting.start(run, moment.now_ms, due, "concurrent")


def _act(run: Run, moment: Moment, step: Step) -> list[Event]:
    """A step that writes: its inputs are checked first, then a person sees it where the tier asks for that."""
    if unchecked(run, step):
        return []  # pending() asks the verifier
    return _gated(run, moment, step) or starting.start(run, moment.now_ms, [step], "serial")


def _gated(run: Run, moment: Moment, step: Step) -> list[Event]:
    try:
        arguments = calls.resolved(run, step)
    except PlanError as error:
        return [failures.cannot_start(run, step, error)]
    if calls.step_key(step, arguments) in run.failed_keys:
        return []  # it will not start: nobody is asked about it
    if gates.needs_step_gate(run, step, arguments, moment.now_ms):
        return [_ask_gate(run, moment, "step", step.step_id, "arguments")]
    return []


def unchecked(run: Run, step: Step) -> list[str]:
    """Direct inputs of a step that writes whose outputs nobody checked yet."""
    if run.reads_only(step.step_id):
        return []
    return [
        name for name in dependencies(step) if run.steps[name].status in DONE and not run.steps[name].checked
    ]
