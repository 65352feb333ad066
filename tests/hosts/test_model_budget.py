"""A run spends on models what its mandate allows, by both hosts together, whatever happens to a call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from duly.actors.model_session import Session, user
from duly.actors.prompt import load
from duly.hosts.models.client import ModelHostClient
from duly.hosts.models.ledger import RunLedger, Spent
from duly.protocol.plan.model_call import ModelUse
from duly.protocol.wire.errors import ModelError, RuntimeFault
from host_world import now_ms
from model_host_world import SCHEMA, ModelHostWorld, call_of
from scripted_model import Pauses
from scripted_model_server import ScriptedModelServer, drips, drops, holds, refuses, says

GOOD = {"answer": 1}
FAR = 1 << 45
CALL = call_of()


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def test_an_answer_gets_what_is_left_of_the_call_and_of_the_run(host):
    with ScriptedModelServer(lambda asked: says(GOOD, usage=(100, 1_000))) as server:
        host.renew(server.base_url)
        order = host.mandate(budget={"model_tokens": 3_000})
        answers = host.ask_all([call_of(tokens=1_500)] + [call_of(tokens=100_000)] * 3, mandate=order)
        sent = [request.body["max_tokens"] for request in server.requests]
    assert [answer.error is None for answer in answers] == [True, True, True, False]
    assert answers[-1].error.code == "model.budget"
    assert sent[0] < 1_500 < sent[1] < 3_000 - 1_100 and all(limit > 0 for limit in sent)
    assert host.spent()[0] == sum(answer.use.tokens for answer in answers)
    assert (answers[-1].request, answers[-1].use.tokens) == (b"", 0)


def test_a_prompt_that_takes_everything_is_not_sent(host):
    with ScriptedModelServer([GOOD]) as server:
        host.renew(server.base_url)
        answer = host.ask(call_of("word " * 4_000, tokens=5_000))
    assert (answer.error.code, server.requests, host.spent()) == ("model.budget", [], (0, 0))


def test_a_server_that_takes_more_than_it_was_given_ends_the_run_s_budget(host):
    with ScriptedModelServer(lambda asked: says(GOOD, usage=(50, 90_000))) as server:
        host.renew(server.base_url)
        order = host.mandate(budget={"model_tokens": 50_000})
        first, second = host.ask_all([CALL, CALL], mandate=order)
    assert first.value == GOOD
    assert (second.error.code, host.spent()[0], len(server.requests)) == ("model.budget", 90_050, 1)


@pytest.mark.parametrize(
    ("reply", "costs"), [(refuses(500), False), (refuses(401), False), (drops(), True), (says("no"), True)]
)
def test_what_a_failed_call_costs(host, reply, costs):
    with ScriptedModelServer([reply]) as server:
        host.renew(server.base_url)
        answer = host.ask()
    assert answer.error is not None
    assert (host.spent()[0] > 0) is costs
    assert host.spent()[0] == answer.use.tokens < 1_000


def test_the_mandate_is_looked_at(host):
    with ScriptedModelServer([]) as server:
        host.renew(server.base_url)
        stranger = Ed25519PrivateKey.generate()
        cases = {
            "mandate.unknown_key": host.mandate(signed_by=stranger),
            "mandate.other_run": host.mandate(run_id="run-x"),
            "mandate.expired": host.mandate(expires_ms=now_ms() - 1),
            "mandate.from_the_future": host.mandate(issued_ms=now_ms() + 3_600_000),
            "mandate.other_package": host.mandate(package="0" * 64),
        }
        codes = {code: host.ask(mandate=order).error.code for code, order in cases.items()}
        assert host.ask(mandate=b"").error is not None
    assert all(code == found for code, found in codes.items())
    assert server.requests == [] and host.spent() == (0, 0)


def test_cancelling_a_run_closes_its_call_and_those_that_wait(host):
    with ScriptedModelServer(lambda asked: drips()) as server:
        host.renew(server.base_url)

        async def told(client: ModelHostClient):
            order = host.mandate()
            asks = [asyncio.create_task(client.ask(host.package, host.run_id, CALL, order)) for _ in range(2)]
            await asyncio.to_thread(server.arrived.acquire)
            while await client.cancel(host.run_id) < 2:
                await asyncio.sleep(0)
            return await asyncio.gather(*asks), await client.cancel(host.run_id)

        answers, more = host.talk(told)
        assert server.gone.acquire(timeout=10), "the server hears that nobody wants its answer"
    assert [answer.error.code for answer in answers] == ["model.cancelled"] * 2
    assert (more, len(server.requests)) == (0, 1), "calls of one run come one after the other"
    assert host.spent()[0] == sum(answer.use.tokens for answer in answers) > 0
    assert answers[0].request == server.requests[0].raw


def test_who_stops_waiting_ends_only_its_own_call(host):
    def answer(asked):
        return holds() if "first" in asked.texts else GOOD

    with ScriptedModelServer(answer) as server:
        host.renew(server.base_url)

        async def told(client: ModelHostClient):
            order = host.mandate()
            first = asyncio.create_task(client.ask(host.package, host.run_id, call_of("first"), order))
            await asyncio.to_thread(server.arrived.acquire)
            second = asyncio.create_task(client.ask(host.package, host.run_id, call_of("second"), order))
            await asyncio.sleep(0)
            first.cancel()
            return await second

        assert host.talk(told).value == GOOD


def test_a_host_that_dies_leaves_its_call_booked_and_the_client_knows():
    with ModelHostWorld() as world, ScriptedModelServer(lambda asked: holds()) as server:
        world.renew(server.base_url)

        async def told(client: ModelHostClient):
            ask = asyncio.create_task(client.ask(world.package, world.run_id, CALL, world.mandate()))
            await asyncio.to_thread(server.arrived.acquire)
            world.process.kill()
            with pytest.raises(RuntimeFault) as caught:
                await ask
            world.process.wait()
            with pytest.raises(RuntimeFault) as again:
                await client.ask(world.package, world.run_id, CALL, world.mandate())
            return caught.value.code, again.value.code

        assert world.talk(told) == ("runtime.host_lost", "runtime.host_unreachable")
        booked = world.spent()[0]
        assert 4_000 < booked <= CALL.tokens_max
        world.process = None
        world.start()
        order = world.mandate(budget={"model_tokens": booked + 100})
        assert world.ask(mandate=order).error.code == "model.budget"


def test_a_run_says_no_less_than_the_books_of_its_hosts():
    """The host dies with a call under way; the next one, started anew, answers. All of it is in the run's own record."""
    answers = iter([holds(), GOOD])
    with ModelHostWorld() as world, ScriptedModelServer(lambda asked: next(answers)) as server:
        world.renew(server.base_url)

        async def told(client: ModelHostClient) -> list[ModelUse]:
            async def start_again() -> None:
                await asyncio.to_thread(world.process.wait)
                await asyncio.to_thread(world.start)

            asked = Session(
                client,
                package=world.package,
                run_id=world.run_id,
                mandate=world.mandate(),
                tokens_max=60_000,
                sleep=Pauses(meanwhile=start_again),
            )
            call = asyncio.create_task(
                asked.ask("reason", load("planner", "reason"), [user("How many?")], "count", SCHEMA)
            )
            await asyncio.to_thread(server.arrived.acquire)
            world.process.kill()
            assert await call == GOOD
            return [used.use for used in asked.uses]

        uses = world.talk(told)
        assert [use.code for use in uses] == ["model.lost", ""]
        assert sum(use.tokens for use in uses) == world.spent()[0] > 16_000


def test_a_call_that_is_too_long_for_a_message(host):
    long = call_of("x" * 400_000, tokens=1_000_000)
    long = long.model_copy(update={"messages": long.messages * 3})
    assert host.ask(long).error.code == "model.context_overflow"


SPEND = """
import pathlib, sys
from duly.hosts.models.ledger import RunLedger
from duly.protocol.wire.errors import ModelError
ledger = RunLedger(pathlib.Path(sys.argv[1]))
sys.stdin.readline()
try:
    while True:
        ledger.book("r", 10, 1, left=(5_000, 5_000), expires_ms=1 << 45)
except ModelError as problem:
    print(problem.code)
"""


def test_two_hosts_together_do_not_pass_the_limit(tmp_path):
    path = str(tmp_path / "spent")
    argv = [sys.executable, "-c", SPEND, path]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [one.communicate(timeout=60)[0] for one in both] == ["model.budget\n"] * 2
    assert RunLedger(Path(path)).spent("r") == Spent(5_000, 500)


def test_a_line_that_a_crash_cut_is_dropped_and_another_is_a_fault(tmp_path):
    path = tmp_path / "spent"
    RunLedger(path).book("r", 10, 1, left=(100, 100), expires_ms=FAR)
    with open(path, "ab") as file:
        file.write(b"99 r 5")
    assert RunLedger(path).spent("r") == Spent(10, 1)
    assert path.read_bytes() == b"%d r 10 1\n" % FAR
    with open(path, "ab") as file:
        file.write(b"rubbish\n")
    with pytest.raises(RuntimeFault, match=r"ledger_damaged"):
        RunLedger(path).spent("r")


def test_long_books_forget_expired_runs_and_the_other_host_notices(tmp_path):
    path = tmp_path / "spent"
    first, second = RunLedger(path), RunLedger(path)
    first.book("old", 5, 5, left=(9, 9), expires_ms=1)
    second.book("new", 7, 7, left=(9, 9), expires_ms=FAR)
    with open(path, "ab") as file:
        file.write(b"1 old 0 0\n" * 110_000)
    first.drop_expired(1_000)
    assert path.stat().st_size < 100
    assert [ledger.spent("new") for ledger in (first, second)] == [Spent(7, 7)] * 2
    assert second.spent("old") == Spent()


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(-50, 20)), max_size=30))
def test_the_sum_never_passes_the_limit_by_booking(tmp_path_factory, calls):
    ledger = RunLedger(tmp_path_factory.mktemp("books") / "spent")
    spent = 0
    for tokens, difference in calls:
        try:
            ledger.book("r", tokens, 0, left=(100, 0), expires_ms=FAR)
        except ModelError as problem:
            assert problem.code == "model.budget" and spent + tokens > 100
            continue
        assert spent + tokens <= 100
        difference = max(difference, -tokens)
        ledger.settle("r", difference, 0, expires_ms=FAR)
        spent += tokens + difference
        assert ledger.spent("r").tokens == spent
