"""What follows from a state by itself: the next events of a run that waits for nobody.

Called again and again until nothing follows. Nothing here is random and nothing comes from outside, so the same state
always goes on in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.plan import Step
from ..plan.schedule import dependencies, is_concurrent
from ..wire.errors import PlanError
from . import calls, ends, failures, gates, metering, overlap, shadow, starting, thinking
from .events import Event, event
from .moment import Moment as Moment
from .phases import Phase
from .run import DONE, GONE, Run


def advance(run: Run, moment: Moment) -> list[Event]:
    """The next events of a run, or none when it waits for somebody or has ended."""
    if run.stalled or run.asking or run.thinking:
        return []
    if run.phase is Phase.PLANNING and run.route == "direct":
        return thinking.ask(run, "direct")
    if run.plan is None or run.phase not in (Phase.READY, Phase.RUNNING):
        return []
    if run.outstanding:
        return _beside(run, moment)
    if waits_for_plan_gate(run):
        return [gates.ask(run, moment, "plan", None, gates.why_gated(run, run.plan))]
    if run.budget.out_of_time:
        return failures.ask_unknown(run) or ends.exhausted(run, "wall_seconds")
    return failures.follow(run) or _settle(run) or metering.too_long(run) or _next(run, moment)


def waits_for_plan_gate(run: Run) -> bool:
    """Whether a plan must be approved before anything (more) of it runs."""
    if run.route == "direct" and not any(one.status == "pending" for one in run.steps.values()):
        return False  # the call that was rejected does not happen
    return (
        run.phase in (Phase.READY, Phase.RUNNING)
        and not run.approved
        and run.plan is not None
        and gates.needs_plan_gate(run, run.plan)
    )


def _beside(run: Run, moment: Moment) -> list[Event]:
    """While calls are under way: reads that may run beside them, unless something stands still to be looked at first."""
    if run.mandate.schedule != "overlap" or run.budget.out_of_time:
        return []
    if any(state.status in ("failed", "unknown") for state in run.steps.values()):
        return []  # where that leads is decided when nothing is under way any more
    settled = _settle(run)
    if settled:
        return settled
    reads = overlap.ready_reads(run, moment.now_ms)
    if not reads or any(thinking.wants_arguments(run, step) for step in reads) or _look(run, moment, reads):
        return []  # a gate, and a model, wait until nothing is under way
    return starting.start(run, moment.now_ms, reads, "concurrent")


def _settle(run: Run) -> list[Event]:
    """Steps that need no call: those without their input are skipped, those with a kept result reuse it."""
    if not run.kept and not any(state.status in GONE for state in run.steps.values()):
        return []  # no result to use again, none that will never come: the search through every step is for the rest
    for level in run.levels:
        for step_id in level:
            if run.steps[step_id].status != "pending":
                continue
            step = run.step(step_id)
            lacks = shadow.lacking(run, step)
            if lacks:
                return [event("step.skipped", step_id=step_id, code=shadow.INPUT_MISSING, lacks=lacks[:10])]
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
    if run.mandate.schedule == "overlap":
        reads = overlap.ready_reads(run, moment.now_ms)
        if len(reads) > 1:
            return _level(run, moment, reads)
    for level in run.levels:
        waiting = [run.step(name) for name in level if run.steps[name].status in ("pending", "retrying")]
        if not waiting:
            continue
        due = [step for step in waiting if run.steps[step.step_id].retry_at_ms <= moment.now_ms]
        if is_concurrent([run.step(name) for name in level], run.descriptors):
            return _level(run, moment, due) if due else _ahead(run, moment)
        if not due or due[0] is not waiting[0]:
            return _ahead(run, moment)
        return _one(run, moment, due[0])
    if run.route == "direct":
        return thinking.ask(run, "direct")
    if shadow.nothing_to_verify(run):
        return [shadow.end(run)]
    return [event("verification.started")]


def _ahead(run: Run, moment: Moment) -> list[Event]:
    """While a retry is waited for: under ``overlap`` the reads that need not wait for it."""
    if run.mandate.schedule != "overlap":
        return []
    reads = overlap.ready_reads(run, moment.now_ms)
    return _level(run, moment, reads) if reads else []


def _level(run: Run, moment: Moment, due: Sequence[Step]) -> list[Event]:
    """Reads that run at once. Where a tool among them is gated, nothing starts before a person saw each such call."""
    asked = thinking.first_open(run, due) or _look(run, moment, due)
    if asked:
        return asked
    return starting.start(run, moment.now_ms, due, "concurrent")


def _one(run: Run, moment: Moment, step: Step) -> list[Event]:
    """A step by itself, with the reads that follow it. One that writes has its inputs checked first, then a person sees
    it where the tier asks for that; in a shadow run it is written down."""
    if unchecked(run, step):
        return []  # pending() asks the verifier
    opened = thinking.first_open(run, [step])
    if opened:
        return opened
    if gates.is_shadowed(run, step):
        return [shadow.write_down(run, step)]
    if step.kind == "reason":
        return starting.start_reason(run, moment.now_ms, step)
    asked = _look(run, moment, [step])
    if asked:
        return asked
    steps = [step] if gates.acts(run, step) else starting.segment(run, step)
    return starting.start(run, moment.now_ms, steps, "serial")


def _look(run: Run, moment: Moment, steps: Sequence[Step]) -> list[Event]:
    """What comes before a start: another look at a plan whose approval has lapsed, the policy's word, a step gate."""
    for step in steps:
        if gates.acts(run, step):
            asked = _gated(run, moment, step)
            if asked:
                return asked
        elif gates.is_consequential(run, step) and not gates.plan_approval_holds(run, moment.now_ms):
            return [gates.ask(run, moment, "plan", None, "expired")]
    return []


def _gated(run: Run, moment: Moment, step: Step) -> list[Event]:
    try:
        arguments = calls.resolved(run, step)
    except PlanError as error:
        return [failures.cannot_start(run, step, error)]
    if calls.step_key(step, arguments) in run.failed_keys:
        return []  # it will not start: nobody is asked about it
    if gates.asks_policy(run, step):
        return [event("policy.asked", step_id=step.step_id)]
    if gates.needs_step_gate(run, step, arguments, moment.now_ms):
        return [gates.ask(run, moment, "step", step.step_id, "arguments")]
    return []


def unchecked(run: Run, step: Step) -> list[str]:
    """Direct inputs of a step that writes whose outputs nobody checked yet."""
    if run.reads_only(step.step_id) or gates.is_shadowed(run, step):
        return []
    return [
        name for name in dependencies(step) if run.steps[name].status in DONE and not run.steps[name].checked
    ]
