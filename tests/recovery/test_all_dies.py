"""Everything dies: the next command starts a runtime that takes every run up where its journal ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from holding import PACKAGE, Holding, holding
from process_table import still_alive, tree_below, wait_until_gone
from runtime_fixture import GONE_SECONDS_MAX, short_home, stop
from runtime_home import RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture
def home() -> Iterator[RuntimeHome]:
    one = RuntimeHome(short_home("die"))
    yield one
    stop(one)


@pytest.fixture
def held(home: RuntimeHome) -> Iterator[Holding]:
    with holding(home.root / "tests" / "holding") as one:
        yield one


def test_runs_go_on_after_the_death_of_everything(home, held):
    held.hold("right")
    following = home.begin("run", str(PACKAGE), "look around", "--json")
    held.arrived()
    waiting = home.ask(PACKAGE, "note it").result
    assert waiting["needs"]["approval"] == "plan"
    active = next(one["run_id"] for one in home.json("runs")["runs"] if one["phase"] == "RUNNING")
    following.kill()
    following.communicate()

    # The supervisor alone: whatever it started ends with it.
    tree = tree_below(home.supervisor())
    os.kill(home.supervisor(), signal.SIGKILL)
    assert not wait_until_gone(lambda: still_alive(tree), GONE_SECONDS_MAX)
    assert home.duly("status").code == 8
    phases = {one["run_id"]: one["phase"] for one in home.json("runs")["runs"]}
    assert phases == {active: "RUNNING", waiting["run_id"]: "WAITING_APPROVAL"}
    home.verified()
    assert home.duly("status").code == 8, "commands that only read start nothing"

    # The next command is an approval: it starts a runtime, which takes up the other run as well.
    approved = home.duly("approve", waiting["run_id"], "--json")
    assert (approved.code, approved.result["needs"]["approval"]) == (6, "step")
    held.arrived()
    held.release("right")
    ended = home.follow(active)
    assert ended.result["phase"] == "COMPLETED"
    assert [one["epoch"] for one in ended.facts("run.resumed")] == [2]
    assert held.sink == []

    # Every process at once.
    tree = tree_below(home.supervisor())
    for one in tree:
        with suppress(ProcessLookupError):  # the death of one above it may have been quicker
            os.kill(one.pid, signal.SIGKILL)
    assert not wait_until_gone(lambda: still_alive(tree), GONE_SECONDS_MAX)
    finished = home.duly("approve", waiting["run_id"], "--json")
    assert (finished.code, finished.result["phase"]) == (0, "COMPLETED")
    assert len(held.sink) == 1
    assert home.json("show", active) == ended.result
    home.verified()
