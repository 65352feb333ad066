"""``pending(run) -> orders``: what is left to do in a state. A restart asks exactly this, and so does every decision."""

from __future__ import annotations

from collections.abc import Sequence

from ..authority.grant import arguments_digest, idempotency_key
from ..plan import policy, refs
from ..plan.cache_key import cache_key
from ..plan.plan import Step
from ..plan.request import Binding
from ..wire.limits import RUNS_PENDING_KEPT_MAX
from . import calls, direct, probing, verdicts
from .advance import unchecked, waits_for_plan_gate
from .effects import (
    Bind,
    Call,
    CheckSteps,
    Dispatch,
    Draft,
    FillArguments,
    Judge,
    JudgePolicy,
    LookUpPlan,
    Order,
    PrepareChecks,
    PrepareVerification,
    Probe,
    Reason,
    TakeTurn,
    Wake,
)
from .phases import Phase
from .run import Run


def pending(run: Run) -> Sequence[Order]:
    """Every order that this state calls for; each with a key that stays the same while it is the same order.

    A decision asks for the orders before and after it, so the state after one is asked about again before the next.
    """
    known = _last.get(run.run_id)
    if known is not None and known[0] is run:
        return known[1]
    orders = _orders(run)
    _last.pop(run.run_id, None)
    if not run.phase.ended:
        _last[run.run_id] = (run, orders)
        if len(_last) > RUNS_PENDING_KEPT_MAX:
            del _last[next(iter(_last))]
    return orders


_last: dict[str, tuple[Run, Sequence[Order]]] = {}


def _orders(run: Run) -> list[Order]:
    if run.phase.ended:
        return []
    if run.phase.waits:
        return _gate_end(run)
    if run.stalled:
        return []
    return [*_work(run), *_wall_end(run)]


def _work(run: Run) -> list[Order]:
    if run.thinking and run.thinking != "plan":
        return [_thought(run)]
    if run.phase is Phase.PLANNING:
        return _planning(run)
    if run.phase is Phase.REPLAN_REQUIRED:
        return [_draft(run)]
    if run.phase is Phase.VERIFYING:
        if run.verification == "judge":
            return [_judge(run)]
        return [PrepareVerification(("prepare", _version(run)))] if run.verification == "prepare" else []
    return [*_dispatches(run), *_checks(run), *_elsewhere(run), *_wakes(run)]


def _judge(run: Run) -> Judge:
    return Judge(
        ("judge", _version(run), str(len(run.reads))),
        list(run.reads),
        critic=verdicts.asks_critic(run),
        rows_max=_rows_each(run),
        tokens_max=run.held.get("model_tokens", 0),
    )


def _rows_each(run: Run) -> int:
    """What each of the verifier's reads may scan; 0 without a limit."""
    return run.held.get("rows_scanned", 0) // max(1, len(run.reads))


def _planning(run: Run) -> list[Order]:
    if run.route == "direct":
        return []
    if run.binding is None:
        return [Bind(("bind", str(run.amended), str(run.answered)), run.answers)]
    if run.cache == "asked":
        key = cache_key(run.agent, run.request)
        return [LookUpPlan(("look_up", key, str(run.amended), str(run.answered)), key, run.binding)]
    return [_draft(run)]


def _thought(run: Run) -> Order:
    """What a model is asked for, beside plans and reason steps."""
    purpose, _, step_id = run.thinking.partition(":")
    tokens_max = run.held.get("model_tokens", 0)
    if purpose == "direct":
        key = ("turn", str(len(run.turns)), str(run.amended), str(run.epoch))
        return TakeTurn(key, direct.is_last(run), tokens_max)
    state = run.steps[step_id]
    about = ("fill", _version(run), step_id, str(state.attempts), str(run.epoch))
    return FillArguments(about, step_id, calls.inputs_of(run, run.step(step_id)), tokens_max)


def _draft(run: Run) -> Draft:
    version = next_version(run)
    counts = (run.amended, run.answered, run.drafts, len(run.guidance))
    return Draft(
        key=("draft", str(version), run.thinking, *map(str, counts)),
        mode="constrained" if run.route == "constrained" else "orchestrated",
        binding=run.binding or Binding(),
        plan_id=f"p-{run.run_id}",
        version=version,
        replan=sum(run.replans.values()),
        reason=run.replan_reason,
        exclude=run.used_playbooks if run.plan is not None else (),
        guidance=run.guidance,
        left={name: left for name in run.budget.limits if (left := run.budget.left(name)) is not None},
        model=run.thinking == "plan",
        tokens_max=run.held.get("model_tokens", 0) if run.thinking == "plan" else 0,
    )


def _version(run: Run) -> str:
    """What tells the orders for one plan of a run from those for the next."""
    return str(run.plan.version) if run.plan else "0"


def next_version(run: Run) -> int:
    """The version that the next plan of a run has."""
    return (run.plan.version if run.plan else 0) + 1


def _gate_end(run: Run) -> list[Order]:
    ttl = run.mandate.gate_ttl_seconds
    if ttl is None or run.gate is None:
        return []
    return [Wake(("gate_ttl", run.gate.gate_id), run.gate.asked_ms + ttl * 1000)]


def _wall_end(run: Run) -> list[Order]:
    if not run.active_until_ms:
        return []
    return [Wake(("wall", str(run.active_until_ms)), run.active_until_ms)]


def _dispatches(run: Run) -> list[Order]:
    waves: dict[int, list[Step]] = {}
    thoughts: list[Order] = []
    for level in run.levels:
        for step_id in level:
            if run.steps[step_id].status != "started":
                continue
            if run.steps[step_id].mode == "reason":
                thoughts.append(_reason(run, run.step(step_id)))
            else:
                waves.setdefault(run.steps[step_id].wave, []).append(run.step(step_id))
    return thoughts + [
        Dispatch(
            key=("dispatch", str(wave), str(run.epoch)),
            wave=wave,
            mode="concurrent" if run.steps[steps[0].step_id].mode == "concurrent" else "serial",
            calls=tuple(_call(run, step) for step in steps),
            plan_digest=run.plan_digest,
        )
        for wave, steps in waves.items()
    ]


def _reason(run: Run, step: Step) -> Reason:
    state = run.steps[step.step_id]
    return Reason(
        key=("reason", step.step_id, str(state.wave), str(run.epoch)),
        step_id=step.step_id,
        attempt=state.attempts,
        wave=state.wave,
        inputs=calls.inputs_of(run, step),
        tokens_max=state.tokens_max,
    )


def _call(run: Run, step: Step) -> Call:
    """One call. Only references to steps of the same dispatch stay in its arguments: a host knows no other outputs."""
    contract = step.tool_contract
    state = run.steps[step.step_id]
    descriptor = run.descriptors[step.tool or ""]
    here = [name for name in refs.steps_of(contract.arguments) if run.steps[name].wave == state.wave]
    arguments = calls.resolved(run, step, keep=here)
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
        rows_max=state.rows_max,
    )


def _elsewhere(run: Run) -> list[Order]:
    """A probe of a write whose outcome is unknown, or expressions of the policy."""
    if not run.asking:
        return []
    step = run.step(run.asking)
    if run.steps[step.step_id].probe == "asked":
        return [_probe(run, step)]
    facts = policy.facts_of(run.descriptors[step.tool or ""], calls.resolved(run, step))
    expressions = run.policy.expressions(step.tool or "")
    return [JudgePolicy(("policy", _version(run), step.step_id), step.step_id, expressions, facts)]


def _probe(run: Run, step: Step) -> Probe:
    """The probe's call, with the write's own arguments."""
    state = run.steps[step.step_id]
    probe = probing.probe_of(run, step)
    if probe is None:
        raise KeyError(f"probe of {step.tool}")
    arguments = calls.resolved(run, step)
    call = Call(
        step_id=step.step_id,
        attempt=state.attempts,
        tool=probe.full_name,
        descriptor=probe.digest(),
        effect="read",
        arguments=arguments,
        template=False,
        template_digest=arguments_digest(arguments),
        timeout_seconds=probe.timeout_seconds,
        idempotency_key="",
        rows_max=run.held.get("rows_scanned", 0),
    )
    return Probe(("probe", step.step_id, str(state.attempts), str(state.probes)), step.step_id, call)


def _checks(run: Run) -> list[Order]:
    """A step that writes is next and its inputs are not checked: the reads for it first, then the checks."""
    if run.outstanding or run.asking or waits_for_plan_gate(run):
        return []
    for level in run.levels:
        for step_id in level:
            if run.steps[step_id].status not in ("pending", "retrying"):
                continue
            names = tuple(unchecked(run, run.step(step_id)))
            if names and run.checking:
                key = ("check", _version(run), *names)
                return [CheckSteps(key, names, list(run.reads), _rows_each(run))]
            return [PrepareChecks(("prepare_checks", _version(run), *names), names)] if names else []
    return []


def _wakes(run: Run) -> list[Order]:
    return [
        Wake(("retry", step_id, str(state.wave)), state.retry_at_ms)
        for step_id, state in run.steps.items()
        if state.status == "retrying"
    ]
