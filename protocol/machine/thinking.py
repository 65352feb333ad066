"""Work of a model: one call at a time in a run, its tokens reserved before and settled after.

``run.thinking`` says what a model is asked for: ``plan``, ``arguments:<step>``, ``direct``; empty while none is. A reason
step is started and settled like a call, and the critic's call belongs to the judgement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..plan import refs, validate
from ..plan.model_call import Used
from ..plan.plan import Step
from ..wire import canon
from ..wire.errors import PlanError
from ..wire.limits import (
    ARGUMENTS_TOKENS_MAX,
    CRITIC_TOKENS_MAX,
    DRAFT_TOKENS_MAX,
    MODEL_TOKENS_DEFAULT,
    REASON_TOKENS_MAX,
    TURN_TOKENS_MAX,
)
from . import ends, failures
from .events import Event, event
from .run import Outputs, Run

TOKENS_MAX = {
    "plan": DRAFT_TOKENS_MAX,
    "arguments": ARGUMENTS_TOKENS_MAX,
    "direct": TURN_TOKENS_MAX,
    "reason": REASON_TOKENS_MAX,
    "critic": CRITIC_TOKENS_MAX,
}


def tokens(run: Run, purpose: str) -> int:
    """How many tokens may be reserved for a purpose now; without a limit of its own a run has a default one."""
    left = run.budget.left("model_tokens")
    if left is None:
        budget = run.budget
        left = MODEL_TOKENS_DEFAULT - budget.used("model_tokens") - budget.reserved.get("model_tokens", 0)
    return max(0, min(left, TOKENS_MAX[purpose]))


def ask(run: Run, purpose: str, step_id: str = "") -> list[Event]:
    """The reservation with which a model begins to work, or the end where nothing is left for it."""
    lacks = lacking(run, purpose)
    if lacks:
        return ends.exhausted(run, lacks)
    amounts = {"model_tokens": tokens(run, purpose)}
    return [event("budget.reserved", purpose=purpose, wave=0, step_id=step_id, amounts=amounts)]


def lacking(run: Run, purpose: str) -> str:
    """The budget that leaves no room for a call of a model, empty where there is room."""
    cost = run.budget.left("cost")
    if cost is not None and cost <= 0:
        return "cost"
    return "" if tokens(run, purpose) > 0 else "model_tokens"


def called(uses: Sequence[Used]) -> list[Event]:
    """What was asked of models and what they answered, one event a call."""
    return [_called(one) for one in uses]


def _called(one: Used) -> Event:
    attached = {
        "model_request": one.request,
        "model_response": one.response,
        "parameters": canon.encode(one.use.parameters),
    }
    if one.value:
        attached["model_value"] = one.value
    return event(
        "model.called",
        attached,
        call=one.call,
        purpose=one.use.purpose,
        prompt=one.use.prompt,
        prompt_digest=one.use.prompt_digest,
        model=one.use.model,
        mode=one.use.mode,
        tokens_in=one.use.tokens_in,
        tokens_out=one.use.tokens_out,
        cost=one.use.cost,
        duration_ms=one.use.duration_ms,
        code=one.use.code,
    )


def answered(run: Run, uses: Sequence[Used]) -> list[Event]:
    """A model's work is done, or given up: its calls, and what it really took in place of what was reserved."""
    if not run.thinking:
        return called(uses)
    purpose, _, step_id = run.thinking.partition(":")
    settled = event(
        "model.answered",
        purpose=purpose,
        step_id=step_id,
        calls=len(uses),
        spent=spent(uses),
    )
    return [*called(uses), settled]


def spent(uses: Sequence[Used]) -> dict[str, int]:
    """What calls took, by budget."""
    taken = {"model_tokens": sum(one.use.tokens for one in uses), "cost": sum(one.use.cost for one in uses)}
    return {name: amount for name, amount in taken.items() if amount > 0}


def after(run: Run, uses: Sequence[Used]) -> Run:
    """The run once a model's work is settled, to judge by it what else it may do."""
    return replace(run, thinking="", held={}, budget=run.budget.settle(run.held, spent(uses)))


def is_open(step: Step) -> bool:
    """Whether a model has to fill a step's arguments before it can start."""
    return step.kind == "tool" and step.tool_contract.arguments is None


def wants_arguments(run: Run, step: Step, outputs: Mapping[str, Any] | None = None) -> bool:
    """Whether a model has to give a step its arguments: they are open, or they refer to results that are there and do not
    fit the tool. ``outputs`` are tagged, the run's own where none are given."""
    if is_open(step):
        return True
    if not run.has_model or step.kind != "tool" or step.step_id in run.filled:
        return False
    arguments, known = step.tool_contract.arguments, Outputs(run) if outputs is None else outputs
    needs = refs.steps_of(arguments)
    if not needs or any(name not in known for name in needs):
        return False
    try:
        given = refs.resolve(arguments, known)
    except PlanError:
        return True
    return bool(validate.argument_faults(given, run.descriptors[step.tool or ""].input_schema, "arguments"))


def first_open(run: Run, steps: Sequence[Step]) -> list[Event]:
    """The order to fill the first arguments that a model has to give among steps that are about to start, none where all
    are there, or where the call would not be made anyway."""
    for step in steps:
        if wants_arguments(run, step) and not failures.breaker_open(run, step.tool or ""):
            return ask(run, "arguments", step.step_id)
    return []
