"""Races of what people and harnesses do: one outcome each, the loser is told so by its code, no effect twice.

Two hundred of each, every one in another order that its number decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from duly.hosts.installation import Installation
from duly.hosts.supervisor import held
from duly.protocol.wire.errors import DulyError, RuntimeFault
from duly.storage.recovery import load_run
from harness_in_process import Harness, World, wait

RACES = 200
FREE = "bounded_autonomous"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path / "home")
    yield one
    one.close()


async def races(world: World) -> AsyncIterator[tuple[int, Harness, str]]:
    """One harness, and for each race its number and the thing that its run is to send."""
    async with world.harness() as harness:
        for number in range(RACES):
            world.chance.seed(number)
            yield number, harness, f"thing-{number}"


def agrees(harness: Harness, run_id: str) -> str:
    """Where the run is; the harness and the record say the same."""
    run, _ = load_run(harness.world.journal, harness.world.artifacts, run_id)
    assert run == harness.core.runs[run_id]
    return str(run.phase)


async def before(harness: Harness, run_id: str, number: int) -> None:
    """When the second of two acts of a race comes: in one of ten after the run has ended, else somewhere on its way."""
    if number % 10 == 0:
        while run_id not in harness.core.runs or not harness.core.runs[run_id].phase.ended:
            await asyncio.sleep(0)
    for _ in range(turns(harness)):
        await asyncio.sleep(0)


def turns(harness: Harness) -> int:
    return harness.world.chance.choice((0, 3, 10, 30, 100, 300, 1_000))


async def ended(harness: Harness, run_id: str) -> str:
    with contextlib.suppress(DulyError):
        await harness.ask("follow", run_id=run_id, after=-1)
    return agrees(harness, run_id)


def test_two_approvals(world: World):
    async def run() -> Counter[tuple[str, ...]]:
        seen: Counter[tuple[str, ...]] = Counter()
        async for _, harness, thing in races(world):
            order = await harness.order(thing)
            run_id = order["run_id"]
            assert await harness.told("submit", **order) == "WAITING_APPROVAL"
            approvals = [await harness.approval(run_id) for _ in range(2)]
            assert approvals[0] != approvals[1]
            told = await asyncio.gather(
                *(harness.told("approve", run_id=run_id, approval=one) for one in approvals)
            )
            assert sorted(told) == ["COMPLETED", "gate.already_decided"]
            assert (agrees(harness, run_id), world.sent.count(thing)) == ("COMPLETED", 1)
            seen[tuple(told)] += 1
        return seen

    assert len(asyncio.run(run())) == 2, "each of the two won sometimes"


def test_approve_against_cancel(world: World):
    async def run() -> Counter[tuple[str, str, int]]:
        seen: Counter[tuple[str, str, int]] = Counter()
        async for number, harness, thing in races(world):
            order = await harness.order(thing)
            run_id = order["run_id"]
            await harness.told("submit", **order)
            approval = await harness.approval(run_id)

            async def approve(
                number: int = number, harness: Harness = harness, run_id: str = run_id, it: bytes = approval
            ) -> str:
                await before(harness, run_id, number + 1 if number % 2 else 1)
                return await harness.told("approve", run_id=run_id, approval=it)

            async def cancel(number: int = number, harness: Harness = harness, run_id: str = run_id) -> str:
                await before(harness, run_id, number)
                return await harness.told("cancel", run_id=run_id)

            approved, cancelled = await asyncio.gather(approve(), cancel())
            phase, sent = await ended(harness, run_id), world.sent.count(thing)
            if cancelled == "run.ended":
                assert (approved, phase, sent) == ("COMPLETED", "COMPLETED", 1)
            else:
                assert (cancelled, phase) == ("CANCELLED", "CANCELLED")
                assert approved in ("CANCELLED", "gate.already_decided")
                assert approved == "CANCELLED" or sent == 0, "what nobody approved did not happen"
                assert sent <= 1
                said = harness.core.runs[run_id].message
                known = harness.core.runs[run_id].steps["w"].status in ("succeeded", "pending")
                assert known or "nobody can say" in said or sent == 0, said
            seen[approved, phase, sent] += 1
        return seen

    seen = asyncio.run(run())
    assert {phase for _, phase, _ in seen} == {"COMPLETED", "CANCELLED"}, seen
    assert any(approved == "gate.already_decided" for approved, _, _ in seen), seen


def test_cancel_against_completion(world: World):
    async def run() -> Counter[str]:
        seen: Counter[str] = Counter()
        async for number, harness, thing in races(world):
            order = await harness.order(thing, FREE)
            run_id = order["run_id"]

            async def cancel(number: int = number, harness: Harness = harness, run_id: str = run_id) -> str:
                while run_id not in harness.core.runs:
                    await asyncio.sleep(0)
                await before(harness, run_id, number)
                return await harness.told("cancel", run_id=run_id)

            told, cancelled = await asyncio.gather(harness.told("submit", **order), cancel())
            phase, sent = await ended(harness, run_id), world.sent.count(thing)
            assert told == phase
            assert (cancelled, phase) in (("run.ended", "COMPLETED"), ("CANCELLED", "CANCELLED"))
            assert sent == 1 if phase == "COMPLETED" else sent <= 1
            seen[phase] += 1
        return seen

    assert set(asyncio.run(run())) == {"COMPLETED", "CANCELLED"}


def test_answer_against_cancel(world: World):
    async def run() -> Counter[tuple[str, str]]:
        seen: Counter[tuple[str, str]] = Counter()
        async for number, harness, thing in races(world):
            order = await harness.order(thing, FREE)
            run_id = order["run_id"]
            world.hosts["write"].forgets = True
            assert await harness.told("submit", **order) == "WAITING_INPUT"
            world.hosts["write"].forgets = False

            async def answer(number: int = number, harness: Harness = harness, run_id: str = run_id) -> str:
                await before(harness, run_id, number + 1 if number % 2 else 1)
                return await harness.told("answer", run_id=run_id, text="it happened")

            async def cancel(number: int = number, harness: Harness = harness, run_id: str = run_id) -> str:
                await before(harness, run_id, number)
                return await harness.told("cancel", run_id=run_id)

            answered, cancelled = await asyncio.gather(answer(), cancel())
            phase = await ended(harness, run_id)
            assert world.sent.count(thing) == 1
            assert phase in ("COMPLETED", "CANCELLED")
            assert cancelled == ("CANCELLED" if phase == "CANCELLED" else "run.ended")
            assert answered in (phase, "run.not_asked")
            assert answered != "run.not_asked" or phase == "CANCELLED"
            seen[answered, cancelled] += 1
        return seen

    seen = asyncio.run(run())
    assert ("run.not_asked", "CANCELLED") in seen and len(seen) > 1, seen


def test_two_answers(world: World):
    async def run() -> None:
        async for _, harness, thing in races(world):
            order = await harness.order(thing, FREE)
            run_id = order["run_id"]
            world.hosts["write"].forgets = True
            assert await harness.told("submit", **order) == "WAITING_INPUT"
            world.hosts["write"].forgets = False
            told = await asyncio.gather(
                *(harness.told("answer", run_id=run_id, text="it happened") for _ in range(2))
            )
            assert sorted(told) == ["COMPLETED", "run.not_asked"]
            assert (agrees(harness, run_id), world.sent.count(thing)) == ("COMPLETED", 1)

    asyncio.run(run())


def test_resume_against_resume(world: World):
    """A harness dies anywhere; two start at once and both take its runs up. One of them has the younger epoch."""

    async def run() -> None:
        seen: Counter[str] = Counter()
        for number in range(RACES):
            world.chance.seed(number)
            thing = f"thing-{number}"
            async with world.harness() as first:
                order = await first.order(thing, FREE)
                submitted = asyncio.create_task(first.told("submit", **order))
                while not world.journal.run_seqs(order["run_id"]):
                    await asyncio.sleep(0)
                for _ in range(turns(first)):
                    await asyncio.sleep(0)
                submitted.cancel()
            seen[await _taken_over(world, order["run_id"])] += 1
            assert world.sent.count(thing) == 1
        print(seen)

    asyncio.run(run())


async def _taken_over(world: World, run_id: str) -> str:
    """Two harnesses at once; gives what became of the older one. The run ends with one of them."""
    async with contextlib.AsyncExitStack() as stack:
        both = [Harness(world) for _ in range(2)]

        async def start(one: Harness) -> str:
            await wait(world.chance)
            try:
                await one.start()
            except DulyError as error:
                return error.code
            return ""

        for one in both:
            stack.push_async_callback(one.close)
        codes = await asyncio.gather(*(start(one) for one in both))
        older, younger = sorted(range(2), key=lambda index: both[index].core.epoch)
        assert codes[younger] == "", codes
        if run_id in both[younger].core.runs:
            assert await ended(both[younger], run_id) == "COMPLETED"
        assert str(both[younger].record.load(run_id).phase) == "COMPLETED"
        # Whatever the older one still wants to record is refused, by the journal or by what it reads there.
        told = codes[older] or ",".join(error.code for error in both[older].gave_up) or "nothing to do"
        assert told in ("log.stale_epoch", "run.already_resumed", "nothing to do"), told
        return told


def test_two_runtimes_on_one_data_directory(tmp_path: Path):
    """One supervisor has it, the other is told which process that is."""
    installation = Installation(tmp_path)
    for _ in range(RACES):
        both = threading.Barrier(2)
        told: list[str] = []

        def take(both: threading.Barrier = both, told: list[str] = told) -> None:
            both.wait()
            try:
                with held(installation):
                    told.append("")
                    both.wait()
            except RuntimeFault as fault:
                told.append(fault.code)
                both.wait()

        threads = [threading.Thread(target=take) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert sorted(told) == ["", "runtime.held"]
