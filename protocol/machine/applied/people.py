"""Gates and questions: what was asked of a person, and what the person said."""

from __future__ import annotations

from dataclasses import replace

from ...authority.approval import Approval
from ...plan.request import Question
from ...wire.errors import LogError
from ..events import Event
from ..phases import Phase
from ..run import Asked, Gate, GivenApproval, Run
from .attached import value_of
from .steps import denial, with_step

NO_EXECUTOR = "run.no_executor"


def gate_asked(run: Run, event: Event) -> Run:
    facts = event.facts
    gate = Gate(facts["gate"], facts["gate_kind"], facts.get("step_id"), facts["at_ms"], facts["why"])
    return replace(
        run,
        phase=Phase.WAITING_APPROVAL,
        gate=gate,
        approved=run.approved and gate.kind != "plan",
        next_owner="person",
        reason="gate.waiting",
    )


def approved(run: Run, event: Event) -> Run:
    envelope = event.attached["approval"]
    given = GivenApproval(Approval.peek(envelope), envelope, event.facts["approver"])
    whole = event.kind == "plan.approved"
    return replace(
        run,
        settled_scope=run.plan.scope if whole and run.plan is not None else run.settled_scope,
        phase=Phase.READY if whole else Phase.RUNNING,
        gate=None,
        approved=run.approved or whole,
        approvals=(*run.approvals, given),
        next_owner="duly",
        reason=NO_EXECUTOR if run.stalled else "",
    )


def rejected(run: Run, event: Event) -> Run:
    guidance = run.guidance
    if "feedback" in event.attached:
        guidance = (*guidance, value_of(event, "feedback"))
    step_id = event.facts["step_id"]
    return replace(
        run,
        denied=run.denied if step_id is None else run.denied | {denial(run, step_id)},
        # The end of the run, or another plan, follows at once; a direct run goes on without the call.
        phase=Phase.RUNNING if run.route == "direct" else Phase.REPLAN_REQUIRED,
        gate=None,
        next_owner="duly",
        reason="",
        guidance=guidance,
        rejected_plans=run.rejected_plans | {run.plan_digest},
    )


def input_asked(run: Run, event: Event) -> Run:
    asked = Asked(event.facts["about"], Question.model_validate(value_of(event, "question")))
    return replace(run, phase=Phase.WAITING_INPUT, asked=asked, next_owner="person", reason="input.needed")


def input_given(run: Run, event: Event) -> Run:
    if run.asked is None:
        raise LogError("log.bad_event", f"Run {run.run_id} was not asked anything.")
    run = replace(run, asked=None, next_owner="duly", reason=NO_EXECUTOR if run.stalled else "")
    if event.facts["about"] == "bind":
        answers = {**run.answers, event.facts["parameter"]: value_of(event, "text")}
        return replace(
            run, phase=Phase.PLANNING, binding=None, answers=answers, answered=run.answered + 1, route=""
        )
    about, _, step_id = event.facts["about"].partition(":")
    run = replace(run, phase=Phase.RUNNING)
    if about == "step" and event.facts["said"] == "retry":
        return with_step(run, step_id, status="pending", then="", code="")
    if about == "step" and event.facts["said"] == "skip":
        return with_step(run, step_id, status="degraded", then="degrade")
    return run


def outcome_stated(run: Run, event: Event) -> Run:
    """A person said what became of a call: it happened, it did not, or they give up."""
    step_id, said = event.facts["step_id"], event.facts["said"]
    if said == "did_not_happen":
        return with_step(run, step_id, status="pending", code="", probe="", probes=0)
    if said == "happened":
        output = event.artifacts.get("output", "")
        run = with_step(run, step_id, status="succeeded", then="stated", code="", output=output)
        return replace(run, outputs={**run.outputs, step_id: event.attached["output"]})
    return with_step(run, step_id, status="failed", then="fail")
