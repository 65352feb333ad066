"""Who was taken over comes too late: a frozen executor that thaws, a harness of an older epoch."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from duly.protocol.authority.settlement import Settlement
from duly.protocol.wire.errors import DulyError
from harness_in_process import World
from kill_gate import Boundary
from kill_package import effects
from kill_world import KillWorld


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
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


class TestOldHarness:
    """A harness that was frozen while another one took over: nothing that it still does counts."""

    def test_its_grants_and_its_events_are_refused(self, tmp_path: Path):
        world = World(tmp_path / "home")

        async def run() -> None:
            async with world.harness() as old:
                order = await old.order("thing", "bounded_autonomous")
                world.hosts["write"].frozen = asyncio.Event()
                submitted = asyncio.create_task(old.told("submit", **order))
                await world.hosts["write"].arrived.wait()  # the grant is at the host's door, and not yet used
                async with world.harness() as new:
                    assert new.core.epoch > old.core.epoch
                    assert new.phase(order["run_id"]) != "COMPLETED"
                    world.hosts["write"].frozen.set()  # the old call goes on: too late
                    ended = await new.ask("follow", run_id=order["run_id"], after=-1)
                    assert ended["result"]["phase"] == "COMPLETED"
                    assert world.sent == ["thing"]
                    with pytest.raises(DulyError) as refused:
                        await old.ask("submit", **await old.order("other", "bounded_autonomous"))
                    assert refused.value.code == "log.stale_epoch"
                    assert [error.code for error in old.gave_up][:1] == ["log.stale_epoch"]
                submitted.cancel()
            assert world.sent == ["thing"], "neither the old run again nor another one"

        asyncio.run(run())
        world.close()

    def test_it_may_not_settle_what_its_successor_granted(self, tmp_path: Path):
        world = World(tmp_path / "home")

        async def run() -> str:
            async with world.harness() as old, world.harness() as new:
                old_statement = Settlement(
                    host="write", epoch=old.core.epoch, granted_ms=0, nonces=["n-1"]
                ).sign(world.ring.private("harness"))
                world.hosts["write"].ledger.raise_epoch(new.core.epoch)
                with pytest.raises(DulyError) as refused:
                    await world.hosts["write"].settle(old_statement)
                return refused.value.code

        assert asyncio.run(run()) == "grant.stale_epoch"
        world.close()
