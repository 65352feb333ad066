"""Starting steps: which go together, what is reserved for them, and what is written down before they run."""

from __future__ import annotations

from collections.abc import Sequence

from ..plan import refs
from ..plan.plan import Step
from ..plan.schedule import dependencies, is_concurrent
from ..wire import canon
from ..wire.errors import PlanError
from ..wire.limits import SEGMENT_STEPS_MAX
from . import calls, ends, failures, gates
from .events import Event, event
from .run import DONE, GONE, Run


def segment(run: Run, first: Step) -> list[Step]:
    """From one read on: the reads that follow it in plan order, up to a concurrent level or anything that acts."""
    found: list[Step] = []
    planned: set[str] = set()
    for level in run.levels:
        if not found and first.step_id not in level:
            continue
        steps = [run.step(name) for name in level]
        if is_concurrent(steps, run.descriptors):
            break
        for step in steps:
            state = run.steps[step.step_id]
            if (not found and step is not first) or state.status in (*DONE, *GONE):
                continue
            if step is not first and (
                state.status != "pending"
                or len(found) >= SEGMENT_STEPS_MAX
                or gates.acts(run, step)
                or not all(name in planned or run.steps[name].status in DONE for name in dependencies(step))
            ):
                return found
            found.append(step)
            planned.add(step.step_id)
    return found


def start(run: Run, now_ms: int, steps: Sequence[Step], mode: str) -> list[Event]:
    """Reserves and starts as many of these steps as the budget allows; one that cannot start fails first."""
    room = min(run.budget.fits("steps", len(steps)), run.budget.fits("tool_calls", len(steps)))
    if room == 0:
        return ends.exhausted(run, "steps" if run.budget.fits("steps", 1) == 0 else "tool_calls")
    starting = steps[:room]
    together = frozenset(step.step_id for step in starting)
    wave = run.waves + 1
    started: list[Event] = []
    failed: list[Event] = []
    for step in starting:
        try:
            started.append(_started(run, now_ms, step, mode, wave, together))
        except PlanError as error:
            failed.append(failures.cannot_start(run, step, error))
    if failed:
        return failed
    count = len(started)
    reserved = event(
        "budget.reserved", purpose="wave", wave=wave, amounts={"steps": count, "tool_calls": count}
    )
    return [reserved, *started]


def _started(run: Run, now_ms: int, step: Step, mode: str, wave: int, together: frozenset[str]) -> Event:
    """The start of one step. Raises ``PlanError`` where its call cannot be made, or was made before and failed."""
    needs = refs.steps_of(step.tool_contract.arguments)
    template = any(name in together for name in needs)
    arguments = calls.resolved(run, step, keep=together)
    if not template and calls.step_key(step, arguments) in run.failed_keys:
        raise PlanError("replan.identical", f"Step {step.step_id} repeats a call that failed before.")
    attached = {"arguments": canon.encode(arguments)} if needs and not template else {}
    return event(
        "step.started",
        attached,
        step_id=step.step_id,
        attempt=run.steps[step.step_id].attempts + 1,
        wave=wave,
        mode=mode,
        template=template,
        tool=step.tool or "",
        at_ms=now_ms,
    )
