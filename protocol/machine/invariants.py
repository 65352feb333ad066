"""What holds in every state of a run, checked after every event, in production too."""

from __future__ import annotations

from .phases import Phase
from .run import Run


class BrokenInvariant(AssertionError):
    """A state that the rules exclude: a fault of duly, never of its input. The run stops where it is."""


def check(run: Run) -> None:
    """Raises ``BrokenInvariant`` with the name of the first invariant that does not hold."""
    for name, holds in (
        (
            "a gate is open exactly while an approval is waited for",
            (run.gate is not None) == (run.phase is Phase.WAITING_APPROVAL),
        ),
        (
            "a question is open exactly while an answer is waited for",
            (run.asked is not None) == (run.phase is Phase.WAITING_INPUT),
        ),
        ("only a passing verdict completes", run.phase is not Phase.COMPLETED or run.verdict == "pass"),
        ("an end has a reason", not run.phase.ended or bool(run.reason)),
        (
            "a run that goes on has a plan once it is ready",
            run.plan is not None or run.phase not in (Phase.READY, Phase.RUNNING, Phase.VERIFYING),
        ),
        ("nothing reserved is negative", all(amount >= 0 for amount in run.budget.reserved.values())),
        ("nothing is spent beyond a limit of calls", _within(run)),
        (
            "verification is only under way while verifying",
            not run.verification or run.phase is Phase.VERIFYING or run.phase.ended,
        ),
    ):
        if not holds:
            raise BrokenInvariant(f"run {run.run_id}: {name}")


def _within(run: Run) -> bool:
    return all(
        run.budget.used(name) + run.budget.reserved.get(name, 0) <= limit
        for name, limit in run.budget.limits.items()
        if name in ("steps", "tool_calls")
    )
