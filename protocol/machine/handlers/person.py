"""Stimuli of people: approve, reject, answer, cancel."""

from __future__ import annotations

from ...judgement.checks import STATED
from ...plan.request import Question
from ...wire import canon
from ...wire.errors import AuthorityError, PlanError, RunError
from ...wire.limits import ANSWERS_MAX, REPLANS_FEEDBACK_MAX
from .. import calls, ends, failures, gates
from ..events import Event, event
from ..phases import Phase
from ..run import Run
from ..stimuli import Answered, Approved, AuthorityRefused, CancelAsked, Rejected
from . import outcomes
from .course import gate_timeout


def approved(run: Run, stimulus: Approved) -> list[Event]:
    """One claim wins. An approval of anything but what waits now leaves the gate open; one that is late ends the run."""
    expired = gate_timeout(run, stimulus.now_ms)
    if expired:
        return expired
    gates.check_approval(run, stimulus.approval, stimulus.now_ms, stimulus.approver, stimulus.approver_name)
    gate = run.gate
    assert gate is not None
    kind = "plan.approved" if gate.kind == "plan" else "step.approved"
    return [
        event(
            kind,
            {"approval": stimulus.envelope},
            gate=gate.gate_id,
            approver=stimulus.approver,
            plan=run.plan_digest,
            step_id=gate.step_id,
            at_ms=stimulus.now_ms,
        )
    ]


def authority_refused(run: Run, stimulus: AuthorityRefused) -> list[Event]:
    """Recorded, and nothing else: the gate stays as it was."""
    return [refusal(stimulus.error.code)]


def refusal(code: str) -> Event:
    return event("authority.refused", code=code)


def rejected(run: Run, stimulus: Rejected) -> list[Event]:
    """Without feedback the run fails; with feedback a bounded replan follows."""
    if run.gate is None or stimulus.gate != run.gate.gate_id:
        raise AuthorityError(
            "gate.already_decided", "This gate was decided already, or another one waits now."
        )
    feedback = (stimulus.feedback or "").strip()
    said = event(
        "plan.rejected",
        {"feedback": canon.encode(feedback)} if feedback else {},
        gate=run.gate.gate_id,
        gate_kind=run.gate.kind,
        step_id=run.gate.step_id,
        at_ms=stimulus.now_ms,
    )
    if feedback and run.route == "direct":
        return [said, _told_back(run, feedback)]
    if not feedback:
        return [said, ends.end(Phase.FAILED, "gate.rejected", "The person rejected it.", next_owner="person")]
    if run.replans.get("gate_feedback", 0) >= REPLANS_FEEDBACK_MAX:
        refused = event("replan.refused", trigger="gate_feedback", code="replan.bound")
        return [
            said,
            refused,
            ends.end(Phase.FAILED, "gate.rejected", "It was rejected too often.", next_owner="person"),
        ]
    return [
        said,
        event("replan.triggered", trigger="gate_feedback", code="gate.rejected", plan=run.plan_digest),
    ]


def _told_back(run: Run, feedback: str) -> Event:
    """In a direct run the call that was rejected does not happen, and the model hears why."""
    assert run.gate is not None and run.plan is not None
    step = run.step(run.gate.step_id or run.plan.steps[-1].step_id)
    error = PlanError("gate.rejected", feedback)
    return failures.cannot_start(run, step, error, then="degrade")


def answered(run: Run, stimulus: Answered) -> list[Event]:
    """The answer to the one open question."""
    if run.asked is None:
        raise RunError("run.not_asked", f"Run {run.run_id} waits for no answer.")
    about, _, step_id = run.asked.about.partition(":")
    if about == "bind":
        return _answered_binding(run, stimulus)
    said = _choice(run.asked.question, stimulus.text)
    given = event(
        "input.given",
        {"text": canon.encode(stimulus.text)},
        about=run.asked.about,
        parameter=run.asked.question.parameter,
        said=said,
        at_ms=stimulus.now_ms,
    )
    if said == "give up":
        return [given, *ends.stop(run, "input.given_up", f"The person gave up on step {step_id}.")]
    if about == "outcome":
        return [given, _stated(run, step_id, ends.OUTCOME_CHOICES[said])]
    return [given]


def _answered_binding(run: Run, stimulus: Answered) -> list[Event]:
    assert run.asked is not None
    if run.answered >= ANSWERS_MAX:
        return [
            ends.end(Phase.FAILED, "input.too_many", "Too many questions were needed.", next_owner="person")
        ]
    return [
        event(
            "input.given",
            {"text": canon.encode(stimulus.text)},
            about=run.asked.about,
            parameter=run.asked.question.parameter,
            said="",
            at_ms=stimulus.now_ms,
        )
    ]


def _choice(question: Question, text: str) -> str:
    wanted = " ".join(text.lower().split())
    if wanted not in question.choices:
        raise RunError(
            "run.bad_answer",
            f"{text[:80]!r} is none of the answers.",
            hint="Say one of: " + ", ".join(question.choices),
        )
    return wanted


def _stated(run: Run, step_id: str, said: str) -> Event:
    attached = (
        {"output": canon.encode({STATED: "a person said that it happened"})} if said == "happened" else {}
    )
    return event("step.outcome_stated", attached, step_id=step_id, said=said)


def cancel_asked(run: Run, stimulus: CancelAsked) -> list[Event]:
    """Calls that still run are killed; what a write may have done is said, not guessed."""
    unknown = [
        outcomes.unknown(run.step(name), calls.key_now(run, run.step(name)))
        for name in run.outstanding
        if not run.reads_only(name)
    ]
    said = event("run.cancelled", {"reason": canon.encode(stimulus.reason)}, at_ms=stimulus.now_ms)
    text = "Cancelled."
    if unknown or any(state.status == "unknown" for state in run.steps.values()):
        text = "Cancelled while a write was under way; nobody can say whether it happened."
    return [*unknown, said, ends.end(Phase.CANCELLED, "run.cancelled", text, next_owner="person")]
