"""A sample of the kill matrix, the same on every day; ``make kill-matrix`` runs all of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kill_cases import FREE, GATED, boundaries, cases, run_case, sample
from kill_world import TARGETS, KillWorld

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]
SEED = 3
KILLS = {FREE: 28, GATED: 14}


@pytest.mark.parametrize("tier", [FREE, GATED])
def test_no_effect_happens_twice_whatever_is_killed_when(tier: str):
    faults = []
    killed = set()
    with KillWorld(Path(os.environ["DULY_HOME"]).parent, tier) as world:
        for case in sample(cases(tier, boundaries(world)), KILLS[tier], SEED):
            story = run_case(world, case)
            killed |= {case.target} if story.reached else set()
            faults += [f"{case}: {fault} (run {story.run_id}: {story.commands})" for fault in story.faults]
    assert not faults, "\n".join(faults)
    assert killed == set(TARGETS), "every process was killed at least once"
