"""Liveness: every story comes to an end, everything that was asked for is answered, and nothing goes round in circles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from chance_world import World
from duly.protocol.machine.pending import pending
from duly.protocol.machine.run import Run
from duly.protocol.wire import canon
from violations import NEW_PLAN, hold

Leaf = Mapping[str, Any]
STARTS_PER_STEP_MAX = 40  # attempts, losses, and a start after every crash and every word of a person
AFTER_AN_END = ("step.late_result",)

# what waits -> what may bring it on
ANSWERS = {
    "gate.asked": {
        "plan.approved",
        "step.approved",
        "plan.rejected",
        "gate.asked",
        "replan.triggered",
        *NEW_PLAN,
    },
    "input.asked": {"input.given", "replan.triggered"},
    "run.stalled": {"run.resumed"},
    "replan.triggered": {*NEW_PLAN, "replan.refused", "replan.triggered", "input.asked", "route.chosen"},
    "verification.started": {"verdict.reached", "replan.triggered", "verification.started"},
    "policy.asked": {"policy.judged", "replan.triggered"},
}


def check_life(world: World, run: Run) -> None:
    """Raises ``Violation`` for a story that does not get on."""
    leaves = [canon.decode(leaf) for leaf in world.record.leaves]
    hold(run.phase.ended, f"the run is {run.phase}")
    hold(not pending(run) and not run.outstanding, "something is left to do after the end")
    _what_waits_is_answered(leaves)
    _nothing_goes_round(leaves)


def _what_waits_is_answered(leaves: Iterable[Leaf]) -> None:
    """Everything that waits goes on, or the run ends."""
    open_: dict[str, int] = {}
    ended = False
    for index, leaf in enumerate(leaves):
        kind = leaf["kind"]
        hold(not ended or kind in AFTER_AN_END or kind == "budget.warned", f"{kind} after the end")
        for waiting, answers in ANSWERS.items():
            if kind in answers:
                open_.pop(waiting, None)
        if kind in ANSWERS:
            open_[kind] = index
        ended = ended or kind == "run.ended"
    hold(ended or not open_, f"nobody ever answered {sorted(open_)}")


def _nothing_goes_round(leaves: Iterable[Leaf]) -> None:
    starts: Counter[tuple[int, str]] = Counter()
    version = 0
    for leaf in leaves:
        if leaf["kind"] in NEW_PLAN:
            version = leaf["facts"]["version"]
        elif leaf["kind"] == "step.started":
            starts[version, leaf["facts"]["step_id"]] += 1
    for (_, step_id), count in starts.items():
        hold(count <= STARTS_PER_STEP_MAX, f"{step_id} started {count} times under one plan")
