"""What becomes of calls: retries, lost and unknown outcomes, destinations, skips, late and wrong results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver, run_plan
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.judgement.checks import STATED
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.plan.plan import Clarify, Degrade, Escalate, Inputs, Retry
from duly.protocol.wire import canon
from duly.protocol.wire.limits import ATTEMPTS_PER_STEP_MAX, LOST_PER_STEP_MAX
from plans import DEGRADE, RETRY_THEN_STOP, plan, ref, step, table, tool

A, B, C = tool("a"), tool("b"), tool("c")
W = tool("w", "write")
KEYED = tool("k", "write", idempotency="key")
ALL = table(A, B, C, W, KEYED)


def fails(*failures: CallFailure | None, then: Any = None) -> Callable[..., Any]:
    """A tool that fails in these ways, one call after the other (``None``: it works), and works from then on."""
    waiting = list(failures)

    def run(**arguments: Any) -> Any:
        failure = waiting.pop(0) if waiting else None
        if failure is not None:
            raise failure
        return arguments if then is None else then

    return run


TRANSIENT = CallFailure("tool.busy", transient=True)
PERMANENT = CallFailure("tool.broken")
LOST = CallFailure("tool.lost", outcome="lost")
UNKNOWN = CallFailure("tool.timeout", outcome="unknown", transient=True)
NOT_STARTED = CallFailure("tool.not_started", outcome="not_started")


def one_read(tool_function: Callable[..., Any], **more: Any) -> Driver:
    return run_plan(plan([step("s1", A, {"key": 1}, **more)]), ALL, {"t.a": tool_function})


class TestReads:
    def test_a_transient_failure_is_retried_after_a_wait(self):
        driver = one_read(fails(TRANSIENT, TRANSIENT), on_failure=RETRY_THEN_STOP)
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED
        waits = [facts["retry_at_ms"] for facts in driver.facts("step.failed")]
        starts = [facts["at_ms"] for facts in driver.facts("step.started")]
        assert [facts["attempt"] for facts in driver.facts("step.started")] == [1, 2, 3]
        assert all(start >= wait for start, wait in zip(starts[1:], waits, strict=True))
        first, second = (wait - start for start, wait in zip(starts, waits, strict=False))
        assert 100 <= first - driver.order_ms <= 125 and 200 <= second - driver.order_ms <= 250

    def test_retries_end_where_the_contract_says(self):
        driver = one_read(fails(*[TRANSIENT] * 3), on_failure=RETRY_THEN_STOP)
        assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
        assert driver.run.steps["s1"].attempts == 3

    def test_no_contract_asks_for_more_attempts_than_the_bound(self):
        many = [Retry(attempts=5, backoff_ms=1), Retry(attempts=5, backoff_ms=1), Escalate()]
        driver = one_read(fails(*[TRANSIENT] * 20), on_failure=many)
        assert driver.run is not None
        assert driver.run.steps["s1"].attempts == ATTEMPTS_PER_STEP_MAX

    def test_a_permanent_failure_is_not_retried(self):
        driver = one_read(fails(PERMANENT), on_failure=RETRY_THEN_STOP)
        assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
        assert len(driver.facts("step.started")) == 1

    @pytest.mark.parametrize("failure", [LOST, NOT_STARTED], ids=["lost", "not_started"])
    def test_what_is_nobodys_fault_runs_again_and_costs_no_attempt(self, failure: CallFailure):
        driver = one_read(fails(*[failure] * LOST_PER_STEP_MAX))
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED
        assert driver.run.steps["s1"].attempts == 1
        assert len(driver.facts("step.started")) == 1 + LOST_PER_STEP_MAX

    @pytest.mark.parametrize("failure", [LOST, NOT_STARTED], ids=["lost", "not_started"])
    def test_but_not_for_ever(self, failure: CallFailure):
        driver = one_read(fails(*[failure] * 50))
        assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
        assert len(driver.facts("step.started")) == 1 + LOST_PER_STEP_MAX

    def test_a_call_that_no_host_takes_waits_before_it_is_offered_again(self):
        driver = one_read(fails(NOT_STARTED, NOT_STARTED))
        starts = [facts["at_ms"] for facts in driver.facts("step.started")]
        assert starts[1] - starts[0] >= 500 and starts[2] - starts[1] >= 1000

    def test_a_read_that_was_cut_off_failed_and_is_nothing_to_ask_about(self):
        driver = one_read(fails(UNKNOWN), on_failure=RETRY_THEN_STOP)
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED

    def test_one_failure_loses_no_siblings_result(self):
        steps = [step("s1", A), step("s2", B), step("s3", C)]
        tools = {"t.a": fails(), "t.b": fails(PERMANENT), "t.c": fails()}
        driver = run_plan(plan(steps), ALL, tools)
        assert driver.run is not None
        assert {name: state.status for name, state in driver.run.steps.items()} == {
            "s1": "succeeded",
            "s2": "failed",
            "s3": "succeeded",
        }
        driver.answers.tools = {**tools, "t.b": fails()}
        assert driver.answer("retry").phase is Phase.COMPLETED
        assert [name for name, _, _ in driver.answers.called] == ["s1", "s2", "s3", "s2"]

    def test_results_that_come_one_by_one_are_settled_one_by_one(self):
        steps = [step("s1", A), step("s2", B), step("s3", C)]
        tools = {"t.a": fails(), "t.b": fails(TRANSIENT), "t.c": fails()}
        answers = Answers(tools=tools, one_by_one=True)
        driver = Driver(answers, ALL, plan=plan([replace_failure(one) for one in steps]))
        assert driver.submit().phase is Phase.COMPLETED
        assert driver.dispatches() == [("concurrent", ["s1", "s2", "s3"]), ("concurrent", ["s2"])]


def replace_failure(one: Any) -> Any:
    return one.model_copy(update={"on_failure": list(RETRY_THEN_STOP)})


class TestDestinations:
    def test_escalate_asks_and_takes_one_of_its_answers(self):
        driver = one_read(fails(PERMANENT))
        assert driver.run is not None and driver.run.asked is not None
        assert "tool.broken" in driver.run.asked.question.text
        driver.answer("whatever")
        assert driver.refusals[-1].code == "run.bad_answer"
        assert driver.answer(" Skip ").phase is Phase.FAILED  # done is nothing, so nothing is partial
        assert driver.run.reason == "verdict.inconclusive"

    def test_clarify_asks_its_own_question(self):
        driver = one_read(fails(PERMANENT), on_failure=[Clarify(question="Is the server up?")])
        assert driver.run is not None and driver.run.asked is not None
        assert driver.run.asked.question.text == "Is the server up?"
        assert driver.answer("retry").phase is Phase.COMPLETED

    def test_giving_up_ends_with_what_is_valid(self):
        steps = [step("s1", A), step("s2", B, {"key": ref("s1", "")})]
        for partial, phase in ((False, Phase.FAILED), (True, Phase.PARTIAL)):
            tools = {"t.a": fails(), "t.b": fails(PERMANENT)}
            driver = run_plan(plan(steps, allow_partial=partial), ALL, tools, said=["give up"])
            assert driver.run is not None
            assert (driver.run.phase, driver.run.reason) == (phase, "input.given_up")

    def test_degrade_skips_by_name_what_lacks_its_input_and_nothing_else(self):
        steps = [
            step("s1", A, on_failure=DEGRADE),
            step("s2", B, {"key": ref("s1", "")}),
            step("s3", C, inputs=Inputs(artifacts={"s2.output": "s2"}), needs=["s2"]),
            step("s4", A, {"key": 4}, needs=["s1"]),
        ]
        tools = {"t.a": fails(PERMANENT), "t.b": fails(), "t.c": fails()}
        driver = run_plan(plan(steps, allow_partial=True), ALL, tools)
        assert driver.run is not None and driver.run.phase is Phase.PARTIAL
        states = {name: state.status for name, state in driver.run.steps.items()}
        assert states == {"s1": "degraded", "s2": "skipped", "s3": "skipped", "s4": "succeeded"}
        assert [facts["lacks"] for facts in driver.facts("step.skipped")] == [["s1"], ["s2"]]

    def test_a_step_that_cannot_start_reserves_nothing_and_goes_where_its_contract_says(self):
        steps = [
            step("s0", C),
            step("s1", A),
            step("s2", B, {"key": ref("s1", "/gone")}, on_failure=[Degrade()]),
        ]
        tools = {"t.a": fails(), "t.b": fails(), "t.c": fails()}
        driver = run_plan(plan(steps, allow_partial=True), ALL, tools)
        assert driver.run is not None and driver.run.phase is Phase.PARTIAL
        assert driver.facts("step.failed")[0]["code"] == "plan.reference_unresolved"
        assert driver.run.budget.spent["steps"] == 2 and not driver.run.budget.reserved
        assert driver.run.steps["s2"].attempts == 0


class TestWrites:
    def one_write(self, descriptor: Any, function: Callable[..., Any], **more: Any) -> Driver:
        driver = Driver(
            Answers(tools={f"t.{descriptor.name}": function, "t.a": fails()}),
            ALL,
            plan=plan([step("s1", descriptor, {"key": 1}, reader=A, on_failure=RETRY_THEN_STOP)]),
            settings={"tier": "bounded_autonomous"},
            **more,
        )
        driver.submit()
        return driver

    @pytest.mark.parametrize("failure", [LOST, UNKNOWN], ids=["lost", "cut off"])
    def test_a_write_that_was_cut_off_is_asked_about_and_never_repeated_blindly(self, failure: CallFailure):
        driver = self.one_write(W, fails(failure))
        assert driver.run is not None and driver.run.phase is Phase.WAITING_INPUT
        assert driver.run.steps["s1"].status == "unknown"
        assert driver.run.asked is not None and "sink:w" in driver.run.asked.question.text
        assert driver.run.asked.question.choices == ["it happened", "it did not", "give up"]
        assert len(driver.answers.called) == 1

    def test_it_happened(self):
        driver = self.one_write(W, fails(LOST))
        run = driver.answer("It happened")
        assert (run.phase, run.verdict) == (Phase.COMPLETED, "pass")  # its read-back says so
        assert len(driver.answers.called) == 1
        assert run.output("s1").keys() == {STATED}

    def test_it_happened_but_the_read_back_does_not_find_it(self):
        driver = self.one_write(W, fails(LOST))
        driver.answers.tools = {**driver.answers.tools, "t.a": lambda **_: {"key": 2}}
        run = driver.answer("it happened")
        assert run.phase is Phase.FAILED and run.reason != "verdict.pass"

    def test_it_did_not_happen(self):
        driver = self.one_write(W, fails(LOST))
        assert driver.answer("it did not").phase is Phase.COMPLETED
        assert [name for name, _, _ in driver.answers.called] == ["s1", "s1"]

    def test_giving_up(self):
        driver = self.one_write(W, fails(LOST))
        run = driver.answer("give up")
        assert (run.phase, run.reason) == (Phase.FAILED, "input.given_up")

    def test_an_idempotent_write_runs_again_under_the_same_key(self):
        driver = self.one_write(KEYED, fails(LOST, UNKNOWN))
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED
        keys = {
            call.idempotency_key
            for order in driver.performed
            if isinstance(order, effects.Dispatch)
            for call in order.calls
        }
        assert len(keys) == 1 and "" not in keys
        assert len(driver.answers.called) == 3

    def test_not_for_ever_either(self):
        driver = self.one_write(KEYED, fails(*[LOST] * 9))
        assert driver.run is not None and driver.run.steps["s1"].status == "unknown"
        assert len(driver.answers.called) == 1 + LOST_PER_STEP_MAX

    def test_what_came_back_wrong_of_a_write_happened_and_is_asked_about(self):
        driver = under_way(W, {"key": 1})
        driver.give(returned(driver, arguments=arguments_digest({"key": 2})))
        assert driver.run is not None and driver.run.steps["s1"].status == "unknown"
        assert driver.run.phase is Phase.WAITING_INPUT


def under_way(descriptor: Any, arguments: Any) -> Driver:
    """One call is under way."""
    one = step("s1", descriptor, arguments, reader=None if descriptor.reads_only else A)
    driver = Driver(Answers(), ALL, plan=plan([one]), settings={"tier": "bounded_autonomous"})
    driver.give(driver.submission())
    assert driver.run is not None and driver.run.outstanding == ["s1"]
    return driver


def returned(driver: Driver, count: int = 1, **changes: Any) -> stimuli.StepsReturned:
    assert driver.run is not None
    fields: dict[str, Any] = {
        "step_id": "s1",
        "attempt": 1,
        "wave": 1,
        "outcome": "ok",
        "output": canon.encode({}),
        "arguments": arguments_digest(driver.run.step("s1").tool_contract.arguments),
        **changes,
    }
    return stimuli.StepsReturned(**driver.moment(), outcomes=[StepOutcome(**fields)] * count)


class TestWrongResults:
    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"arguments": arguments_digest({"key": 2})}, "receipt.args_mismatch"),
            ({"arguments": ""}, "receipt.args_mismatch"),
            ({"output": None}, "tool.no_output"),
            ({"output": b"\xc1"}, "wire.malformed"),
            ({"output": b"\x81\xa4$ref\xa5s1#/a"}, "wire.bad_tag"),
            ({"output": canon.encode({STATED: "so they say"})}, "wire.bad_tag"),
            ({"output": b"\x91" * 40 + b"\xc0"}, "wire.too_deep"),
        ],
    )
    def test_is_a_failure_with_its_code(self, changes: dict[str, Any], code: str):
        driver = under_way(A, {"key": 1})
        driver.give(returned(driver, **changes))
        assert driver.facts("step.failed")[0]["code"] == code
        assert driver.run is not None and not driver.run.outputs

    def test_twice_in_one_message_is_applied_once(self):
        driver = under_way(A, {"key": 1})
        driver.give(returned(driver, count=3))
        assert driver.kinds().count("step.succeeded") == 1
        assert driver.kinds().count("step.late_result") == 2

    @pytest.mark.parametrize("changes", [{"wave": 2}, {"attempt": 2}, {"step_id": "s9"}])
    def test_of_another_call_is_recorded_and_not_applied(self, changes: dict[str, Any]):
        driver = under_way(A, {"key": 1})
        driver.give(returned(driver, **changes))
        assert driver.kinds()[-1] == "step.late_result"
        assert driver.run is not None and driver.run.outstanding == ["s1"]

    def test_after_the_end_is_recorded_and_not_applied(self):
        driver = under_way(W, {"key": 1})
        late = returned(driver)
        driver.give(stimuli.CancelAsked(**driver.moment()))
        ended = driver.run
        driver.give(late)
        assert driver.kinds()[-1] == "step.late_result"
        assert driver.run == ended

    def test_an_answer_to_another_order_is_refused(self):
        driver = under_way(A, {"key": 1})
        judged = stimuli.Judged(
            **driver.moment(), order=("judge", "1", "0"), outcome="pass", reason="", checks=[]
        )
        assert driver.give(judged).refusal is not None
        driver.give(returned(driver))
        assert driver.run is not None and driver.run.phase is Phase.VERIFYING
        decision = driver.give(judged)
        assert decision.refusal is not None and decision.refusal.code == "run.not_waiting_for_that"
        decision = driver.give(replace(judged, order=()))  # even without saying which order it answers
        assert decision.refusal is not None and decision.run is not None
        assert decision.run.phase is Phase.VERIFYING


class TestSegments:
    def chain(self, length: int) -> Any:
        steps = [step("s0", A, {"key": 0})]
        for index in range(1, length):
            steps.append(step(f"s{index}", A, {"key": ref(f"s{index - 1}")}))
        return plan(steps)

    def test_a_chain_of_reads_travels_as_one_and_resolves_inside(self):
        driver = run_plan(self.chain(5), ALL, {"t.a": lambda key: {"key": key + 1}})
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED
        assert driver.dispatches() == [("serial", ["s0", "s1", "s2", "s3", "s4"])]
        assert driver.run.output("s4") == {"key": 5}
        assert [facts["template"] for facts in driver.facts("step.started")] == [
            False,
            True,
            True,
            True,
            True,
        ]

    def test_a_segment_has_a_bounded_length(self):
        driver = run_plan(
            self.chain(250), ALL, {"t.a": lambda key: {"key": key + 1}}, settings={"budget": {"steps": 250}}
        )
        assert [len(ids) for _, ids in driver.dispatches()] == [100, 100, 50]
        assert driver.run is not None and driver.run.output("s249") == {"key": 250}

    def test_a_failure_inside_leaves_the_rest_not_started_and_costs_it_nothing(self):
        calls: list[int] = []

        def counting(key: int) -> Any:
            calls.append(key)
            if key == 2 and calls.count(2) == 1:
                raise TRANSIENT
            return {"key": key + 1}

        steps = [replace_failure(one) for one in self.chain(5).steps]
        driver = run_plan(plan(steps), ALL, {"t.a": counting})
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED
        assert calls == [0, 1, 2, 2, 3, 4]
        assert driver.dispatches() == [
            ("serial", ["s0", "s1", "s2", "s3", "s4"]),
            ("serial", ["s2", "s3", "s4"]),
        ]
        assert {state.attempts for name, state in driver.run.steps.items() if name != "s2"} == {1}

    def test_only_references_inside_the_dispatch_travel_as_references(self):
        """A host knows the outputs of one dispatch only."""
        steps = [
            step("a1", A, {"key": "x"}),
            step("a2", B, {"key": "y"}),
            step("b1", A, {"key": ref("a1")}),
            step("c1", A, {"key": ref("b1"), "other": ref("a2"), "whole": {"in": [ref("a1", "")]}}),
        ]
        driver = run_plan(plan(steps), ALL, {"t.a": lambda **k: k, "t.b": lambda **k: k})
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED
        last = [order for order in driver.performed if isinstance(order, effects.Dispatch)][-1].calls[-1]
        assert last.template
        assert last.arguments == {"key": ref("b1"), "other": "y", "whole": {"in": [{"key": "x"}]}}
        assert driver.answers.called[-1][2] == {"key": "x", "other": "y", "whole": {"in": [{"key": "x"}]}}
