"""The breaker of a tool: five transient failures or losses in a row open it, a success closes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.machine.phases import Phase
from duly.protocol.wire.limits import BREAKER_FAILURES
from plans import DEGRADE, REPLAN, plan, step, table, tool

A, B = tool("a"), tool("b")
ALL = table(A, B)
TRANSIENT = CallFailure("tool.busy", transient=True)
LOST = CallFailure("tool.lost", outcome="lost")
PERMANENT = CallFailure("tool.broken")


def failing(*answers: CallFailure | None) -> Callable[..., Any]:
    """A tool that fails like this, call by call; ``None`` and everything after works."""
    waiting: Iterator[CallFailure | None] = iter(answers)

    def call(**given: Any) -> Any:
        failure = next(waiting, None)
        if failure is not None:
            raise failure
        return given

    return call


def chain(count: int, on_failure: Any = DEGRADE, other: Any = A) -> list[Any]:
    steps = [step("s0", A, {"key": 0}, on_failure=on_failure)]
    for n in range(1, count):
        steps.append(step(f"s{n}", A, {"key": n}, needs=[f"s{n - 1}"], on_failure=on_failure))
    return steps


def run_of(steps: Any, tool_a: Callable[..., Any], **more: Any) -> Driver:
    tools = {"t.a": tool_a, "t.b": lambda **k: k}
    driver = Driver(Answers(tools=tools, **more), ALL, plan=plan(steps, allow_partial=True))
    driver.submit()
    return driver


def codes(driver: Driver) -> list[str]:
    """The codes of what failed, those aside that did not start since something before them had failed."""
    found = [str(facts["code"]) for facts in driver.facts("step.failed")]
    return [code for code in found if code != "tool.not_started"]


def test_after_five_in_a_row_the_tool_is_left_alone():
    driver = run_of(chain(8), failing(*[TRANSIENT] * 99))
    assert codes(driver) == ["tool.busy"] * BREAKER_FAILURES + ["tool.breaker_open"] * 3
    assert len(driver.answers.called) == BREAKER_FAILURES
    opened = [facts for facts in driver.facts("step.failed") if facts["code"] == "tool.breaker_open"]
    assert all(facts["transient"] is False and facts["not_started"] for facts in opened)
    assert driver.run is not None and driver.run.budget.used("steps") == BREAKER_FAILURES


@pytest.mark.parametrize("between", [None, PERMANENT], ids=["a success", "another failure"])
def test_only_in_a_row(between: CallFailure | None):
    driver = run_of(chain(10), failing(*[TRANSIENT] * 4, between, *[TRANSIENT] * 4))
    assert "tool.breaker_open" not in codes(driver) and len(driver.answers.called) == 10


def test_losses_count_too():
    driver = run_of(chain(4), failing(*[LOST] * 99))
    assert len(driver.answers.called) == BREAKER_FAILURES
    assert codes(driver)[-1] == "tool.breaker_open"


def test_another_tool_is_another_breaker():
    steps = [*chain(6), step("s6", B, {"key": 6}, needs=["s5"])]
    driver = run_of(steps, failing(*[TRANSIENT] * 99))
    assert [one[1] for one in driver.answers.called] == ["t.a"] * 5 + ["t.b"]


def test_a_success_that_was_under_way_closes_it():
    level = [step(f"s{n}", A, {"key": n}, on_failure=DEGRADE) for n in range(6)]
    after = [step("s6", A, {"key": 6}, needs=[f"s{n}" for n in range(6)], on_failure=DEGRADE)]
    driver = run_of([*level, *after], failing(*[TRANSIENT] * 5, None))
    assert "tool.breaker_open" not in codes(driver)
    assert driver.run is not None and driver.run.breakers == {}


def test_it_leads_where_on_failure_says():
    other = plan([step("r0", B, {"key": 1})], origin="playbook")
    driver = run_of(chain(7, [*REPLAN]), failing(*[TRANSIENT] * 99), draft=lambda run, order: other)
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED  # the first failure leads there
    driver = run_of(
        [*chain(5), step("s5", A, {"key": 5}, needs=["s4"], on_failure=REPLAN)],
        failing(*[TRANSIENT] * 99),
        draft=lambda run, order: other,
    )
    assert [facts["code"] for facts in driver.facts("replan.triggered")] == ["tool.breaker_open"]
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED


def test_it_stays_open_across_plans_and_starts():
    again = plan(
        [step("r0", A, {"key": 77}, on_failure=DEGRADE), step("r1", B, {"key": 1})], origin="playbook"
    )
    driver = Driver(
        Answers(
            tools={"t.a": failing(*[TRANSIENT] * 99), "t.b": lambda **k: k}, draft=lambda run, order: again
        ),
        ALL,
        plan=plan(
            [*chain(5), step("s5", A, {"key": 5}, needs=["s4"], on_failure=REPLAN)], allow_partial=True
        ),
    )
    driver.give(driver.submission())
    while driver.run is None or driver.run.phase is not Phase.REPLAN_REQUIRED:
        driver._one_order()
    driver.resume()
    driver.go_on()
    assert len([one for one in driver.answers.called if one[1] == "t.a"]) == BREAKER_FAILURES
    assert codes(driver)[-1] == "tool.breaker_open"
