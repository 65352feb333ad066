"""Budgets: reserved before anything starts, settled after, counted exactly once across restarts."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver, run_plan
from duly.protocol.machine import stimuli
from duly.protocol.machine.budget import Budget
from duly.protocol.machine.phases import Phase
from duly.protocol.wire.errors import BudgetError
from plans import RETRY_THEN_STOP, plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")
ALL = table(A, B, W)
EIGHT = [step(f"s{n}", A, {"key": n}) for n in range(8)]


def echo(**arguments: Any) -> Any:
    return arguments


TOOLS = {"t.a": echo, "t.b": echo, "t.w": echo}


@pytest.mark.parametrize("name", ["steps", "tool_calls"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_eight_at_once_against_six_start_exactly_six(name: str, one_by_one: bool):
    budget = {"steps": 50, "tool_calls": 50, name: 6}
    driver = Driver(
        Answers(tools=TOOLS, one_by_one=one_by_one), ALL, plan=plan(EIGHT), settings={"budget": budget}
    )
    run = driver.submit()
    assert len(driver.answers.called) == 6
    assert (run.phase, run.reason) == (Phase.FAILED, f"budget.{name}")
    assert driver.facts("budget.exhausted")[0]["limit"] == 6
    assert run.budget.spent[name] == 6 and not run.budget.reserved


def test_what_is_valid_counts_where_the_plan_allows_it():
    run = run_plan(plan(EIGHT, allow_partial=True), ALL, TOOLS, settings={"budget": {"steps": 6}}).run
    assert run is not None and (run.phase, run.reason) == (Phase.PARTIAL, "budget.steps")
    assert len(run.outputs) == 6


def test_nothing_left_at_all():
    driver = run_plan(plan(EIGHT), ALL, TOOLS, settings={"budget": {"tool_calls": 0}})
    assert driver.run is not None and driver.run.reason == "budget.tool_calls"
    assert not driver.answers.called


def test_without_a_limit_nothing_is_limited():
    run = run_plan(plan(EIGHT), ALL, TOOLS, settings={"budget": {}}).run
    assert run is not None and run.phase is Phase.COMPLETED and run.budget.spent["steps"] == 8


def test_retries_are_paid_for():
    busy = CallFailure("tool.busy", transient=True)
    waiting = [busy, busy, None]

    def now_and_then(**arguments: Any) -> Any:
        failure = waiting.pop(0)
        if failure is not None:
            raise failure
        return arguments

    one = step("s1", A, on_failure=RETRY_THEN_STOP)
    for limit, phase, calls in ((3, Phase.COMPLETED, 3), (2, Phase.FAILED, 2)):
        waiting[:] = [busy, busy, None]
        driver = run_plan(plan([one]), ALL, {"t.a": now_and_then}, settings={"budget": {"steps": limit}})
        assert driver.run is not None and driver.run.phase is phase
        assert len(driver.answers.called) == calls


def test_the_verifiers_reads_are_calls_too():
    steps = [step("s1", W, {"key": 1}, reader=A)]
    settings = {"tier": "bounded_autonomous"}
    enough = run_plan(plan(steps), ALL, TOOLS, settings={**settings, "budget": {"tool_calls": 2}}).run
    assert enough is not None and enough.phase is Phase.COMPLETED and enough.budget.spent["tool_calls"] == 2
    short = run_plan(plan(steps), ALL, TOOLS, settings={**settings, "budget": {"tool_calls": 1}}).run
    assert short is not None and (short.phase, short.reason) == (Phase.FAILED, "budget.tool_calls")


def test_a_warning_at_eighty_per_cent_comes_once():
    driver = run_plan(plan(EIGHT), ALL, TOOLS, settings={"budget": {"steps": 10, "tool_calls": 11}})
    assert [(one["name"], one["percent"]) for one in driver.facts("budget.warned")] == [("steps", 80)]
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED


class TestCrashes:
    def test_an_open_reservation_counts_as_spent_exactly_once(self):
        driver = Driver(Answers(tools=TOOLS), ALL, plan=plan(EIGHT), settings={"budget": {"steps": 21}})
        driver.give(driver.submission())
        for _ in range(2):
            driver.resume()
        assert driver.run is not None
        assert driver.run.budget.spent["steps"] == 16 and driver.run.budget.reserved == {
            "steps": 5,
            "tool_calls": 5,
        }
        run = driver.go_on()
        assert (run.phase, run.reason) == (Phase.FAILED, "budget.steps")
        assert run.budget.spent["steps"] == 21 and len(driver.answers.called) == 5

    @pytest.mark.parametrize("when", ["crash_before", "crash_after"])
    def test_at_every_event_amounts_are_rebuilt_exactly(self, when: str):
        """Whatever was started was paid for, and nothing was paid for twice."""
        steps = [*EIGHT[:3], step("t1", B, {"key": ref("s1")}), step("w1", W, {"key": ref("t1")}, reader=A)]
        calm = run_plan(plan(steps), ALL, TOOLS)
        assert calm.run is not None and calm.run.budget.spent["steps"] == 5
        for point in range(1, len(calm.events) + 1):
            driver = run_plan(plan(steps), ALL, TOOLS, said=["it happened"], **{when: point})
            assert driver.run is not None and driver.run.phase is Phase.COMPLETED
            started = driver.kinds().count("step.started")
            assert driver.run.budget.spent["steps"] == started
            reads = sum(one["amounts"].get("tool_calls", 0) for one in driver.facts("budget.reserved"))
            assert driver.run.budget.spent["tool_calls"] == reads


class TestTime:
    def slow(self, *, order_ms: int, **more: Any) -> Driver:
        return run_plan(plan(EIGHT[:1]), ALL, TOOLS, order_ms=order_ms, **more)

    def test_active_time_is_spent_to_the_millisecond(self):
        driver = self.slow(order_ms=250)
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED
        assert driver.run.budget.spent["wall_ms"] == 250 * len(driver.performed)

    def test_a_run_that_is_out_of_time_does_not_complete(self):
        """Not even when the time ran out while the verifier judged, and it passed."""
        for limit in (1, 2, 3):
            driver = self.slow(order_ms=1_000, settings={"budget": {"wall_seconds": limit}})
            assert driver.run is not None
            assert (driver.run.phase, driver.run.reason) == (Phase.FAILED, "budget.wall_seconds")
        assert driver.run.verdict == "pass"

    def test_a_timer_ends_a_run_that_waits_for_a_call(self):
        driver = Driver(Answers(tools=TOOLS), ALL, plan=plan(EIGHT), settings={"budget": {"wall_seconds": 5}})
        driver.give(driver.submission())
        driver.todo.clear()
        run = driver.wake()
        assert (run.phase, run.reason) == (Phase.FAILED, "budget.wall_seconds")
        assert [type(order).__name__ for order in driver.todo] == ["CancelCalls"]
        assert run.budget.spent["wall_ms"] == 5_000 and run.budget.spent["steps"] == 8

    def test_a_write_under_way_is_waited_for(self):
        driver = Driver(
            Answers(tools=TOOLS),
            ALL,
            plan=plan([step("s1", W, {"key": 1}, reader=A)]),
            settings={"budget": {"wall_seconds": 5}, "tier": "bounded_autonomous"},
        )
        driver.give(driver.submission())
        assert driver.wake().outstanding == ["s1"]
        assert driver.timers  # and looked at again
        run = driver.go_on()
        assert (run.phase, run.reason) == (Phase.FAILED, "budget.wall_seconds")
        assert run.steps["s1"].status == "succeeded"

    def test_a_timer_that_comes_too_early_is_set_again_for_what_is_left(self):
        driver = Driver(Answers(tools=TOOLS), ALL, plan=plan(EIGHT), settings={"budget": {"wall_seconds": 5}})
        driver.give(driver.submission())
        driver.clock.now_ms += 2_000
        driver.timers.clear()
        driver.give(stimuli.TimePassed(**driver.moment()))
        assert driver.run is not None and driver.run.phase is Phase.RUNNING
        assert [timer.at_ms - driver.clock.now_ms for timer in driver.timers] == [3_000]

    def test_waiting_for_a_person_costs_nothing_and_sets_the_timer_anew(self):
        steps = [step("s1", W, {"key": 1}, reader=A)]
        driver = Driver(Answers(tools=TOOLS), ALL, plan=plan(steps), settings={"budget": {"wall_seconds": 5}})
        driver.submit()
        driver.clock.now_ms += 10**8
        assert driver.approve().phase is Phase.COMPLETED
        assert driver.run is not None and driver.run.budget.spent["wall_ms"] < 1_000
        assert driver.run.active_until_ms > 10**8

    def test_time_is_charged_to_whatever_comes_first(self):
        """A retry that is due starts by itself: no event of a handler could carry the time before it."""
        busy = [CallFailure("tool.busy", transient=True), None]

        def once_busy(**_: Any) -> Any:
            failure = busy.pop(0)
            if failure:
                raise failure
            return {}

        driver = run_plan(plan([step("s1", A, on_failure=RETRY_THEN_STOP)]), ALL, {"t.a": once_busy})
        assert driver.run is not None
        first, last = driver.facts("step.started")[0]["at_ms"], driver.clock.now_ms
        assert driver.run.budget.spent["wall_ms"] == last - first


def test_a_budget_with_a_bad_name_or_value_is_refused():
    for budget in ({"stepz": 5}, {"steps": -1}):
        driver = Driver(Answers(), ALL, plan=plan(EIGHT), settings={"budget": budget})
        decision = driver.give(driver.submission())
        assert decision.run is None and isinstance(decision.refusal, BudgetError)
        assert decision.refusal.code == "budget.bad_value"


def test_amounts():
    budget = Budget(limits={"steps": 10, "wall_seconds": 2})
    budget = budget.reserve({"steps": 4})
    assert budget.left("steps") == 6 and budget.fits("steps", 9) == 6 and budget.fits("cost", 9) == 9
    budget = budget.settle({"steps": 3}, {"steps": 2})
    assert (budget.spent, budget.reserved, budget.left("steps")) == ({"steps": 2}, {"steps": 1}, 7)
    budget = budget.forfeit()
    assert (budget.spent, budget.reserved) == ({"steps": 3}, {})
    assert budget.forfeit() == budget
    spent = budget.spend({"wall_ms": 1_999})
    assert spent.used("wall_seconds") == 1 and spent.wall_ms_left == 1 and not spent.out_of_time
    assert spent.spend({"wall_ms": 1}).out_of_time
    assert Budget().wall_ms_left is None and not Budget().out_of_time
