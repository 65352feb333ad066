"""A new harness asks the write host what became of effects that were under way, before the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.actors.harness import settler
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.machine import stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.wire import canon
from harness_in_process import Harness, World
from plans import plan, ref, step, table, tool

R = tool("r")
UNSAFE = tool("w", "write")
KEYED = tool("k", "write", idempotency="key")
ALL = table(R, UNSAFE, KEYED)

Settle = Callable[[Run], list[StepOutcome]]


class Restarted(Driver):
    """A driver whose new harness has asked the write host. ``settle`` says what the host answers."""

    settle: Settle = staticmethod(lambda run: [])

    def resume(self) -> None:
        self.todo.clear()
        self.timers.clear()
        self.run = self.checked()
        self.epoch += 1
        told = type(self).settle(self.run)
        self.give(stimuli.Resumed(**self.moment(), epoch=self.epoch, settled=told))


def outcome(run: Run, step_id: str, kind: Any, **fields: Any) -> StepOutcome:
    """What a host knows of a step that is under way."""
    state = run.steps[step_id]
    arguments = run.step(step_id).tool_contract.arguments
    if kind == "ok":
        fields |= {
            "output": canon.encode({"key": 1, "from": "host"}),
            "receipt": b"receipt",
            "arguments": arguments_digest(arguments),
        }
    return StepOutcome(step_id=step_id, attempt=state.attempts, wave=state.wave, outcome=kind, **fields)


def crashed_in_write(settle: Settle, write: Any = UNSAFE) -> tuple[Driver, list[str]]:
    """A plan of a read, a write and a read of the write's result. The harness dies when the write's start is durable,
    before the write is sent; ``settle`` is the host's answer to the next one. Gives the calls that ran after it, too."""
    ran: list[str] = []

    def runs(name: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            ran.append(name)
            return {"key": 1, "from": "call"}

        return call

    steps = [
        step("s1", R, {"key": 1}),
        step("s2", write, {"key": 1}, needs=["s1"], reader=R),
        step("s3", R, {"key": ref("s2", "/from")}),
    ]
    kind = type("Once", (Restarted,), {"settle": staticmethod(settle)})
    driver = kind(
        Answers(tools={"t.r": runs("read"), write.full_name: runs("write")}),
        ALL,
        plan=plan(steps),
        settings={"tier": "bounded_autonomous"},
    )
    driver.crash_after = 10_000
    size = _start_of("s2", steps, write)
    driver.crash_after = size
    driver.submit()
    return driver, ran


def _start_of(step_id: str, steps: list[Any], write: Any) -> int:
    """How many events are durable when a step has been started: found by a run without a crash."""
    answers = Answers(
        tools={"t.r": lambda **_: {"key": 1}, write.full_name: lambda **_: {"key": 1, "from": "call"}}
    )
    driver = Driver(answers, ALL, plan=plan(steps), settings={"tier": "bounded_autonomous"})
    driver.submit()
    return next(
        number
        for number, one in enumerate(driver.events, 1)
        if one.kind == "step.started" and one.facts["step_id"] == step_id
    )


def test_a_write_that_never_began_is_started_again_without_asking_anybody():
    driver, ran = crashed_in_write(lambda run: [outcome(run, "s2", "not_started", code="tool.not_started")])
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED
    assert ran.count("write") == 1
    assert driver.facts("step.outcome_unknown") == []
    starts = [facts for facts in driver.facts("step.started") if facts["step_id"] == "s2"]
    assert [facts["attempt"] for facts in starts] == [1, 1], "a start that came to nothing is no attempt"
    assert starts[0]["wave"] < starts[1]["wave"], "the second grant has a nonce of its own"


def test_the_result_of_a_write_that_is_done_counts_and_nothing_runs_again():
    driver, ran = crashed_in_write(lambda run: [outcome(run, "s2", "ok")])
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED
    assert ran.count("write") == 0, "the host had run it for the harness that died"
    assert driver.run.steps["s2"].receipt != ""
    assert driver.record.get("r1", driver.run.steps["s2"].output) == canon.encode({"key": 1, "from": "host"})
    kinds = driver.kinds()
    assert kinds.index("run.resumed") > kinds.index("step.succeeded", kinds.index("step.started"))


@pytest.mark.parametrize("told", [[], ["lost"]])
def test_a_write_of_which_the_host_knows_nothing_is_asked_of_the_person(told):
    driver, ran = crashed_in_write(lambda run: [outcome(run, "s2", kind) for kind in told])
    assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
    assert driver.run.asked is not None and driver.run.asked.about == "outcome:s2"
    assert ran.count("write") == 0


def test_an_idempotent_write_of_which_the_host_knows_nothing_runs_again_with_the_same_key():
    driver, ran = crashed_in_write(lambda run: [], KEYED)
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED
    assert ran.count("write") == 1
    keys = {
        call.idempotency_key
        for order in driver.performed
        for call in getattr(order, "calls", ())
        if call.step_id == "s2"
    }
    assert len(keys) == 1 and keys != {""}


def test_a_write_that_the_host_killed_at_its_deadline_is_unknown():
    driver, ran = crashed_in_write(lambda run: [outcome(run, "s2", "unknown", code="tool.timeout")])
    assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
    assert ran.count("write") == 0


def test_a_write_that_failed_leads_where_its_contract_says():
    driver, ran = crashed_in_write(
        lambda run: [outcome(run, "s2", "error", code="tool.failed", message="no room")]
    )
    assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
    assert driver.run.asked is not None and driver.run.asked.about == "step:s2"
    assert ran.count("write") == 0


def test_a_result_for_other_arguments_is_none():
    def other(run: Run) -> list[StepOutcome]:
        state = run.steps["s2"]
        return [
            StepOutcome(
                step_id="s2",
                attempt=state.attempts,
                wave=state.wave,
                outcome="ok",
                output=canon.encode({"key": 1}),
                arguments=arguments_digest({"key": 2}),
            )
        ]

    driver, ran = crashed_in_write(other)
    assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
    assert ran.count("write") == 0


def test_what_a_host_says_of_another_attempt_changes_nothing():
    def stale(run: Run) -> list[StepOutcome]:
        state = run.steps["s2"]
        return [StepOutcome(step_id="s2", attempt=state.attempts, wave=state.wave - 1, outcome="not_started")]

    driver, ran = crashed_in_write(stale)
    assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
    assert ran.count("write") == 0


class TestSilentHost:
    """While the host does not say what became of an effect, whoever holds its grant may still use it."""

    @pytest.fixture
    def world(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
        monkeypatch.setattr(settler, "SETTLE_AGAIN_SECONDS", 0.001)
        one = World(tmp_path / "home")
        one.hosts["write"].forgets = one.hosts["write"].silent = True
        yield one
        one.close()

    @staticmethod
    async def asked(world: World, times: int) -> None:
        while world.hosts["write"].asked < times:
            await asyncio.sleep(0)

    def test_nobody_is_told_that_an_effect_is_lost_before_the_host_has_answered(self, world: World):
        async def run() -> None:
            async with world.harness() as harness:
                order = await harness.order("thing", "bounded_autonomous")
                submitted = asyncio.create_task(harness.told("submit", **order))
                await self.asked(world, 5)
                run = harness.core.runs[order["run_id"]]
                assert (run.phase, run.steps["w"].status) == (Phase.RUNNING, "started")
                world.hosts["write"].silent = False
                assert await submitted == "WAITING_INPUT"
                assert await harness.told("answer", run_id=run.run_id, text="it happened") == "COMPLETED"

        asyncio.run(run())
        assert world.sent == ["thing"]

    def test_a_run_does_not_go_on_under_a_new_harness_before_the_host_has_answered(self, world: World):
        async def run() -> None:
            async with world.harness() as first:
                order = await first.order("thing", "bounded_autonomous")
                submitted = asyncio.create_task(first.told("submit", **order))
                await self.asked(world, 1)
                submitted.cancel()
            asked = world.hosts["write"].asked
            second = Harness(world)
            starting = asyncio.create_task(second.start())
            await self.asked(world, asked + 5)
            assert str(second.record.load(order["run_id"]).phase) == "RUNNING"
            world.hosts["write"].silent = False
            await starting
            assert str(second.record.load(order["run_id"]).phase) == "WAITING_INPUT"
            await second.close()

        asyncio.run(run())
        assert world.sent == ["thing"]

    def test_once_the_grant_has_expired_nobody_can_use_it_and_the_person_is_asked(self, world: World):
        async def run() -> str:
            async with world.harness() as harness:
                harness.settler._clock = SimpleNamespace(now_ms=lambda: 10**14)  # type: ignore[assignment]
                return await harness.told("submit", **await harness.order("thing", "bounded_autonomous"))

        assert asyncio.run(run()) == "WAITING_INPUT"
        assert world.sent == ["thing"]
