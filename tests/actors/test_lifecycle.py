"""Starting, sharing and stopping a runtime: several commands at once, leftovers of an earlier one, no network, idleness."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holding import PACKAGE, holding
from process_table import still_alive, tree_below, wait_until_gone
from runtime_fixture import GONE_SECONDS_MAX, short_home, stop
from runtime_home import COMMAND_SECONDS_MAX, DULY, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
# A network of its own has a loopback that is down; this brings it up and becomes the command.
WITH_LOOPBACK = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
os.execv(sys.argv[1], sys.argv[1:])
"""
TWICE = """
import json, subprocess, sys
both = [subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) for _ in range(2)]
print(json.dumps([[one.communicate()[0], one.returncode] for one in both]))
"""


def offline() -> tuple[str, ...]:
    """What puts a command into a network of its own, without any way out; skips where the system does not allow it."""
    unshare = ("unshare", "-n") if os.geteuid() == 0 else ("unshare", "-rn")
    prefix = (*unshare, sys.executable, "-c", WITH_LOOPBACK)
    try:
        tried = subprocess.run([*prefix, "/bin/true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare(1) to leave the network with")
    if tried.returncode != 0:
        pytest.skip("this system lets nobody leave its network")
    return prefix


def test_two_commands_start_one_runtime_offline_beside_what_an_earlier_one_left():
    """In a folder with a blank and a letter beyond ASCII."""
    home = RuntimeHome(short_home("hö me"))
    home.home.prepare()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(str(home.home.socket_path("front")))  # nobody listens any more once this is closed
    for name in ("supervisor.lock", "supervisor.pid"):
        (home.home.run / name).write_text("1\n")
    assert home.duly("status").code == 8
    both = subprocess.run(
        [*offline(), sys.executable, "-c", TWICE, *DULY, "up", "--json"],
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    try:
        (one, first), (other, second) = json.loads(both.stdout)
        assert (first, second) == (0, 0), both.stderr
        assert json.loads(one)["pid"] == json.loads(other)["pid"]
        assert both.stderr.count("starting the local runtime") == 1
        outcome = home.ask(PACKAGE, "look around")
        assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED")
    finally:
        stop(home)
    assert home.json("runs")["runs"][0]["phase"] == "COMPLETED"


def test_an_idle_runtime_stops_by_itself():
    home = RuntimeHome(short_home("idle"), {"DULY_IDLE_SECONDS": "1"})
    assert home.duly("up").code == 0
    top = home.supervisor()
    tree = tree_below(top)
    try:
        watch = os.pidfd_open(top)
        assert select.select([watch], [], [], GONE_SECONDS_MAX)[0], "it runs on"
        os.close(watch)
    except ProcessLookupError:
        pass  # it was faster than this test
    assert not wait_until_gone(lambda: still_alive(tree), GONE_SECONDS_MAX)
    assert home.duly("status").code == 8


def test_a_data_directory_has_one_supervisor(runtime: RuntimeHome):
    second = subprocess.run(
        [sys.executable, "-P", "-m", "duly.hosts.supervisor", "--home", str(runtime.root)],
        env=runtime.environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert second.returncode == 1 and "[runtime.held]" in second.stderr
    assert str(runtime.supervisor()) in second.stderr
    assert runtime.duly("status").code == 0


def test_two_runs_at_once_are_both_under_way(runtime: RuntimeHome):
    with holding(runtime.root / "tests" / "holding") as held:
        held.hold("left")
        both = [runtime.begin("run", str(PACKAGE), "look around", "--json") for _ in range(2)]
        held.arrived(2)
        assert runtime.json("status")["active_runs"] == 2
        held.release("left")
        ended = [runtime.finish(one) for one in both]
    assert [one.code for one in ended] == [0, 0]
    assert len({one.result["run_id"] for one in ended}) == 2
    assert ended[0].result["plan_digest"] == ended[1].result["plan_digest"]


def test_reads_of_a_level_are_under_way_at_once(runtime: RuntimeHome):
    """Both are held in their tools before either may go on."""
    with holding(runtime.root / "tests" / "holding") as held:
        held.hold("left")
        held.hold("right")
        run = runtime.begin("run", str(PACKAGE), "look around", "--json")
        held.arrived(2)
        held.release("left")
        held.release("right")
        assert runtime.finish(run).code == 0


@contextmanager
def ended_within(worker: int, seconds: float) -> Iterator[None]:
    """A process that runs before the block has ended after it, or soon does."""
    watch = os.pidfd_open(worker)
    try:
        yield
        assert select.select([watch], [], [], seconds)[0], "the tool runs on"
    finally:
        os.close(watch)


def test_a_cancelled_run_stops_what_runs(runtime: RuntimeHome):
    """The worker of a read is killed: its file is closed although nobody lets it go on."""
    with holding(runtime.root / "tests" / "holding") as held:
        held.hold("left")
        command = runtime.begin("run", str(PACKAGE), "look around", "--json")
        held.arrived()
        with ended_within(held.holder("left"), GONE_SECONDS_MAX):
            run_id = next(one["run_id"] for one in runtime.json("runs")["runs"] if one["phase"] == "RUNNING")
            assert runtime.duly("cancel", run_id, "--reason", "a test").code == 0
        outcome = runtime.finish(command)
        assert (outcome.code, outcome.result["phase"]) == (5, "CANCELLED")
    assert runtime.duly("cancel", run_id).code == 8


def test_a_cancel_reaches_an_effect_too(runtime: RuntimeHome):
    """The worker of a write is killed, whatever its deadline; what it may have done is said, not guessed."""
    with holding(runtime.root / "tests" / "holding") as held:
        run_id = runtime.ask(PACKAGE, "note it").result["run_id"]
        assert runtime.duly("approve", run_id, "--json").result["needs"]["approval"] == "step"
        held.hold("note")
        command = runtime.begin("approve", run_id, "--json")
        held.arrived()
        with ended_within(held.holder("note"), GONE_SECONDS_MAX):
            assert runtime.duly("cancel", run_id).code == 0
        outcome = runtime.finish(command)
    assert (outcome.code, outcome.result["phase"]) == (5, "CANCELLED")
    assert "nobody can say whether it happened" in runtime.duly("show", run_id).out.replace(
        "\n          ", " "
    )


def test_status_lists_every_actor_and_host_with_its_memory(runtime: RuntimeHome):
    processes = runtime.processes()
    roles = [one["role"] for one in processes]
    for role in ("supervisor", "Harness", "Planner", "Verifier", "PlanCache", "AuditJournal"):
        assert roles.count(role) == 1
    assert roles.count("Executor") == 2
    assert {"host read", "host write", "host verify"} < set(roles)
    pids = [one["pid"] for one in processes]
    assert len(set(pids)) == len(pids), "each is a process of its own"
    assert all(one["rss_bytes"] > 1_000_000 for one in processes)


def test_reading_commands_answer_at_once(runtime: RuntimeHome):
    """The front door is reached without Ray; three times the target, since the machine is busy with the other tests."""
    runtime.json("runs")
    fastest = min(_timed(lambda: runtime.duly("status", "--json")) for _ in range(5))
    assert fastest < 0.6


def _timed(act) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun
