"""Who was taken over comes too late: a frozen executor that thaws, a harness of an older epoch."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kill_gate import Boundary
from kill_package import effects
from kill_world import KillWorld

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_frozen_executor_that_thaws_adds_no_effect():
    """It stops with the grant of a write in its hands. Another one runs the step; then it thaws, and passes it on."""
    with KillWorld(Path(os.environ["DULY_HOME"]).parent) as world:
        story = world.interrupted(
            Boundary("grant w3", "executor holds"), lambda: os.kill(world.gate.held, signal.SIGSTOP)
        )
        frozen = world.gate.held
        assert (story.reached, story.faults, story.asked) == (True, [], []), story
        record = world.replay(story.run_id)[1]
        waves = [
            one.event.facts["wave"]
            for one in record
            if one.event.kind == "step.started" and one.event.facts["step_id"] == "w3"
        ]
        assert len(waves) == 2, "the host said that the call never began, so it began under another grant"
        assert story.effects == {"w1": 1, "w2": 1, "w3": 1}
        os.kill(frozen, signal.SIGCONT)
        # What it holds is older than what it gets now, and reaches the host first.
        for _ in range(3):
            assert world.interrupted(None, lambda: None).faults == []
        assert frozen in world.pids("executor"), "it lives, and works again"
        assert effects(world.home.root, story.run_id) == {"w1": 1, "w2": 1, "w3": 1}
