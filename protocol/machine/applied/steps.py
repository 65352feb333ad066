"""Steps: started, returned, reused, skipped, checked; and the reservation that each start holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..budget import Budget
from ..events import Event
from ..phases import Phase
from ..run import Run, StepState, changed
from .attached import value_of

# What every call reserves, and spends once it ran; a read reserves the rows that it may scan too, where they are limited.
CALL = {"steps": 1, "tool_calls": 1}


def held(state: StepState) -> dict[str, int]:
    """What a started step has reserved."""
    if state.mode == "reason":
        return {"steps": 1, "model_tokens": state.tokens_max}
    return {**CALL, "rows_scanned": state.rows_max} if state.rows_max else CALL


def with_step(run: Run, step_id: str, **changes: Any) -> Run:
    """The run with one step changed."""
    return changed(run, steps=_with(run, step_id, changes))


def _with(run: Run, step_id: str, changes: dict[str, Any]) -> dict[str, StepState]:
    return {**run.steps, step_id: changed(run.steps[step_id], **changes)}


def _settled(run: Run, step_id: str, spent: dict[str, int]) -> Budget:
    """A step holds a reservation exactly while it is started: one that could not start never made one."""
    state = run.steps[step_id]
    return run.budget.settle(held(state), spent) if state.status == "started" else run.budget


def _used(state: StepState, facts: Mapping[str, Any]) -> dict[str, int]:
    """What a call took, by budget. What a model did is no tool call."""
    metered = {"rows_scanned": facts["rows"], "model_tokens": facts["tokens"], "cost": facts["cost"]}
    call = {"steps": 1} if state.mode == "reason" else CALL
    return {**call, **{name: amount for name, amount in metered.items() if amount > 0}}


def step_started(run: Run, event: Event) -> Run:
    facts = event.facts
    started = {
        "status": "started",
        "attempts": facts["attempt"],
        "wave": facts["wave"],
        "mode": facts["mode"],
        "template": facts["template"],
        "retry_at_ms": 0,
        "rows_max": facts["rows_max"],
        "tokens_max": facts.get("tokens_max", 0),
        "granted_ms": facts["at_ms"],
        "code": "",
        "message": "",
        "probe": "",
        "then": "",
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
        "code": "",
    }
    return changed(
        run,
        steps=_with(run, step_id, succeeded),
        outputs={**run.outputs, step_id: event.attached["output"]},
        budget=_settled(run, step_id, _used(run.steps[step_id], facts)),
        breakers=_breakers(run, step_id, failed=False),
    )


# ``then`` of a failure -> status of the step. What leads to a person, another plan or the end stays "failed".
_AFTER_FAILURE = {"retry": "retrying", "again": "pending", "gate": "pending", "degrade": "degraded"}


def step_failed(run: Run, event: Event) -> Run:
    facts = event.facts
    step_id, then = facts["step_id"], facts["then"]
    state = run.steps[step_id]
    budget = _settled(run, step_id, {} if facts["not_started"] else _used(state, facts))
    if "wave" in facts and (facts["lost"] or not facts["not_started"]):
        run = changed(run, breakers=_breakers(run, step_id, failed=facts["transient"] or facts["lost"]))
    started_again = then in ("again", "gate") and state.status == "started"
    waits = then == "again" and facts.get("retry_at_ms", 0) > 0
    run = with_step(
        run,
        step_id,
        status="retrying" if waits else _AFTER_FAILURE.get(then, "failed"),
        code=facts["code"],
        message=value_of(event, "message") if "message" in event.attached else "",
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
    if facts.get("denied"):
        run = changed(run, denied=run.denied | {denial(run, step_id)})
    return changed(run, budget=budget)


def denial(run: Run, step_id: str) -> tuple[str, str, str]:
    """Tool, effect class and resource of a step that was denied."""
    tool = run.step(step_id).tool or ""
    descriptor = run.descriptors[tool]
    return tool, descriptor.effect, descriptor.resource


def _breakers(run: Run, step_id: str, *, failed: bool) -> Mapping[str, int]:
    """The breakers of tools: transient failures and losses in a row; anything else begins anew."""
    tool = run.step(step_id).tool or ""
    if failed:
        return {**run.breakers, tool: run.breakers.get(tool, 0) + 1}
    if tool not in run.breakers:
        return run.breakers
    return {name: count for name, count in run.breakers.items() if name != tool}


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


def step_shadowed(run: Run, event: Event) -> Run:
    """What would have happened, and did not."""
    run = with_step(run, event.facts["step_id"], status="shadowed", code="step.shadowed")
    return changed(run, phase=Phase.RUNNING)


def step_probed(run: Run, event: Event) -> Run:
    """A probe's answer. What it found to have happened is a success of its own; what did not happen runs again."""
    facts = event.facts
    step_id, outcome = facts["step_id"], facts["outcome"]
    spent = {"tool_calls": 1, **({"rows_scanned": facts["rows"]} if facts["rows"] > 0 else {})}
    run = changed(run, budget=run.budget.settle(run.held, spent), held={}, asking="")
    if outcome == "did_not_happen":
        return with_step(run, step_id, status="pending", code="", probe="")
    return with_step(run, step_id, probe="done")


def policy_asked(run: Run, event: Event) -> Run:
    step_id = event.facts["step_id"]
    return changed(run, steps=_with(run, step_id, {"policy": "asked"}), asking=step_id)


def policy_judged(run: Run, event: Event) -> Run:
    said = {"policy": "gated" if event.facts["gated"] else "free"}
    return changed(run, steps=_with(run, event.facts["step_id"], said), asking="")


def step_checked(run: Run, event: Event) -> Run:
    return with_step(run, event.facts["step_id"], checked=event.facts["outcome"])


def outcome_unknown(run: Run, event: Event) -> Run:
    step_id = event.facts["step_id"]
    budget = _settled(run, step_id, held(run.steps[step_id]))
    if event.facts["counts"]:
        run = changed(run, breakers=_breakers(run, step_id, failed=True))
    run = with_step(run, step_id, status="unknown", code="step.outcome_unknown", key=event.facts["key"])
    return changed(run, budget=budget)
