"""What models were asked for and what they gave: settled tokens, filled arguments, the turns of a direct run."""

from __future__ import annotations

from dataclasses import replace

from ...plan import refs
from ...plan.plan import Plan
from ..events import Event
from ..phases import Phase
from ..run import Run, StepState
from .attached import value_of


def model_answered(run: Run, event: Event) -> Run:
    return replace(run, thinking="", held={}, budget=run.budget.settle(run.held, event.facts["spent"]))


def arguments_filled(run: Run, event: Event) -> Run:
    """From now on the step has these arguments; the plan itself stays as it was approved."""
    step = run.step(event.facts["step_id"])
    contract = step.tool_contract.model_copy(update={"arguments": value_of(event, "filled")})
    # What the arguments referred to stays what the step depends on.
    needs = list(dict.fromkeys([*step.depends_on, *refs.steps_of(step.tool_contract.arguments)]))
    filled = step.model_copy(update={"tool_contract": contract, "depends_on": needs})
    return replace(run, filled={**run.filled, step.step_id: filled})


def plan_extended(run: Run, event: Event) -> Run:
    """One more step; what the others gave stays."""
    plan = Plan.decoded(event.attached["plan"])
    return replace(
        run,
        phase=Phase.READY,
        plan=plan,
        plan_digest=event.facts["digest"],
        plan_artifact=event.artifacts.get("plan", ""),
        previous_plan=run.plan,
        steps={one.step_id: run.steps.get(one.step_id, StepState()) for one in plan.steps},
        approved=False,
        turns=(*run.turns, {"step_id": event.facts["step_id"]}),
    )


def call_refused(run: Run, event: Event) -> Run:
    return replace(run, turns=(*run.turns, value_of(event, "turn")))


def direct_answered(run: Run, event: Event) -> Run:
    return replace(run, answer=value_of(event, "answer"))
