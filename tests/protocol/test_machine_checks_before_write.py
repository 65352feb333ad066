"""What a write builds on is checked before it starts: schema, rules and the recomputation of its direct inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.judgement.checks import Check
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from plans import plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W, V = tool("w", "write"), tool("v", "write")
ALL = table(A, B, W, V)
FIRST = step("s1", W, {"key": 1}, reader=B)
SECOND = step("s2", V, {"key": ref("s1")}, reader=B)


def driver_of(
    *steps: Any, judge: Callable[[Run, list[Check]], list[Check]] | None = None, **more: Any
) -> Driver:
    answers = Answers(tools={name: lambda **k: k for name in ALL})
    if judge is not None:
        answers.judge = judge
    settings = {"tier": "bounded_autonomous", **more}
    return Driver(answers, ALL, plan=plan(steps, allow_partial=True), settings=settings)


def orders(driver: Driver, kind: type[Any]) -> list[Any]:
    return [order for order in driver.performed if isinstance(order, kind)]


def until(driver: Driver, kind: type[Any]) -> Any:
    """Goes on until an order of a kind is next."""
    if driver.run is None:
        driver.give(driver.submission())
    while not any(isinstance(order, kind) for order in driver.todo):
        assert driver._one_order()
    return next(order for order in driver.todo if isinstance(order, kind))


def test_the_reads_first_then_the_checks_with_them_then_the_write():
    driver = driver_of(FIRST, SECOND)
    run = driver.submit()
    assert run.phase is Phase.COMPLETED
    (prepare,) = orders(driver, effects.PrepareChecks)
    (check,) = orders(driver, effects.CheckSteps)
    assert prepare.step_ids == check.step_ids == ("s1",)
    assert [read["step_id"] for read in check.reads] == ["s1"]
    kinds = driver.kinds()
    assert kinds.index("checks.returned") < len(kinds) - kinds[::-1].index("step.started") - 1
    assert run.budget.used("tool_calls") == 2 + 1 + 2  # the writes, one read before, both read back after


def test_reads_are_reserved_while_the_verifier_works_and_settled_after():
    driver = driver_of(FIRST, SECOND, budget={"tool_calls": 10, "rows_scanned": 40})
    until(driver, effects.CheckSteps)
    assert driver.run is not None and driver.run.phase is Phase.RUNNING
    assert dict(driver.run.budget.reserved) == {
        "tool_calls": 1,
        "rows_scanned": 39,
    }  # the first write scanned one
    driver.go_on()
    assert driver.run.phase is Phase.COMPLETED and not driver.run.budget.reserved


def test_each_read_has_its_share_of_the_rows():
    steps = [
        FIRST,
        step("s3", W, {"key": 3}, reader=B),
        step("s4", V, {"key": ref("s1"), "x": ref("s3")}, reader=B),
    ]
    driver = driver_of(*steps, budget={"rows_scanned": 40})
    assert until(driver, effects.CheckSteps).rows_max == 19


def test_without_room_for_them_nothing_is_written():
    driver = driver_of(FIRST, SECOND, budget={"tool_calls": 1})
    run = driver.submit()
    assert run.reason == "budget.tool_calls" and [one[0] for one in driver.answers.called] == ["s1"]


@pytest.mark.parametrize("kind", ["schema", "rule", "recompute"])
@pytest.mark.parametrize(
    ("outcome", "reason"), [("fail", "plan.no_alternative"), ("not_run", "verdict.inconclusive")]
)
def test_what_fails_or_nobody_could_look_at_stops_the_write(kind: Any, outcome: Any, reason: str):
    def judge(run: Run, checks: list[Check]) -> list[Check]:
        if run.phase is Phase.VERIFYING:
            return checks
        bad = Check(check_id=f"{kind}:s1", kind=kind, step_id="s1", outcome=outcome, reason="by order")
        return [*checks, bad]

    driver = driver_of(FIRST, SECOND, judge=judge)
    run = driver.submit()
    assert run.reason == reason and [one[0] for one in driver.answers.called] == ["s1"]
    assert "by order" in run.message and not run.budget.reserved


def test_an_optional_check_that_could_not_run_stops_nothing():
    def judge(run: Run, checks: list[Check]) -> list[Check]:
        more = Check(
            check_id="x", kind="recompute", step_id="s1", outcome="not_run", reason="-", mandatory=False
        )
        return [*checks, more]

    assert driver_of(FIRST, SECOND, judge=judge).submit().phase is Phase.COMPLETED


def test_a_read_that_needs_nothing_checked_starts_at_once():
    driver = driver_of(step("s1", A, {"key": 1}), step("s2", B, {"key": ref("s1")}))
    driver.submit()
    assert not orders(driver, effects.PrepareChecks)


def test_reads_for_another_purpose_are_refused():
    driver = driver_of(FIRST, SECOND)
    until(driver, effects.PrepareChecks)
    before = driver.run
    driver.give(stimuli.ReadsWanted(**driver.moment(), reads=[], purpose="verification"))
    assert driver.run == before and driver.refusals[-1].code == "run.not_waiting_for_that"
    until(driver, effects.PrepareVerification)
    driver.give(stimuli.ReadsWanted(**driver.moment(), reads=[], purpose="checks"))
    assert driver.refusals[-1].code == "run.not_waiting_for_that"


def test_checks_without_their_reads_are_refused():
    driver = driver_of(FIRST, SECOND)
    until(driver, effects.PrepareChecks)
    check = Check(check_id="c", kind="schema", step_id="s1", outcome="pass").to_data()
    driver.give(stimuli.ChecksReturned(**driver.moment(), checks=[check]))
    assert driver.refusals[-1].code == "run.not_waiting_for_that"


@pytest.mark.parametrize("kind", [effects.PrepareChecks, effects.CheckSteps])
def test_after_a_crash_they_are_asked_for_from_the_start_and_paid_for_once(kind: type[Any]):
    driver = driver_of(FIRST, SECOND)
    until(driver, kind)
    driver.resume()
    run = driver.go_on()
    assert run.phase is Phase.COMPLETED
    lost = 1 if kind is effects.CheckSteps else 0
    assert run.budget.used("tool_calls") == 5 + lost
