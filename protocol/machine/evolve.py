"""``evolve(run, event) -> run``: what each fact does to the state. Replaying the journal is nothing but this.

Facts are not judged here: whoever wrote an event into the journal had the right to. A missing artifact or field raises;
nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..authority.approval import Approval
from ..authority.mandate import Mandate
from ..plan.agent import AgentSpec
from ..plan.descriptor import Descriptor
from ..plan.plan import Plan
from ..plan.request import Binding, Question, Request
from ..wire import canon
from ..wire.errors import LogError
from ..wire.limits import ARTIFACT_BYTES_MAX
from .budget import Budget
from .events import Event
from .phases import Phase
from .run import DONE, Asked, Gate, GivenApproval, Kept, Run, StepState


def evolve(run: Run | None, event: Event) -> Run:
    """The run after a fact. Raises ``LogError`` ``log.bad_event`` for one that cannot follow."""
    if run is None:
        if event.kind != "run.submitted":
            raise LogError("log.bad_event", f"A run begins with run.submitted, not with {event.kind}.")
        return _submitted(event)
    handler = _HANDLERS.get(event.kind)
    if handler is None:
        raise LogError("log.bad_event", f"No rule for an event of kind {event.kind}.")
    elapsed = event.facts.get("elapsed_ms", 0)
    if elapsed:
        run = replace(run, budget=run.budget.spend({"wall_ms": elapsed}))
    try:
        return handler(run, event)
    except KeyError as missing:
        raise LogError(
            "log.bad_event", f"The event {event.kind} of run {run.run_id} lacks {missing}."
        ) from None


def value_of(event: Event, name: str) -> Any:
    """The value attached to an event under a name."""
    return canon.decode(event.attached[name], bytes_max=ARTIFACT_BYTES_MAX)


def _submitted(event: Event) -> Run:
    envelope = event.attached["mandate"]
    mandate = Mandate.peek(envelope)
    agent = AgentSpec.model_validate(value_of(event, "agent"))
    return Run(
        run_id=mandate.run_id,
        mandate=mandate,
        mandate_envelope=envelope,
        submitter=event.facts["submitter"],
        request=Request.model_validate(value_of(event, "request")),
        agent=agent,
        descriptors={
            name: Descriptor.model_validate(data) for name, data in value_of(event, "descriptors").items()
        },
        digests=event.facts["digests"],
        capabilities=tuple(value_of(event, "capabilities")),
        has_model=event.facts["has_model"],
        epoch=event.facts["epoch"],
        submitted_ms=event.facts["at_ms"],
        budget=Budget(limits=dict(mandate.budget)),
    )


def _route(run: Run, event: Event) -> Run:
    binding = Binding.model_validate(value_of(event, "binding")) if "binding" in event.attached else None
    return replace(
        run,
        binding=binding or Binding(),
        route=event.facts["route"],
        score=event.facts["score"],
        cache="asked" if event.facts["look_up"] else "",
    )


def _asked(run: Run, event: Event) -> Run:
    asked = Asked(event.facts["about"], Question.model_validate(value_of(event, "question")))
    return replace(run, phase=Phase.WAITING_INPUT, asked=asked, next_owner="person", reason="input.needed")


def _given(run: Run, event: Event) -> Run:
    if run.asked is None:
        raise LogError("log.bad_event", f"Run {run.run_id} was not asked anything.")
    run = replace(run, asked=None, next_owner="duly", reason="")
    if event.facts["about"] == "bind":
        answers = {**run.answers, event.facts["parameter"]: value_of(event, "text")}
        return replace(run, phase=Phase.PLANNING, binding=None, answers=answers, route="")
    about, _, step_id = event.facts["about"].partition(":")
    run = replace(run, phase=Phase.RUNNING)
    if about == "step" and event.facts["said"] == "retry":
        return _with_step(run, step_id, status="pending", then="", code="")
    if about == "step" and event.facts["said"] == "skip":
        return _with_step(run, step_id, status="degraded", then="degrade")
    return run


def _cache(run: Run, event: Event) -> Run:
    return replace(run, cache=event.kind.removeprefix("plan.cache_"))


def _drafted(run: Run, event: Event) -> Run:
    plan = Plan.model_validate(value_of(event, "plan"))
    playbook = event.facts.get("playbook") or ""
    used = (
        run.used_playbooks
        if not playbook or playbook in run.used_playbooks
        else (*run.used_playbooks, playbook)
    )
    return replace(
        run,
        phase=Phase.READY,
        plan=plan,
        plan_digest=event.facts["digest"],
        plan_artifact=event.artifacts.get("plan", ""),
        previous_plan=run.plan,
        steps={step.step_id: StepState() for step in plan.steps},
        outputs={},
        approved=False,
        used_playbooks=used,
        sources=event.facts["fingerprints"],
        verification="",
        checks=(),
        verdict="none",
        cache="" if run.cache == "asked" else run.cache,
    )


def _refused(run: Run, event: Event) -> Run:
    return replace(run, drafts=run.drafts + 1)


def _gate(run: Run, event: Event) -> Run:
    facts = event.facts
    gate = Gate(facts["gate"], facts["gate_kind"], facts.get("step_id"), facts["at_ms"], facts["why"])
    return replace(run, phase=Phase.WAITING_APPROVAL, gate=gate, next_owner="person", reason="gate.waiting")


def _approved(run: Run, event: Event) -> Run:
    envelope = event.attached["approval"]
    given = GivenApproval(Approval.peek(envelope), envelope, event.facts["approver"])
    phase = Phase.READY if event.kind == "plan.approved" else Phase.RUNNING
    return replace(
        run,
        phase=phase,
        gate=None,
        approved=run.approved or event.kind == "plan.approved",
        approvals=(*run.approvals, given),
        next_owner="duly",
        reason="",
    )


def _rejected(run: Run, event: Event) -> Run:
    guidance = run.guidance
    if "feedback" in event.attached:
        guidance = (*guidance, value_of(event, "feedback"))
    return replace(
        run,
        gate=None,
        next_owner="duly",
        guidance=guidance,
        rejected_plans=run.rejected_plans | {run.plan_digest},
    )


def _reserved(run: Run, event: Event) -> Run:
    run = replace(run, budget=run.budget.reserve(event.facts["amounts"]))
    if event.facts["purpose"] == "verification":
        return replace(run, verification="judge", reads=tuple(value_of(event, "reads")))
    return run


def _with_step(run: Run, step_id: str, **changes: Any) -> Run:
    steps = dict(run.steps)
    steps[step_id] = replace(steps[step_id], **changes)
    return replace(run, steps=steps)


def _started(run: Run, event: Event) -> Run:
    facts = event.facts
    return replace(
        _with_step(
            run,
            facts["step_id"],
            status="started",
            attempts=facts["attempt"],
            wave=facts["wave"],
            mode=facts["mode"],
            template=facts["template"],
            retry_at_ms=0,
            code="",
            then="",
        ),
        phase=Phase.RUNNING,
        waves=max(run.waves, facts["wave"]),
    )


def _succeeded(run: Run, event: Event) -> Run:
    facts = event.facts
    run = _with_step(
        run,
        facts["step_id"],
        status="succeeded",
        output=event.artifacts.get("output", ""),
        receipt=event.artifacts.get("receipt", ""),
        key=facts["key"],
        fingerprints=facts["fingerprints"],
        started_ms=facts["started_ms"],
        ended_ms=facts["ended_ms"],
        node=facts["node"],
    )
    outputs = {**run.outputs, facts["step_id"]: event.attached["output"]}
    spent = {"steps": 1, "tool_calls": 1, "rows_scanned": facts["rows"]}
    return replace(run, outputs=outputs, budget=run.budget.settle(_RESERVED, spent))


_RESERVED = {"steps": 1, "tool_calls": 1}


def _failed(run: Run, event: Event) -> Run:
    facts = event.facts
    state = run.steps[facts["step_id"]]
    then = facts["then"]
    status = {"retry": "retrying", "again": "pending", "degrade": "degraded"}.get(then, "failed")
    run = _with_step(
        run,
        facts["step_id"],
        status=status,
        code=facts["code"],
        then=then,
        key=facts["key"],
        retry_at_ms=facts.get("retry_at_ms", 0),
        lost=state.lost + (1 if facts["lost"] else 0),
        attempts=state.attempts - 1 if then == "again" else state.attempts,
    )
    failed = (
        run.failed_keys | {facts["key"]}
        if facts["key"] and status in ("failed", "degraded")
        else run.failed_keys
    )
    spent = {} if facts["not_started"] else _RESERVED
    return replace(run, failed_keys=failed, budget=run.budget.settle(_RESERVED, spent))


def _reused(run: Run, event: Event) -> Run:
    facts = event.facts
    kept = run.kept[facts["key"]]
    run = _with_step(
        run,
        facts["step_id"],
        status="reused",
        output=kept.artifact,
        receipt=kept.receipt,
        key=facts["key"],
        fingerprints=kept.fingerprints,
    )
    return replace(run, outputs={**run.outputs, facts["step_id"]: kept.output})


def _skipped(run: Run, event: Event) -> Run:
    return _with_step(run, event.facts["step_id"], status="skipped", code=event.facts["code"])


def _unknown(run: Run, event: Event) -> Run:
    run = _with_step(
        run, event.facts["step_id"], status="unknown", code="step.outcome_unknown", key=event.facts["key"]
    )
    if event.facts["settled"]:
        return run
    return replace(run, budget=run.budget.settle(_RESERVED, _RESERVED))


def _stated(run: Run, event: Event) -> Run:
    """A person said what became of a call: it happened, it did not, or they give up."""
    said = event.facts["said"]
    if said == "did_not_happen":
        return _with_step(run, event.facts["step_id"], status="pending", code="")
    if said == "happened":
        run = _with_step(run, event.facts["step_id"], status="succeeded", then="stated")
        return replace(run, outputs={**run.outputs, event.facts["step_id"]: event.attached["output"]})
    return _with_step(run, event.facts["step_id"], status="failed", then="fail")


def _checked(run: Run, event: Event) -> Run:
    facts = event.facts
    return _with_step(run, facts["step_id"], checked=facts["outcome"])


def _replan(run: Run, event: Event) -> Run:
    facts = event.facts
    kept = dict(run.kept)
    failed = set(run.failed_keys)
    for step_id, state in run.steps.items():
        if state.checked == "fail" and state.key:
            failed.add(state.key)
            kept.pop(state.key, None)
        elif state.status in DONE and state.key:
            kept[state.key] = Kept(run.outputs[step_id], state.output, state.receipt, state.fingerprints)
    replans = {**run.replans, facts["trigger"]: run.replans.get(facts["trigger"], 0) + 1}
    return replace(
        run,
        phase=Phase.REPLAN_REQUIRED,
        replans=replans,
        replan_trigger=facts["trigger"],
        replan_reason=facts["code"],
        kept=kept,
        failed_keys=frozenset(failed),
        gate=None,
        asked=None,
        verification="",
        drafts=0,
    )


def _warned(run: Run, event: Event) -> Run:
    return replace(run, budget=replace(run.budget, warned=run.budget.warned | {event.facts["name"]}))


def _verifying(run: Run, event: Event) -> Run:
    return replace(run, phase=Phase.VERIFYING, verification="prepare", reads=())


def _verdict(run: Run, event: Event) -> Run:
    used = event.facts["tool_calls"]
    budget = run.budget.settle({"tool_calls": used}, {"tool_calls": used}) if used else run.budget
    return replace(
        run,
        verdict=event.facts["outcome"],
        checks=tuple(value_of(event, "checks")),
        verification="",
        budget=budget,
    )


def _resumed(run: Run, event: Event) -> Run:
    """What was open is forfeit: the reservation counts as spent. Started reads wait for their next start."""
    steps = {
        name: replace(state, status="pending", attempts=state.attempts - 1)
        if state.status == "started" and name in event.facts["again"]
        else state
        for name, state in run.steps.items()
    }
    verification = "prepare" if run.phase is Phase.VERIFYING and run.verdict == "none" else run.verification
    return replace(
        run, epoch=event.facts["epoch"], steps=steps, verification=verification, budget=run.budget.forfeit()
    )


def _ended(run: Run, event: Event) -> Run:
    message = value_of(event, "message") if "message" in event.attached else ""
    return replace(
        run,
        phase=Phase(event.facts["end"]),
        reason=event.facts["reason"],
        message=message,
        gate=None,
        asked=None,
        next_owner=event.facts["next_owner"],
        budget=run.budget.forfeit(),
    )


def _same(run: Run, event: Event) -> Run:
    return run


_HANDLERS: dict[str, Callable[[Run, Event], Run]] = {
    "route.chosen": _route,
    "input.asked": _asked,
    "input.given": _given,
    "plan.cache_hit": _cache,
    "plan.cache_stale": _cache,
    "plan.cache_miss": _cache,
    "plan.cached": _same,
    "plan.drafted": _drafted,
    "plan.refused": _refused,
    "gate.asked": _gate,
    "plan.approved": _approved,
    "step.approved": _approved,
    "plan.rejected": _rejected,
    "authority.refused": _same,
    "budget.reserved": _reserved,
    "budget.warned": _warned,
    "budget.exhausted": _same,
    "step.started": _started,
    "step.succeeded": _succeeded,
    "step.failed": _failed,
    "step.reused": _reused,
    "step.skipped": _skipped,
    "step.checked": _checked,
    "step.outcome_unknown": _unknown,
    "step.outcome_stated": _stated,
    "step.late_result": _same,
    "replan.triggered": _replan,
    "replan.refused": _same,
    "verification.started": _verifying,
    "verdict.reached": _verdict,
    "run.resumed": _resumed,
    "run.cancelled": _same,
    "run.ended": _ended,
}
