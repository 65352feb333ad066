"""A call that is late, a worker that dies, a host that dies: each ends, leaves nothing behind, and says what is known."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from duly.protocol.wire.errors import DulyError
from host_world import HostWorld, python_package
from process_table import Leftover, wait_until_gone

SOURCE = """
import os, subprocess, threading
FOREVER = threading.Event()

def note(call, *numbers):
    with open(call.data.parent / "pids", "a") as file:
        file.write("".join(f"{number}\\n" for number in numbers))

@tool(effect="read", timeout_seconds=30)
def family(call, name: str = ""):
    "Starts a child, a child in a session of its own, and a daemon of that; then hangs."
    near = subprocess.Popen(["sleep", "1000"])
    far = subprocess.Popen(["sh", "-c", "sleep 1001 & echo $!; exec sleep 1002"], start_new_session=True, stdout=subprocess.PIPE)
    note(call, os.getpid(), near.pid, far.pid, int(far.stdout.readline()))
    if name:
        (call.data.parent / name).write_text("begun")
    FOREVER.wait()

@tool(effect="read", concurrent=True)
def hang(call, name: str = ""):
    note(call, os.getpid())
    if name:
        (call.data.parent / name).write_text("begun")
    FOREVER.wait()

@tool(effect="read", concurrent=True)
def quick(call) -> int:
    return os.getpid()

@tool(effect="read")
def slow(call, name: str = ""):
    note(call, os.getpid())
    if name:
        (call.data.parent / name).write_text("begun")
    FOREVER.wait()

@tool(effect="read")
def dies() -> int:
    os.kill(os.getpid(), 9)

@tool(effect="read")
def spins() -> int:
    while True:
        pass

@tool(effect="read")
def eats() -> int:
    return len(bytearray(8 << 30))
"""
NAMES = "family hang quick slow dies spins eats".split()


@pytest.fixture
def world() -> Iterator[HostWorld]:
    world = HostWorld("read")
    world.add_package(python_package(SOURCE, *NAMES))
    world.start()
    yield world
    world.close()


def _pids(world: HostWorld) -> set[int]:
    return {int(line) for line in (world.home / "pids").read_text().split()}


def _alive(pids: set[int]) -> set[Leftover]:
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "ZX":
            found.add(Leftover(pid, state))
    return found


def test_at_the_deadline_the_call_and_everything_it_started_is_gone(world):
    async def run():
        async with world.client() as client:
            (ran,) = await world.run(client, [world.grant("shed.family", deadline_ms=1_500)])
            return ran, _alive(_pids(world))

    ran, left = asyncio.run(run())
    assert (ran.receipt.outcome, ran.code, ran.receipt.transient) == ("error", "tool.timeout", True)
    assert ran.receipt.duration_us >= 1_400_000
    assert len(_pids(world)) == 4
    assert not left


@pytest.mark.parametrize("tool", ["spins", "slow"])
def test_a_loop_and_a_wait_are_both_ended(world, tool):
    async def run():
        async with world.client() as client:
            late = world.grant(f"shed.{tool}", deadline_ms=300)
            (ran,) = await world.run(client, [late])
            (after,) = await world.run(client, [world.grant("shed.quick")])
            return ran.code, after.receipt.outcome

    assert asyncio.run(run()) == ("tool.timeout", "ok")


def test_the_neighbours_of_a_late_call_may_try_again(world):
    async def run():
        async with world.client() as client:
            granted = [
                world.grant("shed.hang", step="s1", deadline_ms=700),
                world.grant("shed.hang", step="s2"),
            ]
            ran = await world.run(client, granted, mode="concurrent")
            (after,) = await world.run(client, [world.grant("shed.quick")], mode="concurrent")
            return ran, after, _pids(world)

    (late, neighbour), after, pids = asyncio.run(run())
    assert late.code == "tool.timeout"
    assert (neighbour.code, neighbour.receipt.transient) == ("tool.worker_lost", True)
    assert after.output not in pids


def test_a_worker_that_dies_loses_its_call_and_no_other(world):
    async def run():
        async with world.client() as client:
            granted = [world.grant("shed.dies", step="s1"), world.grant("shed.quick", step="s2")]
            return await world.run(client, granted, mode="concurrent")

    died, other = asyncio.run(run())
    assert (died.receipt.outcome, died.code, died.receipt.transient) == ("error", "tool.worker_lost", True)
    assert other.receipt.outcome == "ok"


def test_too_much_memory_fails_the_call_not_the_machine(world):
    async def run():
        async with world.client() as client:
            return await world.run(client, [world.grant("shed.eats")])

    (ran,) = asyncio.run(run())
    assert ran.code == "tool.out_of_memory"


def test_cancelling_a_run_ends_its_calls_and_no_other_runs(world):
    marks = [world.mark(name) for name in ("slow", "hang", "other")]

    async def run():
        async with world.client() as client:
            mine = [
                world.grant("shed.slow", {"name": "slow"}, step="s1", run_id="mine"),
                world.grant("shed.hang", {"name": "hang"}, step="s2", run_id="mine"),
            ]
            other = [world.grant("shed.slow", {"name": "other"}, run_id="other", deadline_ms=1_500)]
            running = asyncio.gather(
                world.run(client, mine, mode="concurrent"), world.run(client, other, mode="concurrent")
            )
            await asyncio.gather(*(begun() for begun in marks))
            assert await client.cancel("mine") == 1
            return await running

    mine, other = asyncio.run(run())
    assert [one.code for one in mine] == ["tool.cancelled", "tool.cancelled"]
    assert other[0].code == "tool.timeout"


def test_an_executor_that_goes_away_leaves_no_read_running(world):
    begun = world.mark("begun")

    async def run():
        async with world.client() as client:
            task = asyncio.create_task(world.run(client, [world.grant("shed.slow", {"name": "begun"})]))
            await begun()
            await client.close()
            with pytest.raises(DulyError) as why:
                await task
            return why.value.code

    assert asyncio.run(run()) == "runtime.host_lost"
    assert not wait_until_gone(lambda: _alive(_pids(world)), 5)


def test_a_killed_host_leaves_no_worker_and_its_client_learns_of_it(world):
    begun = world.mark("begun")

    async def run():
        async with world.client() as client:
            granted = world.grant("shed.family", {"name": "begun"})
            task = asyncio.create_task(world.run(client, [granted]))
            await begun()
            world.kill()
            with pytest.raises(DulyError) as why:
                await task
            gone = await asyncio.to_thread(wait_until_gone, lambda: _alive(_pids(world)), 5)
            world.start()
            hello = await client.hello()  # the same client, on a new connection
            return why.value.code, gone, hello["class"]

    assert asyncio.run(run()) == ("runtime.host_lost", set(), "read")


def test_a_polite_stop_with_a_client_connected_is_quiet_and_quick(world, capfd):
    async def run():
        async with world.client() as client:
            await world.run(client, [world.grant("shed.quick")])
            assert world.process is not None
            world.process.terminate()
            status = await asyncio.to_thread(world.process.wait, 5)
            with pytest.raises(DulyError):
                await client.hello()
            return status

    assert asyncio.run(run()) == 0
    assert capfd.readouterr().err == ""


def test_a_killed_zygote_is_replaced(world):
    async def run():
        async with world.client() as client:
            (first,) = await world.run(client, [world.grant("shed.quick", step="s1")])
            with open(f"/proc/{first.output}/stat", encoding="utf-8") as file:
                zygote = int(file.read().rpartition(")")[2].split()[1])
            os.kill(zygote, signal.SIGKILL)
            gone = await asyncio.to_thread(wait_until_gone, lambda: _alive({zygote, first.output}), 5)
            codes = []
            for number in range(2, 4):
                (ran,) = await world.run(client, [world.grant("shed.quick", step=f"s{number}")])
                codes.append(ran.code)
            return gone, codes[-1]

    assert asyncio.run(run()) == (set(), "")
