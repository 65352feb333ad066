"""What follows from a state by itself: the next events of a run that waits for nobody.

Called again and again until nothing follows. Nothing here is random and nothing comes from outside, so the same state
always goes on in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..authority.grant import arguments_digest
from ..plan import refs
from ..plan.plan import Step
from ..plan.schedule import dependencies, is_concurrent
from ..wire import canon
from ..wire.errors import PlanError
from ..wire.limits import REPLANS_STEP_FAILURE_MAX, SEGMENT_STEPS_MAX
from . import ends, gates
from .events import Event, event
from .phases import Phase
from .run import DONE, GONE, Outputs, Run


@dataclass(frozen=True, slots=True)
class Moment:
    """Time and randomness of one decision. ``fresh`` is 32 random hexadecimal digits."""

    now_ms: int
    fresh: str


def advance(run: Run, moment: Moment) -> list[Event]:
    """The next events of a run, or none when it waits for somebody or has ended."""
    if run.phase.ended or run.phase.waits or run.plan is None:
        return []
    if run.phase is Phase.READY and not run.approved and gates.needs_plan_gate(run, run.plan):
        return [
            _ask_gate(
                run, moment, "plan", None, "consequential" if run.mandate.gate != "always" else "always"
            )
        ]
    if run.phase not in (Phase.READY, Phase.RUNNING):
        return []
    if run.outstanding:
        return []
    if run.budget.out_of_time:
        return ends.exhausted(run, "wall_seconds")
    return _failures(run) or _settle(run) or _next(run, moment)


def _ask_gate(run: Run, moment: Moment, kind: str, step_id: str | None, why: str) -> Event:
    gate_id = (
        "g-" + canon.digest("gate", [run.run_id, run.plan_digest, kind, step_id or "", moment.fresh])[:16]
    )
    return event("gate.asked", gate=gate_id, gate_kind=kind, step_id=step_id, at_ms=moment.now_ms, why=why)


def _failures(run: Run) -> list[Event]:
    """What failed steps lead to, once nothing of their level is outstanding."""
    for step_id, state in run.steps.items():
        if state.status == "unknown":
            return [ends.ask_outcome(run, step_id)]
        if state.status != "failed":
            continue
        if state.then == "replan":
            return _replan(run, state.code)
        if state.then in ("clarify", "escalate"):
            return [ends.ask_about_failure(run, step_id)]
        return ends.stop(run, f"step.failed:{state.code}", f"Step {step_id} failed with {state.code}.")
    return []


def _replan(run: Run, code: str) -> list[Event]:
    if run.replans.get("step_failure", 0) >= REPLANS_STEP_FAILURE_MAX:
        return [
            event("replan.refused", trigger="step_failure", code="replan.bound"),
            *ends.stop(run, "replan.bound", "The steps of this plan failed too often."),
        ]
    return [event("replan.triggered", trigger="step_failure", code=code, plan=run.plan_digest)]


def _settle(run: Run) -> list[Event]:
    """Steps that need no call: those without their input are skipped, those with a kept result reuse it."""
    assert run.plan is not None
    for level in run.levels:
        for step_id in level:
            if run.steps[step_id].status != "pending":
                continue
            step = run.step(step_id)
            lacking = [
                name for name in refs.steps_of(step.tool_contract.arguments) if run.steps[name].status in GONE
            ]
            if lacking:
                return [event("step.skipped", step_id=step_id, code="step.input_missing", lacks=lacking)]
            if run.kept and _ready(run, step):
                key = _key(run, step)
                if key in run.kept and _unchanged(run, key):
                    return [event("step.reused", step_id=step_id, key=key)]
    return []


def _key(run: Run, step: Step) -> str:
    try:
        return step_key(step, gates.resolved(run, step))
    except PlanError:
        return ""


def _unchanged(run: Run, key: str) -> bool:
    """Whether every source that a kept result was read from is still the same."""
    return all(run.sources.get(name) == mark for name, mark in run.kept[key].fingerprints.items())


def step_key(step: Step, arguments: Any) -> str:
    """What makes two calls the same: tool, descriptor, resolved arguments."""
    tool = step.tool_contract.tool
    return canon.digest(
        "call", [step.tool or "", tool.descriptor if tool else "", arguments_digest(arguments)]
    )


def _ready(run: Run, step: Step) -> bool:
    return all(
        run.steps[name].status in DONE or run.steps[name].status in GONE for name in dependencies(step)
    )


def _next(run: Run, moment: Moment) -> list[Event]:
    """The next level, or segment of single reads, or the verification when nothing is left."""
    assert run.plan is not None
    for level in run.levels:
        waiting = [run.step(name) for name in level if run.steps[name].status in ("pending", "retrying")]
        if not waiting:
            continue
        due = [step for step in waiting if run.steps[step.step_id].retry_at_ms <= moment.now_ms]
        if is_concurrent([run.step(name) for name in level], run.descriptors):
            return _start(run, moment, due, "concurrent") if due else []
        if not due or due[0] is not waiting[0]:
            return []
        if not run.reads_only(due[0].step_id):
            return _act(run, moment, due[0])
        return _start(run, moment, _segment(run, due[0]), "serial")
    return [event("verification.started")]


def _segment(run: Run, first: Step) -> list[Step]:
    """From one read on: the reads that follow it in plan order, up to a concurrent level or another effect."""
    segment: list[Step] = []
    planned: set[str] = set()
    for level in run.levels:
        if not segment and first.step_id not in level:
            continue
        steps = [run.step(name) for name in level]
        if is_concurrent(steps, run.descriptors):
            break
        for step in steps:
            state = run.steps[step.step_id]
            if (not segment and step is not first) or state.status in (*DONE, *GONE):
                continue
            if step is not first and (
                state.status != "pending"
                or len(segment) >= SEGMENT_STEPS_MAX
                or not run.reads_only(step.step_id)
                or not all(name in planned or run.steps[name].status in DONE for name in dependencies(step))
            ):
                return segment
            segment.append(step)
            planned.add(step.step_id)
    return segment


def _act(run: Run, moment: Moment, step: Step) -> list[Event]:
    """A step that writes: its inputs are checked first, then a person sees it where the tier asks for that."""
    if unchecked(run, step):
        return []  # pending() asks the verifier
    try:
        arguments = gates.resolved(run, step)
    except PlanError as error:
        return [_cannot_start(step, run.steps[step.step_id].attempts, error)]
    if gates.needs_step_gate(run, step, arguments, moment.now_ms):
        return [_ask_gate(run, moment, "step", step.step_id, "arguments")]
    return _start(run, moment, [step], "serial")


def unchecked(run: Run, step: Step) -> list[str]:
    """Direct inputs of a step whose outputs nobody checked yet."""
    return [
        name for name in dependencies(step) if run.steps[name].status in DONE and not run.steps[name].checked
    ]


def _cannot_start(step: Step, attempts: int, error: PlanError) -> Event:
    return event(
        "step.failed",
        {"message": canon.encode(error.message)},
        step_id=step.step_id,
        attempt=attempts + 1,
        code=error.code,
        then="fail",
        key="",
        lost=False,
        not_started=True,
        transient=False,
    )


def _start(run: Run, moment: Moment, steps: list[Step], mode: str) -> list[Event]:
    """Reserves and starts as many of these steps as the budget allows."""
    room = min(run.budget.fits("steps", len(steps)), run.budget.fits("tool_calls", len(steps)))
    if room == 0:
        name = "steps" if run.budget.fits("steps", 1) == 0 else "tool_calls"
        return ends.exhausted(run, name)
    wave = run.waves + 1
    starting = steps[:room]
    together = {step.step_id for step in starting}
    events = []
    for step in starting:
        template = any(name in together for name in refs.steps_of(step.tool_contract.arguments))
        attached = {}
        if not template and any(True for _ in refs.find(step.tool_contract.arguments)):
            try:
                attached["arguments"] = canon.encode(refs.resolve(step.tool_contract.arguments, Outputs(run)))
            except PlanError as error:
                events.append(_cannot_start(step, run.steps[step.step_id].attempts, error))
                continue
        events.append(
            event(
                "step.started",
                attached,
                step_id=step.step_id,
                attempt=run.steps[step.step_id].attempts + 1,
                wave=wave,
                mode=mode,
                template=template,
                tool=step.tool or "",
                at_ms=moment.now_ms,
            )
        )
    count = sum(one.kind == "step.started" for one in events)
    if not count or len(events) != count:
        return [one for one in events if one.kind == "step.failed"]
    reserved = event(
        "budget.reserved", purpose="wave", wave=wave, amounts={"steps": count, "tool_calls": count}
    )
    return [reserved, *events]
