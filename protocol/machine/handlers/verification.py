"""Stimuli of the verifier: checks of single outputs, the reads it wants, its judgement, its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...judgement.checks import Check
from ...judgement.verdict import Verdict, judge
from ...wire import canon
from ...wire.errors import RunError
from .. import ends, verdicts
from ..events import Event, event
from ..run import DONE, Run
from ..stimuli import ChecksReturned, Judged, ReadsWanted, Stimulus, VerifierLost

_RANK: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


def checks_returned(run: Run, stimulus: ChecksReturned) -> list[Event]:
    """Checks of single outputs before something that writes; only what was checked and passed lets it go on.

    A failed one leads where a failed verdict leads. One that could not run (independent recomputation aside, which
    comes at the end) stops the run: nothing is written on the ground of what nobody looked at.
    """
    checks = _read(stimulus.checks)
    asked = {name for name, state in run.steps.items() if state.status in DONE and not state.checked}
    events, outcomes = _checked(run, [check for check in checks if check.step_id in asked])
    bad = next((check for check in checks if check.outcome == "fail"), None)
    if bad is not None:
        return [*events, *verdicts.failed_check(run, f"{bad.check_id}: {bad.reason}")]
    open_check = next((one for one in checks if _holds_up(one)), None)
    if open_check is not None:
        text = f"{open_check.check_id} could not run: {open_check.reason}"
        return [*events, *ends.stop(run, "verdict.inconclusive", text)]
    if not outcomes:
        return ends.stop(
            run, "verdict.inconclusive", "The verifier checked none of the outputs it was asked about."
        )
    return events


def _holds_up(check: Check) -> bool:
    return check.outcome == "not_run" and check.mandatory and check.kind in ("schema", "rule")


def _read(checks: Sequence[dict[str, Any]]) -> list[Check]:
    return [Check.from_data(check, error=RunError, code="run.bad_check", what="A check") for check in checks]


def _checked(run: Run, checks: Sequence[Check]) -> tuple[list[Event], dict[str, str]]:
    """One event a step, and each step's outcome: ``fail`` outweighs a mandatory ``not_run`` outweighs ``pass``."""
    found: dict[str, list[Check]] = {}
    for check in checks:
        if check.step_id in run.steps:
            found.setdefault(check.step_id, []).append(check)
    events = []
    outcomes = {}
    for step_id, ones in found.items():
        outcomes[step_id] = _worst(ones)
        attached = {"checks": canon.encode([one.to_data() for one in ones])}
        events.append(
            event("step.checked", attached, step_id=step_id, outcome=outcomes[step_id], checks=len(ones))
        )
    return events, outcomes


def _worst(checks: Sequence[Check]) -> str:
    if any(check.outcome == "fail" for check in checks):
        return "fail"
    if any(check.outcome == "not_run" and check.mandatory for check in checks):
        return "not_run"
    return "pass" if any(check.outcome == "pass" for check in checks) else "not_run"


def reads_wanted(run: Run, stimulus: ReadsWanted) -> list[Event]:
    """The verifier's reads are reserved like any other call; without room for them nothing is verified."""
    if run.verification != "prepare":
        raise RunError(
            "run.not_waiting_for_that", f"Run {run.run_id} does not wait for the verifier's reads."
        )
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
    """The verdict, and what it leads to. A model's word is one of the checks and never more.

    The verdict is never better than its checks, and a result that nobody checked is not verified.
    """
    if run.verification != "judge":
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} does not wait for a judgement.")
    checks = _read(stimulus.checks)
    outcome, reason = _lowest(run, stimulus, checks)
    events, _ = _checked(run, checks)
    events.append(_reached(run, outcome, reason, checks))
    if time_is_up(run, stimulus):
        return [*events, *ends.exhausted(run, "wall_seconds")]
    return [*events, *verdicts.after_verdict(run, outcome, reason)]


def time_is_up(run: Run, stimulus: Stimulus) -> bool:
    """Whether the active time is spent now, that since the last event included."""
    left = run.budget.wall_ms_left
    return left is not None and left <= stimulus.elapsed_ms


def _lowest(run: Run, stimulus: Judged, checks: Sequence[Check]) -> tuple[Verdict, str]:
    own, why = judge(checks)
    outcome, reason = (stimulus.outcome, stimulus.reason)
    if _RANK[own] > _RANK[outcome]:
        outcome, reason = own, why
    checked = {check.step_id for check in checks}
    unseen = [name for name, state in run.steps.items() if state.status in DONE and name not in checked]
    if outcome == "pass" and unseen:
        return "inconclusive", f"Nobody checked the result of step {unseen[0]}."
    return outcome, reason


def _reached(run: Run, outcome: Verdict, reason: str, checks: Sequence[Check]) -> Event:
    counts = {word: sum(check.outcome == word for check in checks) for word in ("pass", "fail", "not_run")}
    return event(
        "verdict.reached",
        {"checks": canon.encode([check.to_data() for check in checks]), "reason": canon.encode(reason)},
        outcome=outcome,
        passed=counts["pass"],
        failed=counts["fail"],
        not_run=counts["not_run"],
        tool_calls=len(run.reads),
    )


def verifier_lost(run: Run, stimulus: VerifierLost) -> list[Event]:
    """Nobody could verify: never a pass."""
    reason = f"{stimulus.error.code}: {stimulus.error.message}"
    check = Check(check_id="verifier", kind="recompute", step_id="", outcome="not_run", reason=reason)
    return [
        _reached(run, "inconclusive", reason, [check]),
        *verdicts.after_verdict(run, "inconclusive", reason),
    ]
