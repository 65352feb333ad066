"""A write whose outcome nobody knows: its probe is asked before any person."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.judgement.checks import STATED
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.wire import canon
from plans import plan, step, table, tool

A, SEEN = tool("a"), tool("seen")
W = tool("w", "write", probe="seen")
KEYED = tool("k", "write", probe="seen", idempotency="key")
ALL = table(A, W, KEYED, SEEN)
AUTONOMOUS = {"tier": "bounded_autonomous"}


def cut_off(outcome: str) -> Any:
    """Fails like this the first time, and works then."""
    calls: list[Any] = []

    def call(**given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise CallFailure("tool.timeout" if outcome == "unknown" else "tool.lost", outcome=outcome)
        return given

    return call


def driver_of(said: tuple[str, Any], outcome: str = "lost", tools: Any = ALL, **settings: Any) -> Driver:
    answers = Answers(
        tools={
            "t.a": lambda **k: k,
            "t.seen": lambda **k: k,
            "t.w": cut_off(outcome),
            "t.k": cut_off(outcome),
        },
        probe=lambda run, order: said,
    )
    one = step("s1", W, {"key": 1}, reader=A)
    return Driver(answers, tools, plan=plan([one], allow_partial=True), settings={**AUTONOMOUS, **settings})


def probes(driver: Driver) -> list[effects.Probe]:
    return [order for order in driver.performed if isinstance(order, effects.Probe)]


@pytest.mark.parametrize("outcome", ["lost", "unknown"])
def test_it_happened(outcome: str):
    driver = driver_of(("happened", {"key": 1, "id": 7}), outcome)
    run = driver.submit()
    assert run.phase is Phase.COMPLETED and run.output("s1") == {"key": 1, "id": 7}
    assert len(driver.answers.called) == 1
    assert driver.facts("step.succeeded")[0]["probed"] is True
    assert "input.asked" not in driver.kinds()


def test_it_happened_and_the_probe_knows_nothing_more():
    driver = driver_of(("happened", None))
    run = driver.submit()
    assert STATED in run.output("s1") and run.phase is Phase.COMPLETED  # its read-back says the rest


def test_it_did_not_happen_and_runs_again():
    driver = driver_of(("did_not_happen", None))
    run = driver.submit()
    assert run.phase is Phase.COMPLETED and len(driver.answers.called) == 2
    assert [facts["attempt"] for facts in driver.facts("step.started")] == [1, 2]
    assert run.budget.used("steps") == 2


@pytest.mark.parametrize("said", [("unknown", None)])
def test_it_does_not_know_either_and_a_person_is_asked(said: Any):
    driver = driver_of(said)
    run = driver.submit()
    assert run.phase is Phase.WAITING_INPUT and run.asked is not None and run.asked.about == "outcome:s1"
    assert len(probes(driver)) == 1
    assert driver.answer("it did not").phase is Phase.COMPLETED


def test_garbage_of_a_probe_is_no_answer():
    driver = driver_of(("happened", None))
    driver.give(driver.submission())
    while not probes_waiting(driver):
        driver._one_order()
    driver.todo.clear()
    bad = canon.encode({"$ref": "s1#/key"})
    driver.give(stimuli.Probed(**driver.moment(), step_id="s1", outcome="happened", output=bad))
    assert driver.go_on().phase is Phase.WAITING_INPUT


def probes_waiting(driver: Driver) -> list[effects.Order]:
    return [order for order in driver.todo if isinstance(order, effects.Probe)]


def test_the_call_is_a_read_with_the_writes_arguments_and_is_paid_for():
    driver = driver_of(("happened", {"key": 1}), rows_scanned=50)
    driver.settings = {**AUTONOMOUS, "budget": {"tool_calls": 10, "rows_scanned": 50}}
    run = driver.submit()
    (order,) = probes(driver)
    assert (order.step_id, order.call.tool, order.call.effect) == ("s1", "t.seen", "read")
    assert order.call.arguments == {"key": 1} and order.call.descriptor == SEEN.digest()
    assert order.call.rows_max == 50 and order.call.idempotency_key == ""
    assert run.budget.used("tool_calls") == 3  # the write, its probe, its read-back


def test_without_a_call_left_the_person_is_asked_at_once():
    driver = driver_of(("happened", None))
    driver.settings = {**AUTONOMOUS, "budget": {"tool_calls": 1}}
    run = driver.submit()
    assert run.phase is Phase.WAITING_INPUT and not probes(driver)


def test_a_probe_that_is_not_granted_or_does_not_only_read_is_none():
    for tools in (table(A, W), table(A, W, tool("seen", "write"))):
        driver = driver_of(("happened", None), tools=tools)
        assert driver.submit().phase is Phase.WAITING_INPUT and not probes(driver)


def test_an_idempotent_write_runs_again_without_a_question():
    driver = driver_of(("happened", None))
    driver.plan = plan([step("s1", KEYED, {"key": 1}, reader=A)])
    run = driver.submit()
    assert run.phase is Phase.COMPLETED and not probes(driver)


def test_after_a_crash_of_the_harness_the_probe_is_asked():
    driver = driver_of(("happened", {"key": 1}))
    driver.give(driver.submission())
    assert driver.run is not None and driver.run.outstanding == ["s1"]
    driver.resume()
    assert driver.go_on().phase is Phase.COMPLETED
    assert len(probes(driver)) == 1 and not driver.answers.called


def test_a_crash_under_the_probe_asks_it_again_but_not_for_ever():
    driver = driver_of(("happened", {"key": 1}))
    driver.give(driver.submission())
    for _ in range(3):
        while not probes_waiting(driver) and driver.todo:
            driver._one_order()
        assert driver.run is not None and driver.run.asking == "s1"
        driver.resume()
    run = driver.go_on()
    assert run.phase is Phase.WAITING_INPUT and run.budget.used("tool_calls") == 4
    assert not run.budget.reserved


def test_an_answer_that_nobody_waits_for_is_refused():
    driver = driver_of(("unknown", None))
    before = driver.submit()
    driver.give(stimuli.Probed(**driver.moment(), step_id="s1", outcome="happened"))
    assert driver.run == before and driver.refusals[-1].code == "run.not_waiting_for_that"


def test_a_cancel_under_the_probe_says_that_nobody_knows():
    driver = driver_of(("happened", None))
    driver.give(driver.submission())
    while not probes_waiting(driver):
        driver._one_order()
    driver.todo.clear()
    run = driver.cancel()
    assert run.phase is Phase.CANCELLED and "nobody can say" in run.message and run.asking == ""
