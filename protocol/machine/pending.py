"""``pending(run) -> orders``: what is left to do in a state. A restart asks exactly this, and so does every decision."""

from __future__ import annotations

from ..authority.grant import arguments_digest, idempotency_key
from ..plan import refs
from ..plan.cache_key import cache_key
from ..plan.plan import Step
from ..plan.request import Binding
from . import gates
from .advance import unchecked
from .effects import (
    Bind,
    Call,
    CheckSteps,
    Dispatch,
    Draft,
    Judge,
    LookUpPlan,
    Order,
    PrepareVerification,
    Wake,
)
from .phases import Phase
from .run import Outputs, Run


def pending(run: Run) -> list[Order]:
    """Every order that this state calls for; each with a key that stays the same while it is the same order."""
    if run.phase.ended:
        return []
    if run.phase is Phase.PLANNING:
        return _planning(run)
    if run.phase is Phase.REPLAN_REQUIRED:
        return [_draft(run)]
    if run.phase is Phase.VERIFYING:
        if run.verification == "judge":
            return [Judge(("judge", run.plan_digest, str(len(run.reads))), list(run.reads))]
        return [PrepareVerification(("prepare", run.plan_digest))] if run.verification == "prepare" else []
    if run.phase is Phase.WAITING_APPROVAL:
        return _gate_end(run)
    if run.phase in (Phase.READY, Phase.RUNNING):
        return [*_dispatches(run), *_checks(run), *_wakes(run)]
    return []


def _planning(run: Run) -> list[Order]:
    if run.binding is None and run.mandate.plan is None:
        return [Bind(("bind", str(len(run.answers))), run.answers)]
    if run.cache == "asked":
        key = cache_key(run.agent, run.request)
        return [LookUpPlan(("look_up", key, str(len(run.answers))), key, run.binding or Binding())]
    if run.route in ("orchestrated", "constrained") and run.plan is None:
        return [_draft(run)]
    return []


def _draft(run: Run) -> Draft:
    version = (run.plan.version if run.plan else 0) + 1
    return Draft(
        key=("draft", str(version), str(run.drafts)),
        mode="constrained" if run.route == "constrained" else "orchestrated",
        binding=run.binding or Binding(),
        plan_id=f"p-{run.run_id}",
        version=version,
        replan=sum(run.replans.values()),
        reason=run.replan_reason,
        exclude=run.used_playbooks if run.plan is not None else (),
        guidance=run.guidance,
    )


def _gate_end(run: Run) -> list[Order]:
    ttl = run.mandate.gate_ttl_seconds
    if ttl is None or run.gate is None:
        return []
    return [Wake(("gate_ttl", run.gate.gate_id), run.gate.asked_ms + ttl * 1000)]


def _dispatches(run: Run) -> list[Order]:
    waves: dict[int, list[Step]] = {}
    for level in run.levels:
        for step_id in level:
            if run.steps[step_id].status == "started":
                waves.setdefault(run.steps[step_id].wave, []).append(run.step(step_id))
    return [
        Dispatch(
            key=("dispatch", str(wave), str(run.epoch)),
            wave=wave,
            mode="concurrent" if run.steps[steps[0].step_id].mode == "concurrent" else "serial",
            calls=tuple(_call(run, step) for step in steps),
            plan_digest=run.plan_digest,
        )
        for wave, steps in waves.items()
    ]


def _call(run: Run, step: Step) -> Call:
    contract = step.tool_contract
    state = run.steps[step.step_id]
    descriptor = run.descriptors[step.tool or ""]
    arguments = contract.arguments if state.template else refs.resolve(contract.arguments, Outputs(run))
    key = ""
    if descriptor.idempotency == "key":
        key = idempotency_key(
            run_id=run.run_id,
            tool=descriptor.full_name,
            resource=descriptor.resource,
            arguments=arguments_digest(arguments),
        )
    return Call(
        step_id=step.step_id,
        attempt=state.attempts,
        tool=descriptor.full_name,
        descriptor=contract.tool.descriptor if contract.tool else "",
        effect=descriptor.effect,
        arguments=arguments,
        template=state.template,
        template_digest=arguments_digest(contract.arguments),
        timeout_seconds=contract.timeout_seconds,
        idempotency_key=key,
    )


def _checks(run: Run) -> list[Order]:
    """A step that writes is next and its inputs are not checked."""
    if run.outstanding or (
        run.phase is Phase.READY and not run.approved and run.plan and gates.needs_plan_gate(run, run.plan)
    ):
        return []
    for level in run.levels:
        for step_id in level:
            if run.steps[step_id].status not in ("pending", "retrying"):
                continue
            step = run.step(step_id)
            names = unchecked(run, step) if not run.reads_only(step_id) else []
            return [CheckSteps(("check", *names), tuple(names))] if names else []
    return []


def _wakes(run: Run) -> list[Order]:
    return [
        Wake(("retry", step_id, str(state.attempts)), state.retry_at_ms)
        for step_id, state in run.steps.items()
        if state.status == "retrying"
    ]
