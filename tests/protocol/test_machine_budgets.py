"""Budgets that calls do not count: rows, tokens, cost; and the plan that is made smaller before a budget ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.machine import effects
from duly.protocol.machine.effects import Call
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.plan.plan import Plan
from duly.protocol.wire.errors import PlanError
from plans import DEGRADE, plan, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")
ALL = table(A, B, W)


class Metered(Answers):
    """Every call scans, takes and costs what ``usage`` says of its step, and never more rows than it was granted."""

    def __init__(self, usage: Mapping[str, Mapping[str, int]], **more: Any) -> None:
        super().__init__(tools={name: lambda **k: k for name in ALL}, **more)
        self.usage = usage
        self.granted: list[int] = []

    def call(self, driver: Driver, call: Call, wave: int, outputs: dict[str, Any]) -> StepOutcome:
        self.granted.append(call.rows_max)
        return replace(
            super().call(driver, call, wave, outputs), **{"rows": 0, **self.usage.get(call.step_id, {})}
        )


def run_of(
    steps: Any, budget: Mapping[str, int], usage: Mapping[str, Any] | None = None, **more: Any
) -> Driver:
    fields = more.pop("fields", {})
    driver = Driver(
        Metered(usage or {}), ALL, plan=plan(steps, **fields), settings={"budget": budget, **more}
    )
    driver.submit()
    return driver


def granted(driver: Driver) -> list[int]:
    assert isinstance(driver.answers, Metered)
    return driver.answers.granted


FOUR = [step(f"s{n}", A, {"key": n}) for n in range(4)]
CHAIN = [
    step("s0", A, {"key": 0}),
    step("s1", A, {"key": 1}, needs=["s0"]),
    step("s2", A, {"key": 2}, needs=["s1"]),
]


class TestRows:
    def test_a_level_shares_what_is_left(self):
        driver = run_of(FOUR, {"rows_scanned": 102})
        assert granted(driver) == [25, 25, 25, 25]
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED

    def test_reads_that_follow_each_other_may_each_scan_all_that_is_left(self):
        driver = run_of(CHAIN, {"rows_scanned": 100}, {"s0": {"rows": 60}, "s1": {"rows": 30}})
        assert granted(driver) == [100, 40, 10]
        assert driver.run is not None and driver.run.budget.used("rows_scanned") == 90

    def test_without_a_limit_nothing_is_limited(self):
        driver = run_of(CHAIN, {}, {"s0": {"rows": 10**9}})
        assert granted(driver) == [0, 0, 0]
        assert driver.run is not None and driver.run.budget.used("rows_scanned") == 10**9

    @pytest.mark.parametrize(("partial", "phase"), [(True, Phase.PARTIAL), (False, Phase.FAILED)])
    def test_when_all_are_scanned_it_stops_with_what_is_valid(self, partial: bool, phase: Phase):
        driver = run_of(CHAIN, {"rows_scanned": 50}, {"s0": {"rows": 50}}, fields={"allow_partial": partial})
        run = driver.run
        assert run is not None and (run.phase, run.reason) == (phase, "budget.rows_scanned")
        assert [one[0] for one in driver.answers.called] == ["s0"]
        assert driver.facts("budget.exhausted")[0]["name"] == "rows_scanned"

    def test_a_failed_call_has_scanned_too(self):
        usage = {"s0": {"rows": 45, "outcome": "error", "code": "tool.rows_exceeded", "output": None}}
        steps = [step("s0", A, {"key": 0}, on_failure=DEGRADE), step("s1", B, {"key": 1}, needs=["s0"])]
        driver = run_of(steps, {"rows_scanned": 50}, usage)
        assert granted(driver) == [50, 5]

    def test_more_reads_than_rows_start_none(self):
        driver = run_of(FOUR, {"rows_scanned": 3})
        run = driver.run
        assert run is not None and run.reason == "budget.rows_scanned" and not driver.answers.called

    def test_a_write_takes_none(self):
        steps = [step("s0", A, {"key": 0}), step("s1", W, {"key": 1}, reader=A, needs=["s0"])]
        driver = run_of(steps, {"rows_scanned": 50}, tier="bounded_autonomous")
        assert granted(driver) == [50, 0]

    def test_the_verifiers_reads_are_limited_and_settled(self):
        steps = [step("s0", W, {"key": 1}, reader=A), step("s1", W, {"key": 2}, reader=A)]
        driver = run_of(steps, {"rows_scanned": 50}, tier="bounded_autonomous")
        judge = next(order for order in driver.performed if isinstance(order, effects.Judge))
        assert judge.rows_max == 25 and len(judge.reads) == 2
        run = driver.run
        assert run is not None and run.phase is Phase.COMPLETED and run.budget.used("rows_scanned") == 2

    def test_a_crash_counts_what_was_granted_and_once(self):
        driver = Driver(Metered({}), ALL, plan=plan(FOUR), settings={"budget": {"rows_scanned": 100}})
        driver.give(driver.submission())
        driver.resume()
        run = driver.checked()
        assert run.budget.used("rows_scanned") == 100 and not run.budget.reserved
        driver.resume()
        assert driver.checked().budget.used("rows_scanned") == 100
        assert driver.go_on().reason == "budget.rows_scanned"


class TestTokensAndCost:
    @pytest.mark.parametrize("name", ["model_tokens", "cost"])
    def test_they_settle_and_stop_at_the_limit(self, name: str):
        field = {"model_tokens": "tokens", "cost": "cost"}[name]
        driver = run_of(CHAIN, {name: 100, "rows_scanned": 10**6}, {"s0": {field: 60}, "s1": {field: 50}})
        run = driver.run
        assert run is not None and run.reason == f"budget.{name}" and run.budget.used(name) == 110
        assert [one[0] for one in driver.answers.called] == ["s0", "s1"]

    def test_a_limit_of_nothing_forbids_nothing_that_takes_nothing(self):
        driver = run_of(CHAIN, {"model_tokens": 0, "cost": 0})
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED

    def test_the_critic_has_what_is_left_up_to_its_own_bound(self):
        for left, expected in ((100_000, 20_000), (300, 300)):
            driver = Driver(
                Metered({}),
                ALL,
                plan=plan(CHAIN),
                settings={"tier": "bounded_autonomous", "budget": {"model_tokens": left}},
                submitted={"has_critic": True},
            )
            run = driver.submit()
            judge = next(order for order in driver.performed if isinstance(order, effects.Judge))
            assert judge.critic and judge.tokens_max == expected
            assert run.phase is Phase.COMPLETED and run.budget.used("model_tokens") == 10

    def test_without_a_token_left_the_critic_is_not_asked_and_nothing_completes(self):
        driver = Driver(
            Metered({"s2": {"tokens": 100}}),
            ALL,
            plan=plan(CHAIN, allow_partial=True),
            settings={"tier": "bounded_autonomous", "budget": {"model_tokens": 100}},
            submitted={"has_critic": True},
        )
        run = driver.submit()
        assert (run.phase, run.reason) == (Phase.PARTIAL, "budget.model_tokens")


def smaller(count: int) -> Plan:
    return plan([step(f"t{n}", B, {"key": n}) for n in range(count)], origin="playbook")


class TestNearlyExhausted:
    """A chain of ten reads, each started by itself, against a budget of nine steps."""

    def driver(self, draft: Any, steps: int = 10, budget: int = 9) -> Driver:
        chain = [step("s0", A, {"key": 0})]
        chain += [step(f"s{n}", A, {"key": n}, needs=[f"s{n - 1}"]) for n in range(1, steps)]
        settings = {"schedule": "levels", "budget": {"steps": budget, "rows_scanned": 10**6}}
        answers = Metered({}, draft=draft)
        return Driver(answers, ALL, plan=plan(chain, allow_partial=True), settings=settings)

    def test_exactly_when_the_rest_does_not_fit_a_smaller_plan_is_asked_for_once(self):
        asked: list[effects.Draft] = []

        def draft(run: Any, order: effects.Draft) -> Plan:
            asked.append(order)
            return smaller(1)

        driver = self.driver(draft)
        run = driver.submit()
        assert run.phase is Phase.COMPLETED and run.budget.used("steps") == 9
        assert [order.reason for order in asked] == ["budget.steps"] and asked[0].left["steps"] == 1
        assert driver.facts("budget.warned")[0]["name"] == "steps"

    def test_a_rest_that_fits_needs_no_other_plan(self):
        driver = self.driver(lambda run, order: smaller(1), steps=9)
        run = driver.submit()
        assert run.phase is Phase.COMPLETED and not driver.facts("replan.triggered")
        assert driver.facts("budget.warned")

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (PlanError("plan.no_alternative", "No."), "plan.no_alternative"),
            (smaller(2), "replan.not_smaller"),
            (plan([step("x", tool("x"))]), "plan.refused"),
        ],
    )
    def test_without_a_smaller_plan_the_old_one_goes_on_to_the_end_of_the_budget(
        self, answer: Any, code: str
    ):
        driver = self.driver(lambda run, order: answer)
        run = driver.submit()
        assert (run.phase, run.reason) == (Phase.PARTIAL, "budget.steps")
        assert run.budget.used("steps") == 9 and run.plan is not None and len(run.plan.steps) == 10
        assert [(one["code"], one["keep"]) for one in driver.facts("replan.refused")] == [(code, True)]
        assert len(driver.facts("replan.triggered")) == 1

    def test_what_is_kept_counts_for_nothing(self):
        def draft(run: Any, order: effects.Draft) -> Plan:
            same = [step("s0", A, {"key": 0}), *[step(f"t{n}", A, {"key": 0}) for n in range(5)]]
            return plan(same, origin="playbook")

        run = self.driver(draft).submit()
        assert run.phase is Phase.COMPLETED
        assert {state.status for state in run.steps.values()} == {"reused"}

    def test_after_a_crash_while_it_is_asked_for_it_is_asked_for_again_and_counted_once(self):
        driver = self.driver(lambda run, order: smaller(1))
        driver.give(driver.submission())
        while driver.run is None or driver.run.phase is not Phase.REPLAN_REQUIRED:
            driver._one_order()
        driver.resume()
        assert driver.go_on().phase is Phase.COMPLETED
        assert len(driver.facts("replan.triggered")) == 1


def test_a_plan_that_was_kept_still_gates_what_it_gated():
    """The old plan goes on under its own approval; nothing is asked twice."""
    steps = [step(f"s{n}", W, {"key": n}, reader=A) for n in range(5)]
    driver = Driver(Metered({}), ALL, plan=plan(steps, allow_partial=True), settings={"budget": {"steps": 4}})
    driver.submit()
    run = driver.approve()
    assert run.reason == "budget.steps" and driver.kinds().count("gate.asked") == 1
