"""Stories of the pure machine by chance: safety and liveness by checkers that do not ask the machine.

``pytest -n 2 tests/simulation --simulation-runs=20000`` (or ``make simulation``) tries more of them; a failing one prints
its seed and its story.
"""

from __future__ import annotations

from collections import Counter

import pytest

from chance_world import World
from liveness_checks import check_life
from story_checks import check_story

CHUNK = 100


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        runs = metafunc.config.getoption("--simulation-runs")
        chunks = [range(first, min(first + CHUNK, runs)) for first in range(0, runs, CHUNK)]
        metafunc.parametrize("seeds", chunks, ids=[f"{chunk.start}-{chunk.stop - 1}" for chunk in chunks])


def lived(seed: int) -> World:
    world = World(seed)
    try:
        run = world.live()
        check_story(world, run)
        check_life(world, run)
    except Exception as problem:
        told = world.story()
        raise AssertionError(f"seed {seed}: {type(problem).__name__}: {problem}\n{told}") from problem
    return world


def test_every_story_is_sound_and_ends(seeds: range):
    ends: Counter[str] = Counter()
    for seed in seeds:
        world = lived(seed)
        assert world.run is not None
        ends[str(world.run.phase)] += 1
    assert len(ends) == 4 or len(seeds) < CHUNK, f"the world is too kind, or too harsh: {ends}"


@pytest.mark.parametrize("seed", [12975, 15848, 15962])
def test_what_once_went_wrong(seed: int):
    """A replan near the end of a budget while checks held a reservation; a model that answered by itself after a plan had
    failed; a step that a person had tried again although its tool was described differently by then."""
    lived(seed)


def test_the_same_seed_gives_the_same_story():
    assert lived(7).record.leaves == lived(7).record.leaves


def test_chance_plays_every_move():
    """A world that never edits or probes would prove nothing about edits and probes."""
    kinds: set[str] = set()
    codes: set[str] = set()
    whys: set[str] = set()
    for seed in range(400):
        world = World(seed)
        world.live()
        kinds |= set(world.kinds())
        codes |= {str(facts["code"]) for facts in world.facts("replan.refused")}
        codes |= {str(facts["code"]) for facts in world.facts("step.failed")}
        whys |= {str(facts["why"]) for facts in world.facts("gate.asked")}
    assert kinds >= {
        "plan.edited",
        "guidance.given",
        "objective.amended",
        "results.imported",
        "step.reused",
        "step.probed",
        "step.shadowed",
        "step.late_result",
        "policy.judged",
        "checks.returned",
        "run.stalled",
        "budget.warned",
        "budget.exhausted",
    }
    assert codes >= {"replan.not_smaller", "replan.identical", "replan.scope", "tool.breaker_open"}
    assert whys >= {"always", "consequential", "edited", "changed", "arguments"}
