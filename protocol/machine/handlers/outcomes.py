"""Stimuli of work: what became of dispatched calls."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from typing import Any

from ...plan.plan import Step
from ...wire import canon
from ...wire.errors import PlanError, WireError
from ...wire.limits import LOST_PER_STEP_MAX, NOT_STARTED_WAIT_MS
from .. import calls, failures, gates, thinking
from ..events import Event, event
from ..outputs import read_output
from ..run import Outputs, Run
from ..stimuli import Resumed, StepOutcome, StepsReturned, Stimulus

# A host that did not take what the harness holds for an approval: a person looks again.
_REOPENING = ("approval.", "grant.args_mismatch")


def steps_returned(run: Run, stimulus: StepsReturned) -> list[Event]:
    """Every outcome is settled, siblings of a failure too; a late or repeated one is recorded and not applied."""
    # Told once: with the result that is waited for.
    told = any(_is_current(run, one) for one in stimulus.outcomes)
    events: list[Event] = thinking.called(stimulus.uses) if told else []
    # Outputs of this very message come first: a later call of a segment refers to them.
    known: MutableMapping[str, Any] = ChainMap({}, Outputs(run))  # type: ignore[arg-type]
    seen: set[str] = set()
    broken = any(one.outcome not in ("ok", "not_started") for one in stimulus.outcomes)
    for outcome in stimulus.outcomes:
        if outcome.step_id in seen or not _is_current(run, outcome):
            events.append(late(outcome))
            continue
        seen.add(outcome.step_id)
        events.append(_settled(run, outcome, known, broken, stimulus))
    return events


def settled(run: Run, stimulus: Resumed) -> tuple[list[Event], set[str]]:
    """What a host told a new harness of effects that were under way: the events of those that ended, and the steps that
    never began. Of any other nobody knows more than before."""
    events: list[Event] = []
    never_began: set[str] = set()
    known: MutableMapping[str, Any] = ChainMap({}, Outputs(run))  # type: ignore[arg-type]
    for outcome in stimulus.settled:
        if not _is_current(run, outcome):
            continue
        if outcome.outcome == "not_started":
            never_began.add(outcome.step_id)
        elif outcome.outcome != "lost":
            events.append(_settled(run, outcome, known, False, stimulus))
    return events, never_began


def _is_current(run: Run, outcome: StepOutcome) -> bool:
    state = run.steps.get(outcome.step_id)
    if state is None or run.phase.ended:
        return False
    return (state.status, state.attempts, state.wave) == ("started", outcome.attempt, outcome.wave)


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
        wave=outcome.wave,
        outcome=outcome.outcome,
        code=outcome.code,
    )


def _settled(
    run: Run, outcome: StepOutcome, known: MutableMapping[str, Any], broken: bool, stimulus: Stimulus
) -> Event:
    step = run.step(outcome.step_id)
    arguments, unmet = "", None
    try:
        arguments = calls.resolved_digest(run, step, known)
    except PlanError as error:
        unmet = error
    key = calls.key_of(step, arguments) if arguments else ""
    if outcome.outcome == "ok":
        problem = (unmet.code, unmet.message) if unmet else _problem(outcome, arguments, known)
        if problem is None:
            return _success(outcome, key)
        if not run.reads_only(step.step_id):
            return unknown(step, key)  # it happened, and not as it was ordered
        return _failed(step, outcome, problem[0], failures.destination(run, step), key, message=problem[1])
    if outcome.outcome in ("unknown", "lost") and not run.reads_only(step.step_id):
        descriptor = run.descriptors[step.tool or ""]
        if descriptor.idempotency != "none" and run.steps[step.step_id].lost < LOST_PER_STEP_MAX:
            return _failed(step, outcome, outcome.code or "tool.lost", "again", lost=True)
        return unknown(step, key, counts=True)
    return _failure(run, step, outcome, key, broken, known, stimulus)


def _problem(outcome: StepOutcome, arguments: str, known: MutableMapping[str, Any]) -> tuple[str, str] | None:
    """What keeps a result that came back from being one, as code and sentence."""
    if outcome.output is None:
        return "tool.no_output", "The host named no output."
    if outcome.arguments != arguments:
        return "receipt.args_mismatch", "The host ran other arguments."
    try:
        known[outcome.step_id] = read_output(outcome.output)
    except WireError as error:
        return error.code, error.message
    return None


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
        tokens=outcome.tokens,
        cost=outcome.cost,
        truncated=outcome.truncated,
        fingerprints=dict(outcome.fingerprints),
    )


def unknown(step: Step, key: str, *, counts: bool = False) -> Event:
    """Nobody can say whether a write happened. ``counts``: its tool was lost, which its breaker counts."""
    return event("step.outcome_unknown", step_id=step.step_id, key=key, counts=counts)


def _failure(
    run: Run,
    step: Step,
    outcome: StepOutcome,
    key: str,
    broken: bool,
    known: MutableMapping[str, Any],
    stimulus: Stimulus,
) -> Event:
    """Where a failed call leads: again (nobody's fault), back to its gate, a retry, or the step's destination."""
    state = run.steps[step.step_id]
    code, message = outcome.code or f"tool.{outcome.outcome}", outcome.message
    patient = state.lost < LOST_PER_STEP_MAX
    if outcome.outcome == "not_started" and (broken or patient):
        # Behind a sibling that failed it simply starts again; alone, the host would not take it, which is bounded.
        wait_ms = 0 if broken else NOT_STARTED_WAIT_MS << state.lost
        return _failed(
            step,
            outcome,
            code,
            "again",
            lost=not broken,
            not_started=True,
            retry_at_ms=stimulus.now_ms + wait_ms if wait_ms else 0,
        )
    if outcome.outcome == "lost" and patient:
        return _failed(step, outcome, code, "again", lost=True)
    if outcome.outcome == "error" and code.startswith(_REOPENING) and _has_gate(run, step):
        return _failed(step, outcome, code, "gate", message=message, not_started=True)
    if (
        code == "tool.bad_arguments"
        and run.reads_only(step.step_id)
        and thinking.wants_arguments(run, step, known)
    ):
        return _failed(step, outcome, code, "again", not_started=True)  # a model is asked for them first
    wait = retry_wait(run, step, outcome, stimulus.fresh)
    if wait is not None:
        return _failed(step, outcome, code, "retry", message=message, retry_at_ms=stimulus.now_ms + wait)
    key = key if outcome.outcome in ("error", "unknown") else ""
    gone = outcome.outcome == "lost"
    return _failed(step, outcome, code, failures.destination(run, step), key, message=message, lost=gone)


def retry_wait(run: Run, step: Step, outcome: StepOutcome, fresh: str) -> int | None:
    """Only what is transient is tried again, and only as often as the contract says."""
    if not outcome.transient:
        return None
    return failures.retry_wait_ms(step, run.steps[step.step_id].attempts, fresh)


def _has_gate(run: Run, step: Step) -> bool:
    return gates.acts(run, step) and (gates.gate_on(run) or gates.is_gated(run, step))


def _failed(
    step: Step,
    outcome: StepOutcome,
    code: str,
    then: str,
    key: str = "",
    *,
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
        denied=code.startswith(failures.DENIALS),
        rows=outcome.rows,
        tokens=outcome.tokens,
        cost=outcome.cost,
        retry_at_ms=retry_at_ms,
    )
