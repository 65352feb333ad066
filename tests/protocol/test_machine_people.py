"""Cancelling, and starting again after a crash: what is said of calls that were under way."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver, run_plan
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.plan.request import Binding, Question
from plans import RETRY_THEN_STOP, plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")
KEYED = tool("k", "write", idempotency="key")
NATURAL = tool("n", "write", idempotency="natural")
ALL = table(A, B, W, KEYED, NATURAL)
AUTONOMOUS = {"tier": "bounded_autonomous"}
TOOLS = {one: lambda **k: k for one in ALL}


def under_way(*steps: Any, **settings: Any) -> Driver:
    driver = Driver(Answers(tools=TOOLS), ALL, plan=plan(steps), settings={**AUTONOMOUS, **settings})
    driver.give(driver.submission())
    return driver


class TestCancel:
    def test_reads_are_killed_and_nothing_is_unknown(self):
        driver = under_way(step("s1", A), step("s2", B))
        driver.todo.clear()
        run = driver.cancel()
        assert (run.phase, run.reason, run.message) == (Phase.CANCELLED, "run.cancelled", "Cancelled.")
        assert driver.answers.cancelled == 1
        assert not run.budget.reserved and run.budget.spent["steps"] == 2

    def test_with_a_write_under_way_the_end_says_so(self):
        driver = under_way(step("s1", W, {"key": 1}, reader=A))
        driver.todo.clear()
        run = driver.cancel()
        assert run.phase is Phase.CANCELLED and "nobody can say" in run.message
        assert run.steps["s1"].status == "unknown"
        assert driver.kinds()[-3:] == ["step.outcome_unknown", "run.cancelled", "run.ended"]

    def test_while_asked_about_a_write_the_end_says_so_too(self):
        driver = under_way(step("s1", W, {"key": 1}, reader=A))
        driver.answers.tools = {**TOOLS, "t.w": _lost}
        driver.go_on()
        assert "nobody can say" in driver.cancel().message

    def test_while_a_gate_waits(self):
        driver = Driver(Answers(tools=TOOLS), ALL, plan=plan([step("s1", W, {"key": 1}, reader=A)]))
        driver.submit()
        run = driver.cancel()
        assert run.phase is Phase.CANCELLED and run.gate is None and not driver.answers.called

    def test_before_there_is_a_plan(self):
        driver = Driver(Answers(), ALL)
        driver.give(driver.submission())
        driver.todo.clear()
        assert driver.cancel().phase is Phase.CANCELLED

    def test_an_ended_run_is_not_cancelled(self):
        driver = run_plan(plan([step("s1", A)]), ALL, TOOLS)
        driver.cancel()
        assert driver.refusals[-1].code == "run.ended"
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED


def _lost(**_: Any) -> Any:
    raise CallFailure("tool.lost", outcome="lost")


class TestResume:
    @pytest.mark.parametrize("descriptor", [A, KEYED, NATURAL], ids=["read", "keyed", "natural"])
    def test_what_may_run_again_does(self, descriptor: Any):
        reader = None if descriptor.reads_only else A
        driver = under_way(step("s1", descriptor, {"key": 1}, reader=reader))
        driver.resume()
        assert driver.facts("run.resumed")[0]["again"] == 1
        run = driver.go_on()
        assert run.phase is Phase.COMPLETED and run.steps["s1"].attempts == 1
        assert run.epoch == 2

    def test_any_other_write_is_unknown(self):
        driver = under_way(step("s1", W, {"key": 1}, reader=A))
        driver.resume()
        run = driver.go_on()
        assert run.phase is Phase.WAITING_INPUT and not driver.answers.called
        assert driver.facts("run.resumed")[0]["unknown"] == 1
        assert driver.answer("it did not").phase is Phase.COMPLETED

    def test_the_idempotency_key_stays(self):
        driver = under_way(step("s1", KEYED, {"key": 1}, reader=A))
        first = driver.todo[0]
        driver.resume()
        again = driver.todo[0]
        assert isinstance(first, effects.Dispatch) and isinstance(again, effects.Dispatch)
        assert first.calls[0].idempotency_key == again.calls[0].idempotency_key != ""
        assert first.key != again.key

    def test_results_of_the_old_start_are_late(self):
        driver = under_way(step("s1", A))
        (order,) = driver.todo
        driver.resume()
        for answer in driver.answers.perform(driver, order):
            driver.give(answer)
        assert driver.kinds()[-1] == "step.late_result"
        assert driver.go_on().phase is Phase.COMPLETED

    def test_a_retry_that_waits_still_waits(self):
        busy = [CallFailure("tool.busy", transient=True)]

        def once(**arguments: Any) -> Any:
            if busy:
                raise busy.pop()
            return arguments

        driver = under_way(step("s1", A, on_failure=RETRY_THEN_STOP))
        driver.answers.tools = {**TOOLS, "t.a": once}
        driver._one_order()
        driver.resume()
        assert [timer.key[0] for timer in driver.timers] == ["retry", "wall"]
        assert driver.go_on().phase is Phase.COMPLETED

    @pytest.mark.parametrize("stage", [1, 2], ids=["prepare", "judge"])
    def test_while_verifying_the_verifier_is_asked_from_the_start(self, stage: int):
        """The reads that were reserved for it are forfeit, once, and reserved again."""
        driver = under_way(step("s1", W, {"key": 1}, reader=A))
        for _ in range(stage):
            driver._one_order()
        assert driver.run is not None and driver.run.phase is Phase.VERIFYING
        driver.resume()
        assert driver.run.verification == "prepare" and not driver.run.budget.reserved
        run = driver.go_on()
        assert run.phase is Phase.COMPLETED
        assert run.budget.spent["tool_calls"] == 1 + stage

    def test_a_level_of_thousands_fits_into_the_record(self):
        """Which calls start again does not fit into a leaf, so it is an artifact."""
        many = [step("s" * 100 + str(n), A, {"key": n}) for n in range(1_500)]
        driver = under_way(*many, budget={"steps": 5_000, "tool_calls": 5_000})
        driver.resume()
        assert driver.run is not None and len(driver.run.outstanding) == 1_500

    def test_waiting_runs_wait_on(self):
        driver = Driver(Answers(tools=TOOLS), ALL, plan=plan([step("s1", W, {"key": 1}, reader=A)]))
        run = driver.submit()
        gate = run.gate
        driver.resume()
        assert driver.run is not None and driver.run.gate == gate and not driver.todo
        assert driver.approve().phase is Phase.COMPLETED

    def test_what_changed_is_written_down(self):
        driver = under_way(step("s1", A))
        driver.give(stimuli.Resumed(**driver.moment(), epoch=2, changed=["catalogue"]))
        assert driver.facts("run.resumed")[0]["changed"] == 1
        assert "changed" in driver.events[-1].attached or "changed" in driver.events[-3].attached


STORY = plan(
    [
        step("s1", A, {"key": "x"}),
        step("s2", B, {"key": "y"}),
        step("k1", KEYED, {"key": ref("s1")}, reader=A),
        step("s3", A, {"key": ref("k1")}),
        step("w1", W, {"key": ref("s3")}, reader=A),
    ]
)


@pytest.mark.parametrize("settings", [{}, AUTONOMOUS], ids=["gates", "no gates"])
@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
def test_a_crash_at_every_event_changes_neither_the_end_nor_the_effects(settings: Any, when: str):
    def told(**crash: int) -> tuple[Driver, list[Any], set[str]]:
        unsafe: list[Any] = []
        keyed: set[str] = set()
        tools = {
            **TOOLS,
            "t.w": lambda **k: unsafe.append(k) or k,
            "t.k": lambda **k: keyed.add(k["key"]) or k,
        }
        driver = Driver(Answers(tools=tools), ALL, plan=STORY, settings=settings, **crash)
        run = driver.submit()
        while run.phase.waits:
            if run.gate is not None:
                run = driver.approve()
            else:
                run = driver.answer("it happened" if unsafe else "it did not")
        return driver, unsafe, keyed

    calm, _, _ = told()
    assert calm.run is not None and calm.run.phase is Phase.COMPLETED
    for point in range(1, len(calm.events) + 1):
        driver, unsafe, keyed = told(**{when: point})
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED, (point, driver.story())
        assert unsafe == [{"key": "x"}] and keyed == {"x"}
        steps = [name for name in driver.run.outputs if driver.run.steps[name].then != "stated"]
        assert {name: driver.run.outputs[name] for name in steps} == {
            name: calm.run.outputs[name] for name in steps
        }


def test_a_crash_before_the_order_is_durable_loses_nothing_that_was_acknowledged():
    driver = run_plan(STORY, ALL, TOOLS, crash_before=1)
    assert driver.kinds().count("run.submitted") == 1


def test_an_answer_goes_to_the_one_question_only():
    question = Question(parameter="month", text="Which month?")
    driver = Driver(
        Answers(tools=TOOLS, bind=lambda run, order: Binding(playbook="p", question=question)), ALL
    )
    driver.submit()
    driver.cancel()
    driver.answer("June")
    assert driver.refusals[-1].code == "run.not_asked"
