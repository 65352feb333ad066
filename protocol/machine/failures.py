"""Where a failed step leads: a retry, its contract's destination, another plan, a person, the end."""

from __future__ import annotations

from ..plan.plan import Retry, Step
from ..wire import canon
from ..wire.errors import PlanError
from ..wire.limits import ATTEMPTS_PER_STEP_MAX, BREAKER_FAILURES, REPLANS_STEP_FAILURE_MAX
from . import ends, probing
from .events import Event, event
from .run import Run

# Codes with which a host or a policy says no to what a step does: the same effect by another tool is no way around it.
DENIALS = ("grant.effect", "mandate.", "policy.", "tool.not_allowed", "tool.denied")


# What a step failed with -> why another plan is needed (DESIGN 11). All of these share one bound.
MISSING_SOURCE = ("tool.source_missing", "tool.source_damaged", "tool.source_changed")
NEW_DEPENDENCY = ("plan.reference_unresolved", "plan.arguments")  # it needs what no step of this plan gives
STEP_TRIGGERS = ("step_failure", "missing_source", "new_dependency")


def trigger_of(code: str) -> str:
    """The trigger of the replan that a step's failure leads to."""
    if code in MISSING_SOURCE:
        return "missing_source"
    return "new_dependency" if code in NEW_DEPENDENCY else "step_failure"


def destination(run: Run, step: Step) -> str:
    """The first destination of a step's contract that is still open, ``fail`` where there is none.

    Another plan is closed once the bound on replans is reached; then the next destination counts.
    """
    for one in step.on_failure:
        if one.do == "retry" or (one.do == "replan" and not may_replan(run)):
            continue
        return one.do
    return "replan" if any(one.do == "replan" for one in step.on_failure) else "fail"


def may_replan(run: Run) -> bool:
    """Whether a step's failure may lead to another plan."""
    return sum(run.replans.get(trigger, 0) for trigger in STEP_TRIGGERS) < REPLANS_STEP_FAILURE_MAX


def breaker_open(run: Run, tool: str) -> bool:
    """Whether a tool (empty: the model of reason steps) failed too often in a row to be called again."""
    return run.breakers.get(tool, 0) >= BREAKER_FAILURES


def retry_wait_ms(step: Step, attempts: int, fresh: str) -> int | None:
    """How long to wait before the next attempt: exponential, up to a quarter more by chance; ``None`` for no attempt."""
    retries = [one for one in step.on_failure if isinstance(one, Retry)]
    allowed = min(1 + sum(one.attempts for one in retries), ATTEMPTS_PER_STEP_MAX)
    if attempts >= allowed:
        return None
    backoff_ms = retries[0].backoff_ms << (attempts - 1)
    return backoff_ms + backoff_ms * (int(fresh[:8], 16) % 256) // 1024


def cannot_start(run: Run, step: Step, error: PlanError, then: str = "") -> Event:
    """A step whose call could not even be made: nothing was reserved, nothing ran. ``then`` instead of its destination."""
    return event(
        "step.failed",
        {"message": canon.encode(error.message)},
        step_id=step.step_id,
        attempt=run.steps[step.step_id].attempts + 1,
        code=error.code,
        then=then or destination(run, step),
        key="",
        lost=False,
        not_started=True,
        transient=False,
        rows=0,
        tokens=0,
        cost=0,
    )


def follow(run: Run) -> list[Event]:
    """What failed and unknown steps lead to, once nothing of their level is outstanding."""
    for step_id, state in run.steps.items():
        if state.status == "unknown":
            return probing.ask(run, step_id) or [ends.ask_outcome(run, step_id)]
        if state.status != "failed":
            continue
        if state.then == "replan":
            return _replan(run, step_id)
        if state.then in ("clarify", "escalate"):
            return [ends.ask_about_failure(run, step_id)]
        return ends.stop(run, f"step.failed:{state.code}", sentence(run, step_id))
    return []


def ask_unknown(run: Run) -> list[Event]:
    """The question about a write of which nobody knows whether it happened: before any end, since waiting costs nothing."""
    for step_id, state in run.steps.items():
        if state.status == "unknown":
            return [ends.ask_outcome(run, step_id)]
    return []


def sentence(run: Run, step_id: str) -> str:
    """What a step failed with, by code and in the tool's words."""
    state = run.steps[step_id]
    said = f": {state.message.rstrip('.')}." if state.message else "."
    return f"Step {step_id} failed with {state.code}{said}"


def _replan(run: Run, step_id: str) -> list[Event]:
    said = sentence(run, step_id)
    code = run.steps[step_id].code
    if not may_replan(run):
        return [
            event("replan.refused", trigger=trigger_of(code), code="replan.bound"),
            *ends.stop(
                run, "replan.bound", f"{said} The steps of this run failed too often for another plan."
            ),
        ]
    return [
        event(
            "replan.triggered",
            {"message": canon.encode(said)},
            trigger=trigger_of(code),
            code=code,
            plan=run.plan_digest,
        )
    ]
