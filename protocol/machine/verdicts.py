"""From a verdict to a phase, as data. No path leads from anything but a passing verdict to COMPLETED."""

from __future__ import annotations

from ..authority.tiers import TIERS
from ..wire import canon
from ..wire.limits import REPLANS_VERIFICATION_MAX
from . import ends, shadow
from .events import Event, event
from .phases import Phase
from .run import GONE, Run

# (verdict, whether something is missing, whether the plan allows a partial result) -> phase; "replan" while tries are
# left, then FAILED.
# "unverified" is an inconclusive verdict that only lacks the critic's word.
AFTER_VERDICT: dict[tuple[str, bool, bool], Phase] = {
    ("pass", False, False): Phase.COMPLETED,
    ("pass", False, True): Phase.COMPLETED,
    ("pass", True, False): Phase.FAILED,
    ("pass", True, True): Phase.PARTIAL,
    ("fail", False, False): Phase.REPLAN_REQUIRED,
    ("fail", False, True): Phase.REPLAN_REQUIRED,
    ("fail", True, False): Phase.REPLAN_REQUIRED,
    ("fail", True, True): Phase.REPLAN_REQUIRED,
    ("inconclusive", False, False): Phase.FAILED,
    ("inconclusive", False, True): Phase.PARTIAL,
    ("inconclusive", True, False): Phase.FAILED,
    ("inconclusive", True, True): Phase.PARTIAL,
    ("unverified", False, False): Phase.PARTIAL,
    ("unverified", False, True): Phase.PARTIAL,
    ("unverified", True, False): Phase.FAILED,
    ("unverified", True, True): Phase.PARTIAL,
}


def asks_critic(run: Run) -> bool:
    """Whether the critic is asked: by the tier, where the package has one."""
    return run.has_critic and TIERS[run.mandate.tier].critic


def after_verdict(run: Run, outcome: str, reason: str) -> list[Event]:
    """The events that a verdict (or ``unverified``) leads to."""
    missing = any(state.status in GONE for state in run.steps.values())
    partial = run.plan is not None and run.plan.allow_partial
    phase = AFTER_VERDICT[outcome, missing, partial]
    if phase is Phase.REPLAN_REQUIRED:
        return failed_check(run, reason)
    if shadow.written(run):
        return [shadow.end(run)]
    if phase is Phase.COMPLETED:
        return [ends.end(phase, "verdict.pass", _passed(run))]
    code = "verdict.incomplete" if outcome == "pass" else f"verdict.{outcome}"
    return [ends.end(phase, code, reason or "Not everything could be verified.", next_owner="person")]


def _passed(run: Run) -> str:
    if TIERS[run.mandate.tier].critic and not run.has_critic:
        return "Every check passed. The tier asks a critic too, and this package has none."
    return "Every check passed."


def failed_check(run: Run, reason: str) -> list[Event]:
    """A failed check: one more plan within the bound, else the end."""
    if run.replans.get("failed_verification", 0) >= REPLANS_VERIFICATION_MAX:
        return [
            event("replan.refused", trigger="failed_verification", code="replan.bound"),
            ends.end(Phase.FAILED, "verdict.fail", reason or "A check failed.", next_owner="person"),
        ]
    said = f"A check failed: {reason.rstrip('.')}." if reason else "A check failed."
    return [
        event(
            "replan.triggered",
            {"message": canon.encode(said)},
            trigger="failed_verification",
            code="verdict.fail",
            plan=run.plan_digest,
        )
    ]
