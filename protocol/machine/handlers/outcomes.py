"""Stimuli of work: step outcomes, checks, judgements, time, a restart."""

from __future__ import annotations

from ...authority.grant import arguments_digest
from ...plan import refs
from ...plan.plan import Retry, Step
from ...wire import canon
from ...wire.errors import PlanError
from ...wire.limits import LOST_PER_STEP_MAX
from .. import ends, verdicts
from ..advance import step_key
from ..events import Event, event
from ..phases import Phase
from ..run import Outputs, Run
from ..stimuli import (
    ChecksReturned,
    Judged,
    ReadsWanted,
    Resumed,
    StepOutcome,
    StepsReturned,
    TimePassed,
    VerifierLost,
)


def steps_returned(run: Run, stimulus: StepsReturned) -> list[Event]:
    """Every outcome is settled, successes first kept; a late one is recorded and not applied."""
    events: list[Event] = []
    outputs = dict(Outputs(run).items()) if _has_templates(run) else {}
    for outcome in stimulus.outcomes:
        state = run.steps.get(outcome.step_id)
        current = state is not None and (state.status, state.attempts, state.wave) == (
            "started",
            outcome.attempt,
            outcome.wave,
        )
        if not current or run.phase.ended:
            events.append(late(outcome))
            continue
        events.append(_settled(run, outcome, outputs, stimulus.now_ms))
    return events


def _has_templates(run: Run) -> bool:
    return any(state.template and state.status == "started" for state in run.steps.values())


def late(outcome: StepOutcome) -> Event:
    """A result that nobody waits for any more."""
    attached = {
        name: data for name, data in (("output", outcome.output), ("receipt", outcome.receipt)) if data
    }
    return event(
        "step.late_result",
        attached,
        step_id=outcome.step_id,
        attempt=outcome.attempt,
        outcome=outcome.outcome,
        code=outcome.code,
    )


def _settled(run: Run, outcome: StepOutcome, outputs: dict[str, object], now_ms: int) -> Event:
    step = run.step(outcome.step_id)
    if outcome.outcome == "ok" and outcome.output is not None:
        arguments = step.tool_contract.arguments
        if any(True for _ in refs.find(arguments)):
            try:
                arguments = refs.resolve(arguments, outputs or Outputs(run))
            except PlanError as error:
                return _failure(run, step, outcome, error.code, error.message, now_ms)
        if outcome.arguments != arguments_digest(arguments):
            return _failure(
                run, step, outcome, "receipt.args_mismatch", "The host ran other arguments.", now_ms
            )
        if outputs or _has_templates(run):
            outputs[step.step_id] = canon.decode(outcome.output, bytes_max=len(outcome.output))
        return _success(outcome, step_key(step, arguments))
    if outcome.outcome in ("unknown", "lost") and not run.reads_only(step.step_id):
        return _unknown(run, step, outcome)
    return _failure(run, step, outcome, outcome.code, outcome.message, now_ms)


def _success(outcome: StepOutcome, key: str) -> Event:
    return event(
        "step.succeeded",
        {"output": outcome.output or b"", "receipt": outcome.receipt or b""},
        step_id=outcome.step_id,
        attempt=outcome.attempt,
        wave=outcome.wave,
        key=key,
        host=outcome.host,
        node=outcome.node,
        started_ms=outcome.started_ms,
        ended_ms=outcome.ended_ms,
        duration_us=outcome.duration_us,
        rows=outcome.rows,
        truncated=outcome.truncated,
        fingerprints=dict(outcome.fingerprints),
    )


def _unknown(run: Run, step: Step, outcome: StepOutcome) -> Event:
    """A write that was cut off. With an idempotency key, or naturally idempotent, it may run again; else a person says."""
    descriptor = run.descriptors[step.tool or ""]
    if descriptor.idempotency != "none" and run.steps[step.step_id].lost < LOST_PER_STEP_MAX:
        return _failed(step, outcome, code=outcome.code or "tool.lost", then="again", key="", lost=True)
    return event("step.outcome_unknown", step_id=step.step_id, key="", settled=False)


def _failure(run: Run, step: Step, outcome: StepOutcome, code: str, message: str, now_ms: int) -> Event:
    """Where a failed call leads: again (nobody's fault), a retry, or the step's destination."""
    state = run.steps[step.step_id]
    if outcome.outcome == "not_started":
        return _failed(step, outcome, code=code, then="again", key="", lost=False, not_started=True)
    if outcome.outcome == "lost" and state.lost < LOST_PER_STEP_MAX:
        return _failed(step, outcome, code=code or "tool.lost", then="again", key="", lost=True)
    retries = [one for one in step.on_failure if isinstance(one, Retry)]
    allowed = sum(one.attempts for one in retries)
    if outcome.transient and state.attempts <= allowed:
        wait = retries[0].backoff_ms * 2 ** (state.attempts - 1)
        return _failed(
            step, outcome, code=code, then="retry", key="", retry_at_ms=now_ms + wait, message=message
        )
    then = next((one.do for one in step.on_failure if one.do != "retry"), "fail")
    key = ""
    if not outcome.transient and not any(True for _ in refs.find(step.tool_contract.arguments)):
        key = step_key(step, step.tool_contract.arguments)
    return _failed(step, outcome, code=code, then=then, key=key, message=message)


def _failed(
    step: Step,
    outcome: StepOutcome,
    *,
    code: str,
    then: str,
    key: str,
    lost: bool = False,
    not_started: bool = False,
    retry_at_ms: int = 0,
    message: str = "",
) -> Event:
    attached = {"message": canon.encode(message)} if message else {}
    if outcome.receipt:
        attached["receipt"] = outcome.receipt
    return event(
        "step.failed",
        attached,
        step_id=step.step_id,
        attempt=outcome.attempt,
        wave=outcome.wave,
        code=code,
        transient=outcome.transient,
        then=then,
        key=key,
        lost=lost,
        not_started=not_started,
        retry_at_ms=retry_at_ms,
    )


def checks_returned(run: Run, stimulus: ChecksReturned) -> list[Event]:
    """Checks of single outputs before something writes; a failed one leads where a failed verdict leads."""
    events = _checked(run, stimulus.checks)
    bad = [check for check in stimulus.checks if check["outcome"] == "fail"]
    if bad:
        events += verdicts.failed_check(run, f"{bad[0]['check_id']}: {bad[0]['reason']}")
    return events


def _checked(run: Run, checks: list[dict[str, object]]) -> list[Event]:
    """One event a step: ``fail`` outweighs ``not_run`` outweighs ``pass``."""
    found: dict[str, list[dict[str, object]]] = {}
    for check in checks:
        if check.get("step_id") in run.steps:
            found.setdefault(str(check["step_id"]), []).append(check)
    events = []
    for step_id, ones in found.items():
        outcomes = [str(one["outcome"]) for one in ones]
        outcome = next(word for word in ("fail", "not_run", "pass") if word in outcomes)
        attached = {"checks": canon.encode(ones)}
        events.append(event("step.checked", attached, step_id=step_id, outcome=outcome, checks=len(ones)))
    return events


def reads_wanted(run: Run, stimulus: ReadsWanted) -> list[Event]:
    """The verifier's reads are reserved like any other call; without room for them nothing is verified."""
    count = len(stimulus.reads)
    if run.budget.fits("tool_calls", count) < count:
        return ends.exhausted(run, "tool_calls")
    return [
        event(
            "budget.reserved",
            {"reads": canon.encode(stimulus.reads)},
            purpose="verification",
            wave=0,
            amounts={"tool_calls": count} if count else {},
        )
    ]


def judged(run: Run, stimulus: Judged) -> list[Event]:
    """The verdict, and what it leads to. A model's word is one of the checks and never more."""
    reached = event(
        "verdict.reached",
        {"checks": canon.encode(stimulus.checks), "reason": canon.encode(stimulus.reason)},
        outcome=stimulus.outcome,
        passed=sum(check["outcome"] == "pass" for check in stimulus.checks),
        failed=sum(check["outcome"] == "fail" for check in stimulus.checks),
        not_run=sum(check["outcome"] == "not_run" for check in stimulus.checks),
        tool_calls=len(run.reads),
    )
    return [
        *_checked(run, stimulus.checks),
        reached,
        *verdicts.after_verdict(run, stimulus.outcome, stimulus.reason),
    ]


def verifier_lost(run: Run, stimulus: VerifierLost) -> list[Event]:
    """Nobody could verify: never a pass."""
    check = {
        "check_id": "verifier",
        "kind": "recompute",
        "step_id": "",
        "outcome": "not_run",
        "reason": f"{stimulus.error.code}: {stimulus.error.message}",
    }
    reached = event(
        "verdict.reached",
        {"checks": canon.encode([check]), "reason": canon.encode(stimulus.error.message)},
        outcome="inconclusive",
        passed=0,
        failed=0,
        not_run=1,
        tool_calls=len(run.reads),
    )
    return [reached, *verdicts.after_verdict(run, "inconclusive", str(check["reason"]))]


def resumed(run: Run, stimulus: Resumed) -> list[Event]:
    """A new harness goes on. Started reads run again; a write that was under way is idempotent, or unknown."""
    again = []
    unknown = []
    for name in run.outstanding:
        descriptor = run.descriptors.get(run.step(name).tool or "")
        if run.reads_only(name) or (descriptor is not None and descriptor.idempotency != "none"):
            again.append(name)
        else:
            unknown.append(event("step.outcome_unknown", step_id=name, key="", settled=True))
    return [
        event(
            "run.resumed", epoch=stimulus.epoch, again=again, changed=stimulus.changed, at_ms=stimulus.now_ms
        ),
        *unknown,
    ]


def time_passed(run: Run, stimulus: TimePassed) -> list[Event]:
    """A retry that is due follows by itself; an expired gate and a spent clock end the run."""
    ttl = run.mandate.gate_ttl_seconds
    if run.phase is Phase.WAITING_APPROVAL and ttl is not None and run.gate is not None:
        if stimulus.now_ms >= run.gate.asked_ms + ttl * 1000:
            return [ends.end(Phase.FAILED, "gate.timeout", "Nobody decided in time.", next_owner="person")]
        return []
    if run.budget.out_of_time and not run.phase.ended and not run.phase.waits:
        return ends.exhausted(run, "wall_seconds")
    return []
