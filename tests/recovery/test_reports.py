"""Symptoms that other systems were reported for, which no other test of duly replays. All of them: ``docs/reports.md``."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.actors.harness import core
from duly.protocol.machine import stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.plan.plan import Escalate
from duly.protocol.wire.errors import StorageError
from harness_in_process import World
from plans import plan, ref, step, table, tool

A, B, C = tool("a", concurrent=True), tool("b", concurrent=True), tool("c")
W = tool("w", "write")
ALL = table(A, B, C, W)
FREE = {"tier": "bounded_autonomous"}
# Two reads at once, their join, a write, a read behind it.
DIAMOND = plan(
    [
        step("left", A, {"key": 1}),
        step("right", B, {"key": 2}),
        step("join", C, {"key": ref("left"), "other": ref("right")}),
        step("write", W, {"key": 3}, needs=["join"], reader=C),
        step("last", C, {"key": 4}, needs=["write"]),
    ]
)


def counted() -> tuple[Counter[tuple[str, Any]], dict[str, Any]]:
    """Tools that count their calls by their arguments."""
    calls: Counter[tuple[str, Any]] = Counter()

    def count(name: str) -> Any:
        def call(**arguments: Any) -> Any:
            calls[name, arguments["key"]] += 1
            return arguments

        return call

    return calls, {one.full_name: count(one.name) for one in ALL.values()}


def told(run: Any, phase: Phase) -> Any:
    assert run is not None and run.phase is phase, (run.phase, run.reason, run.message)
    return run


class TestGates:
    def test_2_nothing_before_a_gate_runs_again_when_it_opens(self):
        """However often the run was asked for between the gate and its decision."""
        calls, tools = counted()
        driver = Driver(Answers(tools=tools), ALL, plan=DIAMOND, settings={"gated_tools": ["t.w"]})
        told(driver.submit(), Phase.WAITING_APPROVAL)
        run = driver.approve()
        while run.phase is Phase.WAITING_APPROVAL:
            before = dict(calls)
            driver.resume()
            driver.resume()
            assert dict(calls) == before
            run = driver.approve()
        told(run, Phase.COMPLETED)
        reads = {name: count for name, count in calls.items() if name != ("c", 3)}  # which is the read-back
        assert set(reads.values()) == {1}, reads

    @pytest.mark.parametrize("when", ["crash_before", "crash_after"])
    def test_16_an_approval_whose_run_could_not_start_is_neither_lost_nor_stuck(self, when: str):
        calls, tools = counted()
        driver = Driver(Answers(tools=tools), ALL, plan=DIAMOND)
        told(driver.submit(), Phase.WAITING_APPROVAL)
        setattr(driver, when, len(driver.events) + 1)
        told(driver.approve(), Phase.COMPLETED)
        assert calls["w", 3] == 1
        gates = [facts["gate"] for facts in driver.facts("gate.asked")]
        assert [facts["gate"] for facts in driver.facts("plan.approved")] == gates

    def test_15_a_policy_that_changed_while_waiting_voids_what_was_signed_before(self):
        calls, tools = counted()
        driver = Driver(Answers(tools=tools), ALL, plan=DIAMOND)
        first = told(driver.submit(), Phase.WAITING_APPROVAL).gate.gate_id
        old = driver.approval().sign(driver.person)
        resume(driver, changed=["policy"], digests={"policy": "policy-2", "semantics": ""})
        assert driver.run is not None and driver.run.gate is not None and driver.run.gate.gate_id != first
        told(driver.give_approval(old), Phase.WAITING_APPROVAL)
        assert driver.refusals and calls["w", 3] == 0
        told(driver.approve(), Phase.COMPLETED)


def resume(driver: Driver, **what: Any) -> Any:
    """A new harness takes the run over, and finds this."""
    driver.epoch += 1
    driver.todo.clear()
    driver.give(stimuli.Resumed(**driver.moment(), epoch=driver.epoch, **what))
    return driver.go_on()


class TestResume:
    @pytest.mark.parametrize("when", ["crash_before", "crash_after"])
    def test_6_a_join_runs_once_wherever_the_run_was_cut(self, when: str):
        calm = Driver(Answers(tools=counted()[1]), ALL, plan=DIAMOND, settings=FREE)
        told(calm.submit(), Phase.COMPLETED)
        for point in range(1, len(calm.events) + 1):
            calls, tools = counted()
            driver = Driver(Answers(tools=tools), ALL, plan=DIAMOND, settings=FREE, **{when: point})
            run = driver.submit()
            while run.phase is Phase.WAITING_INPUT:
                run = driver.answer("it happened" if calls["w", 3] else "it did not")
            told(run, Phase.COMPLETED)
            done = Counter(facts["step_id"] for facts in driver.facts("step.succeeded"))
            assert max(done.values()) == 1, f"cut at {point}: {driver.story()}"
            assert calls["w", 3] == 1

    def test_7_what_never_ran_is_not_taken_for_done_when_a_failed_step_is_tried_again(self):
        calls, tools = counted()
        broken = [CallFailure("tool.broken")]

        def fails_once(**arguments: Any) -> Any:
            if broken:
                raise broken.pop()
            return tools["t.c"](**arguments)

        steps = [
            step("left", A, {"key": 1}),
            step("mid", C, {"key": ref("left")}, on_failure=(Escalate(),)),
            step("end", B, {"key": ref("mid")}),
        ]
        driver = Driver(Answers(tools={**tools, "t.c": fails_once}), ALL, plan=plan(steps), settings=FREE)
        told(driver.submit(), Phase.WAITING_INPUT)
        run = told(driver.answer("retry"), Phase.COMPLETED)
        assert {name: state.status for name, state in run.steps.items()} == dict.fromkeys(
            ("left", "mid", "end"), "succeeded"
        )
        assert calls["a", 1] == 1, "what was done is not done again"

    def test_5_answering_one_of_two_failed_steps_runs_only_that_one(self):
        calls, tools = counted()
        fails = Counter({1: 1, 2: 1})

        def fails_once(**arguments: Any) -> Any:
            calls["a", arguments["key"]] += 1
            if fails[arguments["key"]]:
                fails[arguments["key"]] -= 1
                raise CallFailure("tool.broken")
            return arguments

        steps = [step(f"s{key}", A, {"key": key}, on_failure=(Escalate(),)) for key in (1, 2, 3)]
        driver = Driver(Answers(tools={**tools, "t.a": fails_once}), ALL, plan=plan(steps), settings=FREE)
        run = told(driver.submit(), Phase.WAITING_INPUT)
        first = run.asked.about
        run = told(driver.answer("retry"), Phase.WAITING_INPUT)
        assert run.asked.about != first
        assert sorted(calls.values()) == [1, 1, 1] or sorted(calls.values()) == [1, 1, 2]
        told(driver.answer("retry"), Phase.COMPLETED)
        assert dict(calls) == {("a", 1): 2, ("a", 2): 2, ("a", 3): 1}

    def test_8_a_tool_that_is_described_differently_now_never_runs_on(self):
        calls, tools = counted()
        driver = Driver(Answers(tools=tools), ALL, plan=DIAMOND)
        told(driver.submit(), Phase.WAITING_APPROVAL)
        run = resume(driver, changed=["t.w"])
        assert (run.phase, run.reason) == (Phase.FAILED, "run.descriptors_changed")
        assert not calls and "t.w" in run.message

    def test_10_a_run_that_nothing_can_execute_says_so_and_goes_on_when_it_can(self):
        calls, tools = counted()
        driver = Driver(Answers(tools=tools), ALL, plan=DIAMOND)
        told(driver.submit(), Phase.WAITING_APPROVAL)
        run = resume(driver, stalled="storage.package_missing")
        assert (run.phase.ended, run.reason, run.next_owner) == (False, "run.no_executor", "operator")
        assert driver.facts("run.stalled")[-1]["code"] == "storage.package_missing"
        run = resume(driver)
        assert (run.phase, run.reason, run.next_owner) == (Phase.WAITING_APPROVAL, "gate.waiting", "person")
        told(driver.approve(), Phase.COMPLETED)
        assert calls["w", 3] == 1

    def test_9_a_disk_that_is_full_while_runs_are_recovered_leaves_none_of_them_pending(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(core, "DISK_WAIT_SECONDS_MIN", 0.001)
        world = World(tmp_path / "home")
        commit, left = world.journal.commit, [0]

        def full(groups: Any) -> None:
            if left[0]:
                left[0] -= 1
                raise StorageError("storage.full", "There is no room.")
            commit(groups)

        monkeypatch.setattr(world.journal, "commit", full)

        async def run() -> None:
            async with world.harness() as first:
                order = await first.order("thing")
                assert await first.told("submit", **order) == "WAITING_APPROVAL"
            left[0] = 5
            async with world.harness() as second:
                assert left[0] == 0
                assert second.core.runs[order["run_id"]].epoch == second.core.epoch
                approval = await second.approval(order["run_id"])
                assert await second.told("approve", run_id=order["run_id"], approval=approval) == "COMPLETED"

        asyncio.run(run())
        world.close()
        assert world.sent == ["thing"]


def test_every_test_that_the_page_names_is_there(checkout: Path):
    """``docs/reports.md`` says which test replays which report."""
    page = (checkout / "docs/reports.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"(def|class) {name}\b", _text(checkout / file))
    ]
    assert not missing, missing
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert numbers == list(range(1, 36)), "every report has its line"


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""
