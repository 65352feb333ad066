"""Steps: started, returned, reused, skipped, checked; and the reservation that each start holds."""

from __future__ import annotations

from typing import Any

from ..budget import Budget
from ..events import Event
from ..phases import Phase
from ..run import Run, StepState, changed

# What one call reserves, and spends once it ran.
CALL = {"steps": 1, "tool_calls": 1}


def with_step(run: Run, step_id: str, **changes: Any) -> Run:
    """The run with one step changed."""
    return changed(run, steps=_with(run, step_id, changes))


def _with(run: Run, step_id: str, changes: dict[str, Any]) -> dict[str, StepState]:
    return {**run.steps, step_id: changed(run.steps[step_id], **changes)}


def _settled(run: Run, step_id: str, spent: dict[str, int]) -> Budget:
    """A step holds a reservation exactly while it is started: one that could not start never made one."""
    return run.budget.settle(CALL, spent) if run.steps[step_id].status == "started" else run.budget


def step_started(run: Run, event: Event) -> Run:
    facts = event.facts
    started = {
        "status": "started",
        "attempts": facts["attempt"],
        "wave": facts["wave"],
        "mode": facts["mode"],
        "template": facts["template"],
        "retry_at_ms": 0,
        "code": "",
        "then": "",
        "granted_ms": facts["at_ms"],
        "key": "",
        "checked": "",
    }
    steps = _with(run, facts["step_id"], started)
    return changed(run, steps=steps, phase=Phase.RUNNING, waves=max(run.waves, facts["wave"]))


def step_succeeded(run: Run, event: Event) -> Run:
    facts = event.facts
    step_id = facts["step_id"]
    succeeded = {
        "status": "succeeded",
        "output": event.artifacts.get("output", ""),
        "receipt": event.artifacts.get("receipt", ""),
        "key": facts["key"],
        "fingerprints": facts["fingerprints"],
        "started_ms": facts["started_ms"],
        "ended_ms": facts["ended_ms"],
        "node": facts["node"],
    }
    return changed(
        run,
        steps=_with(run, step_id, succeeded),
        outputs={**run.outputs, step_id: event.attached["output"]},
        budget=_settled(run, step_id, {**CALL, "rows_scanned": facts["rows"]}),
    )


# ``then`` of a failure -> status of the step. What leads to a person, another plan or the end stays "failed".
_AFTER_FAILURE = {"retry": "retrying", "again": "pending", "gate": "pending", "degrade": "degraded"}


def step_failed(run: Run, event: Event) -> Run:
    facts = event.facts
    step_id, then = facts["step_id"], facts["then"]
    state = run.steps[step_id]
    budget = _settled(run, step_id, {} if facts["not_started"] else CALL)
    started_again = then in ("again", "gate") and state.status == "started"
    waits = then == "again" and facts.get("retry_at_ms", 0) > 0
    run = with_step(
        run,
        step_id,
        status="retrying" if waits else _AFTER_FAILURE.get(then, "failed"),
        code=facts["code"],
        then=then,
        key=facts["key"],
        retry_at_ms=facts.get("retry_at_ms", 0),
        lost=state.lost + (1 if facts["lost"] else 0),
        attempts=state.attempts - 1 if started_again else state.attempts,
    )
    if then == "gate":
        # A host did not take the approval: it is void, and a person looks again.
        valid = tuple(given for given in run.approvals if step_id not in given.approval.steps)
        run = changed(run, approvals=valid)
    return changed(run, budget=budget)


def step_reused(run: Run, event: Event) -> Run:
    step_id, key = event.facts["step_id"], event.facts["key"]
    kept = run.kept[key]
    run = with_step(
        run,
        step_id,
        status="reused",
        output=kept.artifact,
        receipt=kept.receipt,
        key=key,
        fingerprints=kept.fingerprints,
    )
    return changed(run, outputs={**run.outputs, step_id: kept.output})


def step_skipped(run: Run, event: Event) -> Run:
    return with_step(run, event.facts["step_id"], status="skipped", code=event.facts["code"])


def step_checked(run: Run, event: Event) -> Run:
    return with_step(run, event.facts["step_id"], checked=event.facts["outcome"])


def outcome_unknown(run: Run, event: Event) -> Run:
    step_id = event.facts["step_id"]
    budget = _settled(run, step_id, CALL)
    run = with_step(run, step_id, status="unknown", code="step.outcome_unknown", key=event.facts["key"])
    return changed(run, budget=budget)
