"""Stimuli of people who change a run under way: edit its plan, guide its planning, amend its objective."""

from __future__ import annotations

from ...wire import canon
from ...wire.errors import AuthorityError, RunError
from ...wire.limits import AMENDMENTS_MAX, REPLANS_FEEDBACK_MAX, REQUEST_TEXT_BYTES_MAX
from .. import admission, gates
from ..applied.planning import OBJECTIVE_CHANGED
from ..events import Event, event
from ..moment import Moment
from ..run import Run
from ..stimuli import Amended, Edited, Guided
from .course import gate_timeout
from .planning import plan_event


def edited(run: Run, stimulus: Edited) -> list[Event]:
    """A person's version of the waiting plan takes its place and is shown again. One with faults changes nothing."""
    expired = gate_timeout(run, stimulus.now_ms)
    if expired:
        return expired
    gate = run.gate
    if gate is None or (stimulus.gate and stimulus.gate != gate.gate_id):
        raise AuthorityError(
            "gate.already_decided", "This gate was decided already, or another one waits now."
        )
    if gate.kind != "plan":
        raise RunError(
            "run.not_editable", "What waits is one step of an approved plan; its plan is not edited any more."
        )
    if run.route == "direct":
        raise RunError(
            "run.not_editable", "A direct run has no plan: approve its call, or reject it and say why."
        )
    plan = admission.edited_plan(run, stimulus.plan)
    said = plan_event(plan, "", run.sources, edited=True)
    moment = Moment(stimulus.now_ms, stimulus.fresh)
    return [said, gates.ask(run, moment, "plan", None, "edited")]


def guided(run: Run, stimulus: Guided) -> list[Event]:
    """A text for every later draft. At a plan gate the next one follows at once, within the bound."""
    expired = gate_timeout(run, stimulus.now_ms)
    if expired:
        return expired
    text = stimulus.text.strip()
    if not text or len(text.encode("utf-8", "replace")) > REQUEST_TEXT_BYTES_MAX:
        raise RunError("run.bad_guidance", "Guidance is a text of a few sentences.")
    said = event("guidance.given", {"text": canon.encode(text)}, at_ms=stimulus.now_ms)
    if run.gate is None or run.gate.kind != "plan" or run.route == "direct":
        return [said]
    if run.replans.get("gate_feedback", 0) >= REPLANS_FEEDBACK_MAX:
        return [said, event("replan.refused", trigger="gate_feedback", code="replan.bound")]
    return [
        said,
        event("replan.triggered", trigger="gate_feedback", code="gate.guided", plan=run.plan_digest),
    ]


def amended(run: Run, stimulus: Amended) -> list[Event]:
    """Another objective, signed anew: planned from the beginning, validated results kept, and gated again."""
    expired = gate_timeout(run, stimulus.now_ms)
    if expired:
        return expired
    _check_quiet(run)
    admission.check_amendment(run, stimulus)
    said = event(
        "objective.amended",
        {"request": canon.encode(stimulus.request.to_data()), "mandate": stimulus.envelope},
        submitter=stimulus.submitter,
        submitter_name=stimulus.submitter_name,
        tier=stimulus.mandate.tier,
        cancelled=len(run.outstanding),
        at_ms=stimulus.now_ms,
    )
    return [
        said,
        event("replan.triggered", trigger=OBJECTIVE_CHANGED, code="run.amended", plan=run.plan_digest),
    ]


def _check_quiet(run: Run) -> None:
    """Raises ``RunError`` ``run.busy`` while a write is under way, or nobody knows what became of one."""
    busy = [
        name
        for name, state in run.steps.items()
        if state.status == "unknown" or (state.status == "started" and not run.reads_only(name))
    ]
    if busy:
        raise RunError(
            "run.busy",
            f"Step {busy[0]} of run {run.run_id} writes, and its outcome is not known yet.",
            hint="Wait until it has come back, or answer what became of it; then amend.",
        )
    if run.amended >= AMENDMENTS_MAX:
        raise RunError(
            "run.amended_too_often", f"Run {run.run_id} was amended {run.amended} times; submit another one."
        )
