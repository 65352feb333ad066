"""What holds in every state of a run, checked in production too: ``check`` after every event, ``check_settled`` after
every decision, when events that belong together have all been applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from . import calls, gates
from .applied.steps import held
from .phases import Phase
from .run import DONE, Run


class BrokenInvariant(AssertionError):
    """A state that the rules exclude: a fault of duly, never of its input. The run stops where it is."""


def check(run: Run) -> None:
    """Raises ``BrokenInvariant`` with the name of the first invariant that does not hold."""
    _hold(run, _always(run))


def check_settled(run: Run) -> None:
    """The invariants that look at every step."""
    _hold(run, _settled(run))


def _hold(run: Run, invariants: Iterable[tuple[str, bool]]) -> None:
    for name, holds in invariants:
        if not holds:
            raise BrokenInvariant(f"run {run.run_id}: {name}")


def _always(run: Run) -> Iterable[tuple[str, bool]]:
    phase = run.phase
    return (
        (
            "a gate is open exactly while an approval is waited for",
            (run.gate is not None) == (phase is Phase.WAITING_APPROVAL),
        ),
        (
            "a question is open exactly while an answer is waited for",
            (run.asked is not None) == (phase is Phase.WAITING_INPUT),
        ),
        (
            "only a passing verdict completes, or an answer that nobody checks",
            phase is not Phase.COMPLETED
            or run.verdict == "pass"
            or (run.route == "direct" and run.verdict == "none"),
        ),
        ("an end has a reason", not phase.ended or bool(run.reason)),
        (
            "a run that goes on has a plan once it is ready",
            run.plan is not None or phase not in (Phase.READY, Phase.RUNNING, Phase.VERIFYING),
        ),
        (
            "nothing reserved or spent is negative",
            all(amount >= 0 for amount in (*run.budget.reserved.values(), *run.budget.spent.values())),
        ),
        ("nothing is spent beyond a limit of calls", _within(run)),
        ("verification is only under way while verifying", not run.verification or phase is Phase.VERIFYING),
        ("an end holds no reservation", not phase.ended or not run.budget.reserved),
        (
            "nothing is under way in an ended run",
            not phase.ended or not (run.outstanding or run.asking or run.thinking),
        ),
    )


def _within(run: Run) -> bool:
    return all(
        run.budget.used(name) + run.budget.reserved.get(name, 0) <= limit
        for name, limit in run.budget.limits.items()
        if name in ("steps", "tool_calls")
    )


def _held(run: Run) -> dict[str, int]:
    """What steps, the verifier and a probe have reserved, by budget."""
    total: dict[str, int] = {}
    for amounts in (run.held, *(held(run.steps[name]) for name in run.outstanding)):
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


def _covered(run: Run) -> Callable[[str], bool]:
    def check(step_id: str) -> bool:
        if run.reads_only(step_id):
            return True
        step = run.step(step_id)
        return gates.is_covered(run, step, calls.resolved(run, step), run.steps[step_id].granted_ms)

    return check


def _settled(run: Run) -> Iterable[tuple[str, bool]]:
    outstanding = run.outstanding
    return (
        (
            "calls are only under way while running",
            not outstanding or run.phase is Phase.RUNNING,
        ),
        (
            "what is under way holds its reservation, and nothing else does",
            dict(run.budget.reserved) == _held(run),
        ),
        ("an effect runs alone", len(outstanding) < 2 or all(run.reads_only(name) for name in outstanding)),
        ("a shadow run dispatches no write", not run.mandate.shadow or all(map(run.reads_only, outstanding))),
        (
            "no write starts without an approval or a mandate that covers it",
            all(map(_covered(run), outstanding)),
        ),
        (
            "every result that counts is there",
            all((state.status in DONE) == (name in run.outputs) for name, state in run.steps.items()),
        ),
        (
            "a completed run has no step left and no failed check",
            run.phase is not Phase.COMPLETED
            or run.route == "direct"
            or all(state.status in DONE and state.checked != "fail" for state in run.steps.values()),
        ),
    )
