"""Stimuli of the verifier: checks of single outputs, the reads it wants, its judgement, its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...authority.tiers import TIERS
from ...judgement.checks import Check
from ...judgement.verdict import Verdict, judge
from ...wire import canon
from ...wire.errors import RunError
from .. import ends, metering, thinking, verdicts
from ..effects import PrepareChecks
from ..events import Event, event
from ..pending import pending
from ..run import DONE, Run
from ..stimuli import ChecksReturned, Judged, ReadsWanted, Stimulus, VerifierLost

_RANK: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


def checks_returned(run: Run, stimulus: ChecksReturned) -> list[Event]:
    """Checks of single outputs before something that writes; only what was checked and passed lets it go on.

    A failed one leads where a failed verdict leads. A mandatory one that could not run stops the run: nothing is written
    on the ground of what nobody looked at.
    """
    if not run.checking:
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} waits for no checks.")
    checks = _read(stimulus.checks)
    asked = {name for name, state in run.steps.items() if state.status in DONE and not state.checked}
    events, outcomes = _checked(run, [check for check in checks if check.step_id in asked])
    taken = {"tool_calls": len(run.reads), "rows_scanned": stimulus.rows}
    events.append(event("checks.returned", checks=len(checks), reads=len(run.reads), spent=_positive(taken)))
    bad = next((check for check in checks if check.outcome == "fail"), None)
    if bad is not None:
        return [*events, *verdicts.failed_check(run, f"{bad.check_id}: {bad.reason}")]
    open_check = next((one for one in checks if _holds_up(one)), None)
    if open_check is not None:
        text = f"{open_check.check_id} could not run: {open_check.reason}"
        return [*events, *ends.stop(run, "verdict.inconclusive", text)]
    if not outcomes:
        text = "The verifier checked none of the outputs it was asked about."
        return [*events, *ends.stop(run, "verdict.inconclusive", text)]
    return events


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _holds_up(check: Check) -> bool:
    return check.outcome == "not_run" and check.mandatory


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
    """The verifier's reads are reserved like any other call, and so is what the critic may take; without room for them
    nothing is verified."""
    judging = stimulus.purpose == "verification"
    if run.verification != "prepare" if judging else not _awaits_checks(run):
        raise RunError(
            "run.not_waiting_for_that", f"Run {run.run_id} does not wait for the verifier's reads."
        )
    count = len(stimulus.reads)
    if run.budget.fits("tool_calls", count) < count:
        return ends.exhausted(run, "tool_calls")
    amounts = {"tool_calls": count} if count else {}
    share = metering.rows(run, count)
    if share:
        amounts["rows_scanned"] = share["rows_scanned"] * count
    if judging and verdicts.asks_critic(run):
        amounts["model_tokens"] = thinking.tokens(run, "critic")
    lacks = next((name for name, amount in amounts.items() if amount <= 0), None)
    if lacks is not None:
        return ends.exhausted(run, lacks)
    return [
        event(
            "budget.reserved",
            {"reads": canon.encode(stimulus.reads)},
            purpose=stimulus.purpose,
            wave=0,
            amounts=amounts,
        )
    ]


def _awaits_checks(run: Run) -> bool:
    return any(isinstance(order, PrepareChecks) for order in pending(run))


def judged(run: Run, stimulus: Judged) -> list[Event]:
    """The verdict, and what it leads to. A model's word is one of the checks and never more.

    The verdict is never better than its checks, and a result that nobody checked is not verified.
    """
    if run.verification != "judge":
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} does not wait for a judgement.")
    checks = _read(stimulus.checks)
    outcome, reason = _lowest(run, stimulus, checks)
    events, _ = _checked(run, checks)
    events = [*thinking.called(stimulus.uses), *events]
    taken = {
        "tool_calls": len(run.reads),
        "rows_scanned": stimulus.rows,
        **thinking.spent(stimulus.uses),
    }
    events.append(_reached(run, outcome, reason, checks, _positive(taken)))
    if time_is_up(run, stimulus):
        return [*events, *ends.exhausted(run, "wall_seconds")]
    word = "unverified" if _lacks_only_the_critic(run, stimulus, checks) else outcome
    return [*events, *verdicts.after_verdict(run, word, reason)]


def _lacks_only_the_critic(run: Run, stimulus: Judged, checks: Sequence[Check]) -> bool:
    """Whether everything passed, and only the critic, whom the tier asks, said nothing."""
    if not _critic_is_silent(run, checks) or stimulus.outcome == "fail":
        return False
    rest = [check for check in checks if check.kind != "critic"]
    return judge(rest)[0] == "pass" and not _unseen(run, rest)


def _critic_is_silent(run: Run, checks: Sequence[Check]) -> bool:
    said = any(check.kind == "critic" and check.outcome != "not_run" for check in checks)
    return verdicts.asks_critic(run) and not said


def time_is_up(run: Run, stimulus: Stimulus) -> bool:
    """Whether the active time is spent now, that since the last event included."""
    left = run.budget.wall_ms_left
    return left is not None and left <= stimulus.elapsed_ms


def _lowest(run: Run, stimulus: Judged, checks: Sequence[Check]) -> tuple[Verdict, str]:
    own, why = judge(checks)
    outcome, reason = (stimulus.outcome, stimulus.reason)
    if _RANK[own] > _RANK[outcome]:
        outcome, reason = own, why
    unseen = _unseen(run, checks)
    if outcome == "pass" and unseen:
        return "inconclusive", f"Nobody checked the result of step {unseen[0]}."
    if outcome == "pass" and _critic_is_silent(run, checks):
        return "inconclusive", "The critic, whom the tier asks, gave no judgement."
    return outcome, reason


def _unseen(run: Run, checks: Sequence[Check]) -> list[str]:
    """Results that no check looked at."""
    checked = {check.step_id for check in checks if check.kind != "critic"}
    return [name for name, state in run.steps.items() if state.status in DONE and name not in checked]


def _critic(run: Run) -> str:
    """Whether the critic was asked: ``asked``, ``none`` where the tier wants one and the package has none, ``off``."""
    if verdicts.asks_critic(run):
        return "asked"
    return "none" if TIERS[run.mandate.tier].critic else "off"


def _reached(
    run: Run, outcome: Verdict, reason: str, checks: Sequence[Check], spent: Mapping[str, int]
) -> Event:
    counts = {word: sum(check.outcome == word for check in checks) for word in ("pass", "fail", "not_run")}
    return event(
        "verdict.reached",
        {"checks": canon.encode([check.to_data() for check in checks]), "reason": canon.encode(reason)},
        outcome=outcome,
        passed=counts["pass"],
        failed=counts["fail"],
        not_run=counts["not_run"],
        critic=_critic(run),
        tool_calls=len(run.reads),
        spent=dict(spent),
    )


def verifier_lost(run: Run, stimulus: VerifierLost) -> list[Event]:
    """Nobody could verify: never a pass."""
    reason = f"{stimulus.error.code}: {stimulus.error.message}"
    check = Check(check_id="verifier", kind="recompute", step_id="", outcome="not_run", reason=reason)
    return [
        _reached(run, "inconclusive", reason, [check], run.held),
        *verdicts.after_verdict(run, "inconclusive", reason),
    ]
