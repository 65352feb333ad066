"""How a run stops: ends, and questions to a person."""

from __future__ import annotations

from ..plan.request import Question
from ..wire import canon
from .events import Event, event
from .phases import Phase
from .run import DONE, Run


def end(phase: Phase, reason: str, message: str, next_owner: str = "nobody") -> Event:
    """The last event of a run. ``reason`` is a code, ``message`` a sentence (an artifact)."""
    return event(
        "run.ended", {"message": canon.encode(message)}, end=str(phase), reason=reason, next_owner=next_owner
    )


def stop(run: Run, reason: str, message: str) -> list[Event]:
    """PARTIAL where the plan allows it and something valid is there, else FAILED. Never silently."""
    if any(state.status == "unknown" for state in run.steps.values()):
        message += " A write was under way; nobody can say whether it happened."
    valid = [name for name, state in run.steps.items() if state.status in DONE]
    if run.plan is not None and run.plan.allow_partial and valid:
        return [end(Phase.PARTIAL, reason, message, next_owner="person")]
    return [end(Phase.FAILED, reason, message, next_owner="person")]


def exhausted(run: Run, name: str) -> list[Event]:
    limit = run.budget.limits.get(name, 0)
    return [
        event("budget.exhausted", name=name, limit=limit),
        *stop(run, f"budget.{name}", f"The budget of {limit} {name} is spent."),
    ]


def ask(about: str, question: Question) -> Event:
    return event(
        "input.asked",
        {"question": canon.encode(question.to_data())},
        about=about,
        parameter=question.parameter,
    )


OUTCOME_CHOICES = {"it happened": "happened", "it did not": "did_not_happen", "give up": "give_up"}
FAILURE_CHOICES = ("retry", "skip", "give up")


def ask_outcome(run: Run, step_id: str) -> Event:
    """Nobody can say whether a write happened; a person may look."""
    step = run.step(step_id)
    resource = run.descriptors[step.tool or ""].resource if step.tool in run.descriptors else ""
    text = (
        f"The call of step {step_id} ({step.tool}) was cut off, and nobody can say whether it happened. "
        f"Look at {resource or 'its target'}: did it happen?"
    )
    return ask(f"outcome:{step_id}", Question(parameter="outcome", text=text, choices=list(OUTCOME_CHOICES)))


def ask_about_failure(run: Run, step_id: str) -> Event:
    """A failed step whose contract sends it to a person."""
    state = run.steps[step_id]
    wish = next((one.question for one in run.step(step_id).on_failure if one.do == "clarify"), "")
    said = f": {state.message.rstrip('.')}" if state.message else ""
    text = wish or f"Step {step_id} failed with {state.code}{said}. What now?"
    return ask(f"step:{step_id}", Question(parameter=step_id, text=text, choices=list(FAILURE_CHOICES)))
