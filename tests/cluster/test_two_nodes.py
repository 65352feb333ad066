"""Two nodes on one machine: two supervisors with hosts of their own, two raylets, one harness."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from holding import PACKAGE, holding
from process_table import still_alive, tree_below, wait_until_gone
from runtime_fixture import GONE_SECONDS_MAX, short_home, stop
from runtime_home import FLIGHTS, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
DATA = "tests/holding"
ROUNDS_MAX = 20  # the harness looks for a lost node once a second, and a round takes about as long


@pytest.fixture(scope="module")
def head() -> Iterator[RuntimeHome]:
    one = RuntimeHome(short_home("head"))
    started = one.duly("node", "start", "--head", "--port", "0", "--resource", "duly_control=1", "--json")
    assert started.code == 0, started.err
    yield one
    stop(one)


@pytest.fixture(scope="module")
def address(head: RuntimeHome) -> str:
    """What a worker joins: as the head's command said, or would say."""
    again = head.duly("node", "start", "--head")
    assert again.code == 1 and "[runtime.held]" in again.err
    return str(head.ready()["address"])


@pytest.fixture(scope="module")
def worker(head: RuntimeHome, address: str) -> Iterator[RuntimeHome]:
    """Joined as an operator does it: token and harness's key brought here, hosts' keys brought to the head."""
    token = {"RAY_AUTH_TOKEN_PATH": str(head.home.run / "ray.token")}
    one = RuntimeHome(short_home("work"), token)
    join(one, head, address)
    yield one
    if one.duly("node", "stop").code == 0:
        assert not wait_until_gone(lambda: still_alive(one.tree), GONE_SECONDS_MAX)


def join(one: RuntimeHome, head: RuntimeHome, address: str) -> None:
    (one.home.keys / "public").mkdir(parents=True, exist_ok=True)
    shutil.copy(head.home.keys / "public" / "harness.pub", one.home.keys / "public")
    started = one.duly("node", "start", "--worker", "--address", address, "--name", "node-2", "--json")
    assert started.code == 0, started.err
    one.tree = tree_below(one.supervisor())
    for name in ("read", "write", "verify"):
        shutil.copy(one.home.keys / "hosts" / f"{name}.pub", head.home.keys / "hosts" / f"node-2-{name}.pub")


def nodes(outcome) -> dict[str, str]:
    return {one["step_id"]: one["node"] for one in outcome.facts("step.succeeded")}


def test_reads_of_one_level_run_on_both_nodes_at_once(head, worker):
    """The package was brought to the second node, whose hosts hash it before they run it."""
    with holding(head.root / DATA) as here, holding(worker.root / DATA) as there:
        here.hold("far")
        there.hold("far")
        command = head.begin("run", str(PACKAGE), "circle", "--json")
        here.arrived(2)
        there.arrived(2)
        here.release("far")
        there.release("far")
        outcome = head.finish(command)
    assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED"), outcome.err
    ran = nodes(outcome)
    assert sorted(ran[name] for name in ("north", "east", "south", "west")) == ["node-1"] * 2 + ["node-2"] * 2
    digest = outcome.facts("run.submitted")[0]["package"]
    assert sorted(one.name for one in (worker.home.packages / digest).iterdir()) == sorted(
        one.name for one in (head.home.packages / digest).iterdir()
    )


def test_effects_stay_on_the_harness_own_node(head, worker):
    """One sink, one ledger of used grants."""
    with holding(head.root / DATA) as here, holding(worker.root / DATA) as there:
        for _ in range(2):
            outcome = head.ask(PACKAGE, "note it", "--tier", "bounded_autonomous")
            assert outcome.code == 0 and nodes(outcome)["note"] == "node-1"
        assert len(here.sink) == 2 and there.sink == []


def test_the_flagship_runs_over_both_nodes_with_the_same_report(head, worker):
    """Each node prepares the data for itself."""
    outcome = head.ask(FLIGHTS, "Why did on-time arrivals fall in June compared with May?")
    assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED"), outcome.err
    level = {node for step, node in nodes(outcome).items() if step.startswith("decompose-")}
    assert level == {"node-1", "node-2"}


def test_status_lists_the_executors_of_both(head, worker):
    names = [one["name"] for one in head.processes() if one["role"] == "Executor"]
    assert sorted(names) == [f"executor-node-{node}-{index}" for node in (1, 2) for index in (0, 1)]


def test_a_worker_takes_no_commands_and_needs_token_and_key(head, worker, address):
    told = worker.duly("up")
    assert told.code == 1 and "[runtime.worker]" in told.err
    bare = RuntimeHome(short_home("bare"))
    bare.environment.pop("RAY_AUTH_TOKEN_PATH", None)
    for missing in ("[runtime.no_token]", "[runtime.no_harness_key]"):
        refused = bare.duly("node", "start", "--worker", "--address", address)
        assert refused.code != 0 and missing in refused.err
        bare.environment["RAY_AUTH_TOKEN_PATH"] = str(head.home.run / "ray.token")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--head", "--worker"),
        ("--worker",),
        ("--head", "--address", "h:1"),
        ("--head", "--resource", "x"),
    ],
)
def test_a_node_that_makes_no_sense_is_a_usage_error(head, arguments):
    refused = head.duly("node", "start", *arguments)
    assert refused.code == 2 and "[request.bad_option]" in refused.err


def test_reads_of_a_lost_node_run_again_on_the_other_and_it_may_come_back(head, worker, address):
    with holding(head.root / DATA) as here, holding(worker.root / DATA) as there:
        here.hold("far")
        there.hold("far")
        command = head.begin("run", str(PACKAGE), "circle", "--json")
        here.arrived(2)
        there.arrived(2)
        os.kill(worker.supervisor(), signal.SIGKILL)
        assert not wait_until_gone(lambda: still_alive(worker.tree), GONE_SECONDS_MAX)
        here.release("far")
        there.release("far")
        outcome = head.finish(command)
    assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED"), outcome.err
    assert set(nodes(outcome).values()) == {"node-1"}
    lost = [one for one in outcome.facts("step.failed") if one["lost"]]
    assert len({one["step_id"] for one in lost}) == 2, "two reads were on the other node"
    head.verified()

    # Its executors are started again by Ray with the node, which a new supervisor makes: new keys, the same name.
    join(worker, head, address)
    for _ in range(ROUNDS_MAX):
        if "node-2" in nodes(head.ask(PACKAGE, "circle")).values():
            return
    raise AssertionError("the node that came back gets no reads")
