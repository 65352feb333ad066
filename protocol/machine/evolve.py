"""``evolve(run, event) -> run``: what each fact does to the state. Replaying the journal is nothing but this.

Facts are not judged here: whoever wrote an event into the journal had the right to. A missing artifact or field raises;
nothing is guessed. What each kind does stands in ``applied``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..wire.errors import LogError
from .applied import changes, course, modelling, people, planning, steps
from .events import Event
from .run import Run


def evolve(run: Run | None, event: Event) -> Run:
    """The run after a fact. Raises ``LogError`` ``log.bad_event`` for one that cannot follow."""
    try:
        if run is None:
            if event.kind != "run.submitted":
                raise LogError("log.bad_event", f"A run begins with run.submitted, not with {event.kind}.")
            return _timed(None, planning.submitted(event), event)
        handler = HANDLERS.get(event.kind)
        if handler is None:
            raise LogError("log.bad_event", f"No rule for an event of kind {event.kind}.")
        elapsed = event.facts.get("elapsed_ms", 0)
        if elapsed:
            run = replace(run, budget=run.budget.spend({"wall_ms": elapsed}))
        return _timed(run, handler(run, event), event)
    except KeyError as missing:
        name = "" if run is None else f" of run {run.run_id}"
        raise LogError("log.bad_event", f"The event {event.kind}{name} lacks {missing}.") from None


def _timed(before: Run | None, after: Run, event: Event) -> Run:
    """Sets the wall time at which the active time of a run will be spent, whenever its clock starts to run again."""
    starts = before is None or before.phase.waits or event.kind == "run.resumed"
    if not starts or after.phase.waits or after.phase.ended:
        return after
    left = after.budget.wall_ms_left
    at_ms = event.facts.get("at_ms")
    return after if left is None or at_ms is None else replace(after, active_until_ms=at_ms + left)


HANDLERS: Mapping[str, Callable[[Run, Event], Run]] = {
    "route.chosen": planning.route_chosen,
    "plan.cache_hit": planning.cache_replied,
    "plan.cache_stale": planning.cache_replied,
    "plan.cache_miss": planning.cache_replied,
    "plan.drafted": planning.plan_drafted,
    "plan.refused": planning.plan_refused,
    "replan.triggered": planning.replan_triggered,
    "replan.refused": planning.replan_refused,
    "results.imported": planning.results_imported,
    "plan.edited": planning.plan_drafted,
    "guidance.given": changes.guidance_given,
    "objective.amended": changes.objective_amended,
    "gate.asked": people.gate_asked,
    "plan.approved": people.approved,
    "step.approved": people.approved,
    "plan.rejected": people.rejected,
    "authority.refused": course.unchanged,
    "input.asked": people.input_asked,
    "input.given": people.input_given,
    "step.outcome_stated": people.outcome_stated,
    "step.started": steps.step_started,
    "step.succeeded": steps.step_succeeded,
    "step.failed": steps.step_failed,
    "step.reused": steps.step_reused,
    "step.skipped": steps.step_skipped,
    "step.checked": steps.step_checked,
    "step.outcome_unknown": steps.outcome_unknown,
    "step.late_result": course.unchanged,
    "step.shadowed": steps.step_shadowed,
    "step.probed": steps.step_probed,
    "step.arguments_filled": modelling.arguments_filled,
    "model.called": course.unchanged,
    "model.answered": modelling.model_answered,
    "plan.extended": modelling.plan_extended,
    "direct.call_refused": modelling.call_refused,
    "direct.answered": modelling.direct_answered,
    "policy.asked": steps.policy_asked,
    "policy.judged": steps.policy_judged,
    "checks.returned": course.checks_returned,
    "budget.reserved": course.budget_reserved,
    "budget.warned": course.budget_warned,
    "budget.exhausted": course.unchanged,
    "verification.started": course.verification_started,
    "verdict.reached": course.verdict_reached,
    "run.resumed": course.run_resumed,
    "run.stalled": course.run_stalled,
    "run.cancelled": course.unchanged,
    "run.ended": course.run_ended,
}
