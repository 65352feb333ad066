"""Who follows a run sees every event once and in order, however closely groups of them come one after the other."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from duly.actors.harness import followers
from duly.protocol.machine.events import event
from duly.protocol.machine.phases import Phase
from duly.storage.recovery import Recorded


def group(first: int, last: int) -> list[Recorded]:
    return [
        Recorded(seq, 1_790_000_000_000, "r", 1, "", event("step.skipped", step_id=f"s{seq}"))
        for seq in range(first, last + 1)
    ]


def run_in(phase: Phase) -> Any:
    return SimpleNamespace(phase=phase)


@pytest.fixture(autouse=True)
def _short_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "result_object", lambda run: {"phase": str(run.phase)})


async def seen(told: list[list[tuple[list[Recorded], Phase]]], *, history: list[Recorded]) -> list[Any]:
    """What a follower is shown when the groups of each list of ``told`` are published at one moment."""
    watching = followers.Followers()
    found: list[Any] = []

    async def follow() -> None:
        async for answer in watching.follow(
            "r", after=-1, history=lambda: history, current=lambda: run_in(Phase.RUNNING)
        ):
            found.append(answer["event"]["seq"] if "event" in answer else answer["result"]["phase"])

    following = asyncio.create_task(follow())
    for moment in told:
        for _ in range(5):  # until it waits for news
            await asyncio.sleep(0)
        for records, phase in moment:
            watching.publish("r", records, run_in(phase))
    await asyncio.wait_for(following, 5)
    return found


@pytest.mark.parametrize("together", [1, 2, 3])
def test_groups_at_one_moment_are_shown_in_order(together: int):
    groups = [(group(4 * n, 4 * n + 3), Phase.RUNNING) for n in range(1, together + 1)]
    end = (group(4 * together + 4, 4 * together + 4), Phase.COMPLETED)
    found = asyncio.run(seen([groups, [end]], history=group(0, 3)))
    assert found == [*range(4 * together + 5), "COMPLETED"]


def test_what_stood_in_the_history_already_is_not_shown_again():
    found = asyncio.run(
        seen([[(group(2, 5), Phase.RUNNING), (group(6, 6), Phase.FAILED)]], history=group(0, 3))
    )
    assert found == [0, 1, 2, 3, 4, 5, 6, "FAILED"]


def test_nothing_is_shown_after_the_result():
    found = asyncio.run(seen([[(group(1, 1), Phase.WAITING_INPUT)]], history=group(0, 0)))
    assert found == [0, 1, "WAITING_INPUT"]
