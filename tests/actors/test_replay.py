"""The journal is the state: replaying it gives what the live harness says of every run, whatever happened to it."""

from __future__ import annotations

import json
import os
import signal

import pytest

from duly.cli.records import Records
from duly.protocol.machine import gates
from duly.storage.recovery import load_run
from holding import PACKAGE
from runtime_home import FLIGHTS, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def several(runtime: RuntimeHome) -> RuntimeHome:
    """Runs that stop in different ways, beside those of other tests in this session."""
    assert runtime.ask(PACKAGE, "look around").code == 0
    assert runtime.ask(PACKAGE, "note it").code == 6
    assert runtime.ask(FLIGHTS, "How many flights departed last month?").code == 7
    assert runtime.ask(PACKAGE, "something else").code == 3
    rejected = runtime.ask(PACKAGE, "send it")
    assert runtime.duly("reject", rejected.result["run_id"], "--json").code == 3
    refused = runtime.ask(PACKAGE, "look around", "--budget", "steps=1")
    assert refused.code in (3, 4)
    return runtime


def test_replay_gives_what_the_live_harness_reports(several):
    runs = several.json("runs", "--limit", "1000")["runs"]
    assert len({one["phase"] for one in runs}) >= 4
    for one in runs:
        run_id = one["run_id"]
        live = several.follow(run_id).result
        assert several.replayed(run_id) == live, run_id
        assert live == several.results.get(run_id, live), run_id
        assert one["phase"] == live["phase"]


def test_replay_gives_the_gate_that_the_live_harness_shows(several):
    waiting = [one["run_id"] for one in several.json("runs")["runs"] if one["phase"] == "WAITING_APPROVAL"]
    assert waiting
    for run_id in waiting:
        with several.door() as door:
            live = door.call("gate", run_id=run_id)
        with Records.open(several.home) as records:
            run, _ = load_run(records.journal, records.artifacts, run_id)
        view = gates.view(run)
        assert (view.gate_id, view.text, view.shown) == (live["gate"], live["text"], live["shown"])
        assert run.plan_digest == live["plan_digest"] and dict(view.arguments) == live["arguments"]


def test_a_new_harness_shows_the_same(several):
    """It knows nothing but the journal."""
    runs = [one["run_id"] for one in several.json("runs", "--limit", "1000")["runs"]]
    before = {run_id: several.follow(run_id).result for run_id in runs}

    os.kill(several.pid("Harness"), signal.SIGKILL)
    assert several.duly("up").code == 0
    after = {run_id: several.follow(run_id).result for run_id in runs}
    assert json.dumps(after, sort_keys=True) == json.dumps(before, sort_keys=True)
