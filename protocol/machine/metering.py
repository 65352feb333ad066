"""Budgets that are not counted by calls: rows, tokens and cost; and whether the rest of a plan still fits."""

from __future__ import annotations

from ..plan.plan import Plan
from ..wire.limits import BUDGET_WARNING_PERCENT, REPLANS_BUDGET_MAX
from . import calls, gates
from .budget import COUNTED, METERED
from .events import Event, event
from .run import Run

TRIGGER = "budget_nearly_exhausted"


def spent(run: Run) -> str:
    """The first metered budget of which nothing is left, empty where there is none. A limit of zero forbids nothing
    that takes nothing."""
    for name in METERED:
        if (
            name in run.budget.limits
            and run.budget.used(name) > 0
            and run.budget.used(name) >= run.budget.limits[name]
        ):
            return name
    return ""


def rows(run: Run, reads: int) -> dict[str, int]:
    """What each of so many reads may scan, as an amount to reserve; nothing without a limit. Zero says that no row is left."""
    left = run.budget.left("rows_scanned")
    if left is None or reads == 0:
        return {}
    return {"rows_scanned": max(0, left) // reads}


def too_long(run: Run) -> list[Event]:
    """Near the end of a budget: another plan, once, exactly when the steps that are left need more than is left."""
    if run.route == "direct":
        return []  # nobody knows what it still wants
    if run.replans.get(TRIGGER, 0) >= REPLANS_BUDGET_MAX or run.plan is None:
        return []
    if run.checking:
        return []  # checks before a write are under way and hold their reservation; afterwards is soon enough
    for name in COUNTED:
        left, limit = run.budget.left(name), run.budget.limits.get(name, 0)
        near = left is not None and run.budget.used(name) * 100 >= limit * BUDGET_WARNING_PERCENT
        if near and left is not None and 0 < left < _needed(run):
            return [event("replan.triggered", trigger=TRIGGER, code=f"budget.{name}", plan=run.plan_digest)]
    return []


def _needed(run: Run) -> int:
    """How many calls the rest of the plan makes."""
    return sum(
        state.status in ("pending", "retrying") and not gates.is_shadowed(run, run.step(name))
        for name, state in run.steps.items()
    )


def fits(run: Run, plan: Plan) -> bool:
    """Whether a plan needs no more calls than are left, results that are kept aside."""
    needed = sum(calls.literal_key(step) not in run.kept for step in plan.steps)
    return all(run.budget.fits(name, needed) == needed for name in COUNTED)
