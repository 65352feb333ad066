"""Starting steps: which go together, what is reserved for them, and what is written down before they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..plan import refs
from ..plan.plan import Step
from ..plan.schedule import dependencies, is_concurrent
from ..wire import canon
from ..wire.errors import PlanError
from ..wire.limits import BREAKER_FAILURES, SEGMENT_STEPS_MAX
from . import calls, ends, failures, gates, metering, thinking
from .events import Event, event
from .run import DONE, GONE, Run


def segment(run: Run, first: Step) -> list[Step]:
    """From one read on: the reads that follow it in plan order, up to a concurrent level or anything that acts.

    Where rows or cost are limited each goes alone: it may take all that is left, and the next one only what is left then.
    """
    if "rows_scanned" in run.budget.limits or "cost" in run.budget.limits:
        return [first]
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
                or step.kind == "reason"
                or thinking.wants_arguments(run, step)
                or not all(name in planned or run.steps[name].status in DONE for name in dependencies(step))
            ):
                return found
            found.append(step)
            planned.add(step.step_id)
    return found


def start(run: Run, now_ms: int, steps: Sequence[Step], mode: str) -> list[Event]:
    """Reserves and starts as many of these steps as the budget allows; one that cannot start fails first.

    Nothing where other calls are under way and what they have reserved may come back.
    """
    room = min(run.budget.fits("steps", len(steps)), run.budget.fits("tool_calls", len(steps)))
    reading = sum(run.reads_only(step.step_id) for step in steps[:room])
    share = metering.rows(run, reading)
    lacks = metering.spent(run) or ("rows_scanned" if share.get("rows_scanned") == 0 else "")
    if room == 0:
        lacks = "steps" if run.budget.fits("steps", 1) == 0 else "tool_calls"
    if lacks:
        return [] if run.outstanding else ends.exhausted(run, lacks)
    starting = steps[:room]
    together = frozenset(step.step_id for step in starting)
    wave = _Wave(run.waves + 1, mode, now_ms, together, share.get("rows_scanned", 0))
    started: list[Event] = []
    failed: list[Event] = []
    for step in starting:
        try:
            started.append(_started(run, step, wave))
        except PlanError as error:
            failed.append(failures.cannot_start(run, step, error))
    if failed:
        return failed
    amounts = {"steps": room, "tool_calls": room}
    if share:
        amounts["rows_scanned"] = share["rows_scanned"] * reading
    return [event("budget.reserved", purpose="wave", wave=wave.number, amounts=amounts), *started]


def start_reason(run: Run, now_ms: int, step: Step) -> list[Event]:
    """Starts a reason step: a step of the budget, and what its model may take."""
    lacks = metering.spent(run) or thinking.lacking(run, "reason")
    if run.budget.fits("steps", 1) == 0:
        lacks = "steps"
    if lacks:
        return ends.exhausted(run, lacks)
    if failures.breaker_open(run, ""):
        error = PlanError("model.breaker_open", "The model failed too often in a row; it is not asked again.")
        return [failures.cannot_start(run, step, error)]
    tokens_max = thinking.tokens(run, "reason")
    wave = run.waves + 1
    return [
        event("budget.reserved", purpose="wave", wave=wave, amounts={"steps": 1, "model_tokens": tokens_max}),
        event(
            "step.started",
            step_id=step.step_id,
            attempt=run.steps[step.step_id].attempts + 1,
            wave=wave,
            mode="reason",
            template=False,
            tool="",
            rows_max=0,
            tokens_max=tokens_max,
            at_ms=now_ms,
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Wave:
    """What starts together."""

    number: int
    mode: str
    now_ms: int
    together: frozenset[str]
    rows_max: int


def _started(run: Run, step: Step, wave: _Wave) -> Event:
    """The start of one step. Raises ``PlanError`` where its call cannot be made, or was made before and failed."""
    if failures.breaker_open(run, step.tool or ""):
        text = f"{step.tool} failed {BREAKER_FAILURES} times in a row for reasons that pass; it is not called again."
        raise PlanError("tool.breaker_open", text)
    needs = refs.steps_of(step.tool_contract.arguments)
    template = any(name in wave.together for name in needs)
    arguments = calls.resolved(run, step, keep=wave.together)
    key = "" if template else calls.step_key(step, arguments)
    twin = calls.twin(run, step, key)
    if twin:
        text = f"Step {step.step_id} makes the very call of {twin}: {step.tool} would take both for one."
        raise PlanError("step.duplicate_write", text)
    if key in run.failed_keys:
        raise PlanError("replan.identical", f"Step {step.step_id} repeats a call that failed before.")
    attached = {"arguments": canon.encode(arguments)} if needs and not template else {}
    return event(
        "step.started",
        attached,
        step_id=step.step_id,
        attempt=run.steps[step.step_id].attempts + 1,
        wave=wave.number,
        mode=wave.mode,
        template=template,
        tool=step.tool or "",
        rows_max=wave.rows_max if run.reads_only(step.step_id) else 0,
        at_ms=wave.now_ms,
    )
