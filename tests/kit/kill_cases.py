"""Which kills the matrix is made of, and a fair sample of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kill_gate import Boundary
from kill_world import AGAIN, TARGETS, WHOLE, KillWorld, Story

RUNS_LOOKED_AT = 3
TRIES = 4  # how often a boundary that did not occur (two reads came back together) is waited for
GATED, FREE = "assisted", "bounded_autonomous"


@dataclass(frozen=True)
class Case:
    """One kill: of a target, at a boundary of a run in a tier; ``again``: once more when the run is resumed."""

    tier: str
    boundary: Boundary
    target: str
    again: bool = False

    def __str__(self) -> str:
        return f"{self.tier}: {self.target}{' twice' if self.again else ''}, {self.boundary}"


def boundaries(world: KillWorld) -> list[Boundary]:
    """The boundaries of runs that nobody disturbs, in order. Those of several: two reads may come back together."""
    found: list[Boundary] = []
    for _ in range(RUNS_LOOKED_AT):
        story = world.case("harness", None)
        assert not story.faults, f"a run without a kill: {story}"
        after = 0
        for point in dict.fromkeys(world.gate.seen):
            if point not in found:
                found.insert(after, point)
            after = found.index(point) + 1
    return found


def cases(tier: str, points: Sequence[Boundary]) -> list[Case]:
    """Every boundary with every target.

    Where an effect may be under way, harness and whole machine are also killed once more while the run is resumed.
    """
    found = []
    for point in points:
        found += [Case(tier, point, target) for target in TARGETS]
        if _acts(point) and tier == FREE:
            found += [Case(tier, point, target, again=True) for target in ("harness", "everything")]
    return found


def sample(given: Sequence[Case], count: int, seed: int) -> list[Case]:
    """So many cases by chance: every target is among them, effects more often than the rest, the whole machine seldom."""
    chance = random.Random(seed)
    weights = [(4 if _acts(one.boundary) else 1) / (4 if one.target in WHOLE else 1) for one in given]
    drawn = sorted(given, key=lambda one: chance.random() ** (1 / weights[given.index(one)]), reverse=True)
    first = [next(one for one in drawn if one.target == target) for target in TARGETS]
    rest = [one for one in drawn if one not in first]
    chosen = set(map(str, [*first, *rest][:count]))
    return [one for one in given if str(one) in chosen]


def run_case(world: KillWorld, case: Case) -> Story:
    """One case, tried again where its boundary did not occur."""
    for _ in range(TRIES):
        story = world.case(case.target, case.boundary, AGAIN if case.again else None)
        if story.reached or story.faults:
            break
    return story


def _acts(point: Boundary) -> bool:
    """Whether an effect may be under way there."""
    return point.when not in ("before", "after")
