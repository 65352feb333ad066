"""A run that has ended asks no model any more, also where whoever asks for it is in a pause between two tries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from duly.actors.harness.thinker import Thinker
from duly.actors.model_session import Session, user
from duly.actors.prompt import load
from duly.hosts.models.client import ModelHostClient
from duly.hosts.models.ended import EndedRuns
from duly.protocol.machine.phases import Phase
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.limits import MODEL_ENDED_RUNS_MAX
from model_host_world import SCHEMA, ModelHostWorld
from scripted_model import Pauses
from scripted_model_server import ScriptedModelServer, holds, refuses

FAR = 1 << 45
GOOD = {"answer": 1}


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def asked(host: ModelHostWorld, client: ModelHostClient, pauses: Pauses) -> Any:
    session = Session(
        client,
        package=host.package,
        run_id=host.run_id,
        mandate=host.mandate(),
        tokens_max=20_000,
        sleep=pauses,
    )
    return session.ask("reason", load("planner", "reason"), [user("How many?")], "count", SCHEMA)


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "taken over"])
def test_a_try_after_the_end_does_not_reach_the_server(host, ended):
    with ScriptedModelServer([refuses(429, retry_after=6), GOOD, GOOD]) as server:
        host.renew(server.base_url)

        async def told(client: ModelHostClient) -> Any:
            until_ms = FAR if ended else 0
            pauses = Pauses(meanwhile=lambda: client.cancel(host.run_id, until_ms))
            try:
                return await asked(host, client, pauses), pauses.seconds
            except ModelError as error:
                return error.code, pauses.seconds

        made, seconds = host.talk(told)
    assert seconds == [6.0]
    assert made == ("model.cancelled" if ended else GOOD)
    assert len(server.requests) == (1 if ended else 2)


def test_the_end_of_one_run_is_none_of_another_and_outlasts_a_later_word(host):
    with ScriptedModelServer(lambda _: GOOD) as server:
        host.renew(server.base_url)
        gone = host.run_id

        async def end(client: ModelHostClient) -> None:
            await client.cancel(gone, FAR)
            await client.cancel(gone)  # of a harness that took over and had not heard of the end

        host.talk(end)
        assert host.ask().error.code == "model.cancelled"
        assert host.spent() == (0, 0)
        host.run_id = "another"
        assert host.ask().value == GOOD
    assert len(server.requests) == 1


def test_a_call_that_is_under_way_ends_with_its_run(host):
    with ScriptedModelServer(lambda _: holds()) as server:
        host.renew(server.base_url)

        async def told(client: ModelHostClient) -> Any:
            call = asyncio.create_task(asked(host, client, Pauses()))
            await asyncio.to_thread(server.arrived.acquire)
            count = await client.cancel(host.run_id, FAR)
            with pytest.raises(ModelError, match=r"model\.cancelled"):
                await call
            return count

        assert host.talk(told) == 1
    assert len(server.requests) == 1


def test_ended_runs_are_kept_until_their_mandates_expire_and_are_bounded():
    ended = EndedRuns()
    for number in range(MODEL_ENDED_RUNS_MAX):
        ended.add(f"r{number}", 10 if number % 2 else 100, now_ms=5)
    assert len(ended) == MODEL_ENDED_RUNS_MAX
    ended.add("more", 100, now_ms=50)
    assert len(ended) == MODEL_ENDED_RUNS_MAX // 2 + 1
    ended.check("r1")  # expired: its mandate refuses it now
    for name in ("r0", "more"):
        with pytest.raises(ModelError):
            ended.check(name)
    for number in range(MODEL_ENDED_RUNS_MAX):
        ended.add(f"s{number}", 100, now_ms=50)
    assert len(ended) == MODEL_ENDED_RUNS_MAX
    ended.check("r0")
    with pytest.raises(ModelError):
        ended.check("s0")


class Heard:
    """A model host that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    async def which(self, package: str) -> str:
        return ""

    async def cancel(self, run_id: str, ended_until_ms: int = 0) -> int:
        self.told.append((run_id, ended_until_ms))
        return 0


@pytest.mark.parametrize("phase", Phase)
def test_the_harness_says_whether_a_run_has_ended(phase):
    planner, critic = Heard(), Heard()
    thinker = Thinker(None, None, lambda run_id: [], {"planner": planner, "critic": critic})
    run: Any = SimpleNamespace(
        run_id="r", phase=phase, mandate=SimpleNamespace(expires_ms=77), has_model=True, has_critic=True
    )
    asyncio.run(thinker.silence(run))
    assert planner.told == critic.told == [("r", 77 if phase.ended else 0)]
