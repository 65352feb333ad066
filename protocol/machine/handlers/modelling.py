"""Stimuli of models: filled arguments, and the turns of a direct run."""

from __future__ import annotations

from ...plan import refs, validate
from ...plan.plan import Plan
from ...wire import canon
from ...wire.errors import DulyError, Fault, PlanError, RunError
from .. import admission, direct, ends, failures, shadow, thinking
from ..events import Event, event
from ..phases import Phase
from ..run import Run
from ..stimuli import ArgumentsFilled, TurnAnswered


def arguments_filled(run: Run, stimulus: ArgumentsFilled) -> list[Event]:
    """What a model put into open arguments is validated like what stands in a plan; else the step fails before it runs."""
    if run.thinking != f"arguments:{stimulus.step_id}":
        raise RunError(
            "run.not_waiting_for_that", f"Nobody fills the arguments of step {stimulus.step_id[:64]}."
        )
    events = thinking.answered(run, stimulus.uses)
    step = run.step(stimulus.step_id)
    error: DulyError | None = stimulus.error
    if error is None:
        faults = _argument_faults(run, stimulus)
        error = PlanError("plan.arguments", _told(faults), faults=faults) if faults else None
    if error is not None:
        return [*events, failures.cannot_start(run, step, PlanError(error.code, error.message))]
    filled = event(
        "step.arguments_filled",
        {"filled": canon.encode(stimulus.arguments)},
        step_id=step.step_id,
        tool=step.tool or "",
    )
    return [*events, filled]


def _argument_faults(run: Run, stimulus: ArgumentsFilled) -> list[Fault]:
    arguments = stimulus.arguments
    descriptor = run.descriptors[run.step(stimulus.step_id).tool or ""]
    if arguments is None:
        return [Fault("", "plan.arguments", "no arguments came.")]
    if any(True for _ in refs.find(arguments)):
        return [Fault("", "plan.arguments", "filled arguments are values, not references.")]
    return validate.argument_faults(arguments, descriptor.input_schema, "arguments")


def _told(faults: list[Fault]) -> str:
    return "The arguments that the model gave do not fit: " + "; ".join(str(one) for one in faults[:10])


def turn_answered(run: Run, stimulus: TurnAnswered) -> list[Event]:
    """The model's next turn in a direct run: an answer ends it, a call becomes a step; what is no call is told back."""
    if run.thinking != "direct":
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} waits for no turn of a model.")
    events = thinking.answered(run, stimulus.uses)
    if stimulus.error is not None:
        error = stimulus.error
        return [*events, ends.end(Phase.FAILED, error.code, error.advice, next_owner="person")]
    if stimulus.answer is not None:
        return [*events, *_answer(run, stimulus.answer)]
    if direct.is_last(run):
        text = "The model went on calling tools where it had to answer."
        return [*events, ends.end(Phase.FAILED, "direct.turns", text, next_owner="person")]
    return [*events, _wanted(run, stimulus)]


def _answer(run: Run, answer: str) -> list[Event]:
    said = event(
        "direct.answered", {"answer": canon.encode(answer), "transcript": direct.transcript(run, answer)}
    )
    if shadow.written(run):
        return [said, shadow.end(run)]
    text = "The model answered by itself; nobody checked the answer."
    return [said, ends.end(Phase.COMPLETED, "direct.answered", text)]


def _wanted(run: Run, stimulus: TurnAnswered) -> Event:
    arguments = stimulus.arguments
    try:
        if any(True for _ in refs.find(arguments)):
            raise PlanError("plan.arguments", "The arguments of a call are values, not references.")
        plan = direct.extended(run, stimulus.tool, arguments, stimulus.why, stimulus.sources)
        faults = admission.direct_faults(run, plan)
    except PlanError as error:
        return _not_called(stimulus, [error.message])
    if faults:
        return _not_called(stimulus, [str(fault) for fault in faults[:20]])
    return _extended(plan)


def _not_called(stimulus: TurnAnswered, faults: list[str]) -> Event:
    told = {"tool": stimulus.tool[:200], "arguments": stimulus.arguments, "faults": faults}
    return event("direct.call_refused", {"turn": canon.encode(told)}, faults=len(faults))


def _extended(plan: Plan) -> Event:
    return event(
        "plan.extended",
        {"plan": plan.encoded()},
        version=plan.version,
        digest=plan.content_digest(),
        step_id=plan.steps[-1].step_id,
    )
