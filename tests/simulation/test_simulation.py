"""Stories of the pure machine by chance: safety by the checkers, and every run comes to an end.

``DULY_SIMULATION_SEEDS=20000 pytest tests/simulation`` tries more of them; a failing one prints its seed and its story.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from chance_world import World
from story_checks import check_story

SEEDS = int(os.environ.get("DULY_SIMULATION_SEEDS", "300"))
CHUNK = 100


def lived(seed: int) -> World:
    world = World(seed)
    try:
        check_story(world, world.live())
    except Exception as problem:
        told = world.story()
        raise AssertionError(f"seed {seed}: {type(problem).__name__}: {problem}\n{told}") from problem
    return world


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_story_is_sound_and_ends(first: int):
    ends: Counter[str] = Counter()
    for seed in range(first, min(first + CHUNK, SEEDS)):
        world = lived(seed)
        assert world.run is not None
        ends[str(world.run.phase)] += 1
    assert len(ends) >= 3, f"the world is too kind, or too harsh: {ends}"


def test_the_same_seed_gives_the_same_story():
    assert lived(7).record.leaves == lived(7).record.leaves
