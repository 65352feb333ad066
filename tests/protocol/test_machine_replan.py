"""Another plan: what triggers it, what it may keep, what it may not do, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.judgement.checks import Check
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Degrade, Plan, Replan
from duly.protocol.plan.request import Question
from duly.protocol.plan.rules import EqualsRule
from duly.protocol.wire.errors import PlanError
from plans import DEGRADE, REPLAN, plan, ref, step, table, tool

A, B, C = tool("a"), tool("b"), tool("c")
W = tool("w", "write")
ALL = table(A, B, C, W)
S1 = step("s1", A, {"key": 1})


class Story:
    """A driver whose planner gives these plans one after the other."""

    def __init__(self, *plans: Plan | PlanError | Question, **more: Any) -> None:
        self.plans = list(plans)
        self.written: list[Any] = []
        self.broken: set[Any] = set()
        self.orders: list[Any] = []
        tools = {name: self._work for name in ("t.a", "t.b", "t.c")} | {"t.w": self._write}
        answers = Answers(tools=tools, draft=self._draft)
        self.driver = Driver(answers, ALL, **{"settings": {"tier": "bounded_autonomous"}, **more})

    def _work(self, **arguments: Any) -> Any:
        if arguments.get("key") in self.broken:
            raise CallFailure("tool.broken")
        return arguments

    def _write(self, **arguments: Any) -> Any:
        self.written.append(arguments)
        return arguments

    def _draft(self, run: Run, order: Any) -> Any:
        self.orders.append(order)
        return self.plans.pop(0)

    def run(self) -> Run:
        return self.driver.submit()

    def called(self) -> list[str]:
        return [name for name, _, _ in self.driver.answers.called]


def of(*steps: Any, **more: Any) -> Plan:
    return plan(steps, **{"origin": "playbook", **more})


class TestStepFailure:
    def test_another_plan_keeps_what_is_valid(self):
        story = Story(of(S1, step("s2", B, {"key": 9}, on_failure=REPLAN)), of(S1, step("s3", C, {"key": 2})))
        story.broken = {9}
        run = story.run()
        assert run.phase is Phase.COMPLETED
        assert story.called() == ["s1", "s2", "s3"]
        assert story.driver.facts("step.reused")[0]["step_id"] == "s1"
        assert run.plan is not None and run.plan.version == 2
        assert story.orders[1].replan == 1 and story.orders[1].reason == "tool.broken"

    def test_a_step_of_another_name_reuses_the_same_call(self):
        renamed = step("other", A, {"key": 1})
        story = Story(
            of(S1, step("s2", B, {"key": 9}, on_failure=REPLAN)), of(renamed, step("s3", C, {"key": 2}))
        )
        story.broken = {9}
        assert story.run().steps["other"].status == "reused"

    def test_a_changed_source_is_read_again(self):
        story = Story(of(S1, step("s2", B, {"key": 9}, on_failure=REPLAN)), of(S1, step("s3", C, {"key": 2})))
        story.broken = {9}
        story.driver.answers.fingerprints = {"flights": "first"}
        draft = story._draft

        def touched(run: Run, order: Any) -> Any:
            if order.replan:
                story.driver.answers.fingerprints = {"flights": "second"}
            return draft(run, order)

        story.driver.answers.draft = touched
        assert story.run().phase is Phase.COMPLETED
        assert story.called() == ["s1", "s2", "s1", "s3"]

    def test_an_effect_is_kept_whatever_its_source_says(self):
        """What it wrote changed the source: it must not happen a second time for that."""
        write = step("w1", W, {"key": 1}, reader=A)
        story = Story(
            of(write, step("s2", B, {"key": 9}, needs=["w1"], on_failure=REPLAN)), of(write, step("s3", C))
        )
        story.broken = {9}
        story.driver.answers.fingerprints = {"incidents": "before"}
        draft = story._draft

        def touched(run: Run, order: Any) -> Any:
            story.driver.answers.fingerprints = {"incidents": f"after {order.replan}"}
            return draft(run, order)

        story.driver.answers.draft = touched
        assert story.run().phase is Phase.COMPLETED
        assert story.written == [{"key": 1}]

    def test_the_same_call_is_refused(self):
        bad = step("s2", B, {"key": 9}, on_failure=REPLAN)
        story = Story(of(S1, bad), of(S1, step("another", B, {"key": 9}, on_failure=DEGRADE)))
        story.broken = {9}
        run = story.run()
        assert (run.phase, run.reason) == (Phase.FAILED, "replan.identical")
        assert story.called() == ["s1", "s2"]

    def test_the_same_call_by_reference_is_refused_when_it_would_start(self):
        ends = step("s0", C, {"key": 9})
        bad = step("s2", B, {"key": ref("s0")}, on_failure=REPLAN)
        again = step("s3", B, {"key": ref("s0")}, on_failure=[Degrade()])
        story = Story(of(ends, S1, bad), of(ends, S1, again, step("s4", A, {"key": 4}), allow_partial=True))
        waiting = [9]

        def work(**arguments: Any) -> Any:
            if arguments.get("key") in waiting:
                raise CallFailure("tool.broken")
            return arguments

        story.driver.answers.tools = {**story.driver.answers.tools, "t.b": work}
        run = story.run()
        assert run.phase is Phase.PARTIAL
        assert story.driver.facts("step.failed")[-1]["code"] == "replan.identical"
        assert story.called().count("s3") == 0

    def test_the_same_plan_is_refused(self):
        bad = of(S1, step("s2", B, {"key": ref("s1"), "x": 9}, on_failure=REPLAN))
        story = Story(bad, bad.model_copy(update={"plan_id": "new", "version": 7}))
        story.driver.answers.tools = {**story.driver.answers.tools, "t.b": _broken}
        run = story.run()
        assert (run.phase, run.reason) == (Phase.FAILED, "replan.identical")

    @pytest.mark.parametrize(
        ("code", "trigger"),
        [
            ("tool.broken", "step_failure"),
            ("tool.source_missing", "missing_source"),
            ("tool.source_changed", "missing_source"),
        ],
    )
    def test_what_failed_says_why_another_plan_is_needed_under_one_bound(self, code, trigger):
        story = Story(*(of(step("s1", A, {"key": n}, on_failure=REPLAN)) for n in range(4)))

        def gone(**_: Any) -> Any:
            raise CallFailure(code)

        story.driver.answers.tools = {"t.a": gone}
        assert story.run().phase is Phase.FAILED
        assert [one["trigger"] for one in story.driver.facts("replan.triggered")] == [trigger] * 2

    def test_bounded(self):
        plans = [of(step("s1", A, {"key": n}, on_failure=REPLAN)) for n in range(5)]
        story = Story(*plans)
        story.broken = set(range(5))
        run = story.run()
        assert (run.phase, run.reason) == (Phase.FAILED, "replan.bound")
        assert len(story.orders) == 3

    def test_after_the_bound_the_next_destination_counts(self):
        plans = [
            of(
                step("s1", A, {"key": n}, on_failure=[Replan(), Degrade()]),
                step("s2", B, {"key": "x"}),
                allow_partial=True,
            )
            for n in range(5)
        ]
        story = Story(*plans)
        story.broken = set(range(5))
        assert story.run().phase is Phase.PARTIAL
        assert len(story.orders) == 3

    def test_no_alternative_ends(self):
        none = PlanError("plan.no_alternative", "No fallback is left.")
        story = Story(of(step("s1", A, {"key": 9}, on_failure=REPLAN)), none)
        story.broken = {9}
        run = story.run()
        assert (run.phase, run.reason) == (Phase.FAILED, "plan.no_alternative")
        assert story.driver.facts("replan.refused")[0]["code"] == "plan.no_alternative"

    def test_another_objective_is_refused(self):
        story = Story(of(step("s1", A, {"key": 9}, on_failure=REPLAN)), of(S1, objective="Something else."))
        story.broken = {9}
        assert story.run().reason == "replan.objective"

    def test_a_question_on_the_way_to_another_plan_is_answered(self):
        question = Question(parameter="month", text="Which month?")
        story = Story(of(step("s1", A, {"key": 9}, on_failure=REPLAN)), question, of(S1))
        story.broken = {9}
        run = story.run()
        assert run.phase is Phase.WAITING_INPUT
        run = story.driver.answer("June")
        assert run.phase is Phase.COMPLETED and run.plan is not None and run.plan.version == 2
        assert run.answers == {"month": "June"}
        assert [one["look_up"] for one in story.driver.facts("route.chosen")] == [True, False]


def _broken(**_: Any) -> Any:
    raise CallFailure("tool.broken")


class TestVerification:
    def rule(self, value: int) -> Any:
        return step("s1", A, {"key": value}, rules=[EqualsRule(path="/key", value=2)])

    def test_a_failed_check_leads_to_another_plan(self):
        story = Story(
            of(self.rule(1), step("s2", B, {"key": 5})), of(self.rule(2), step("s2", B, {"key": 5}))
        )
        run = story.run()
        assert (run.phase, run.verdict) == (Phase.COMPLETED, "pass")
        assert [one["outcome"] for one in story.driver.facts("verdict.reached")] == ["fail", "pass"]
        assert story.called() == ["s1", "s2", "s1"]  # what passed is kept, what failed is not

    def test_or_to_no_alternative(self):
        story = Story(of(self.rule(1)), PlanError("plan.no_alternative", "None is left."))
        run = story.run()
        assert (run.phase, run.reason, run.verdict) == (Phase.FAILED, "plan.no_alternative", "fail")

    def test_twice_at_most(self):
        story = Story(*(of(self.rule(n + 10)) for n in range(5)))
        run = story.run()
        assert (run.phase, run.reason) == (Phase.FAILED, "verdict.fail")
        assert len(story.orders) == 3
        assert story.driver.facts("replan.refused")[-1]["code"] == "replan.bound"

    def test_a_brought_plan_has_its_failed_check_replanned_too(self):
        story = Story(of(self.rule(2)), plan=of(self.rule(1), origin="person"))
        assert story.run().phase is Phase.COMPLETED

    @pytest.mark.parametrize(("partial", "phase"), [(True, Phase.PARTIAL), (False, Phase.FAILED)])
    def test_what_could_not_be_checked_is_not_passed(self, partial: bool, phase: Phase):
        story = Story(of(S1, allow_partial=partial))
        story.driver.answers.judge = lambda run, checks: [
            one.model_copy(update={"outcome": "not_run", "reason": "no host"}) for one in checks
        ]
        run = story.run()
        assert (run.phase, run.reason, run.verdict) == (phase, "verdict.inconclusive", "inconclusive")

    @pytest.mark.parametrize("checks", [[], ["s1"]])
    def test_a_result_that_nobody_checked_is_not_verified(self, checks: Sequence[str]):
        story = Story(of(S1, step("s2", B)))
        story.driver.answers.judge = lambda run, found: [one for one in found if one.step_id in checks]
        run = story.run()
        assert (run.phase, run.verdict) == (Phase.FAILED, "inconclusive")

    def test_a_verdict_is_never_better_than_its_checks(self):
        from dataclasses import replace

        from duly.protocol.machine import stimuli

        story = Story(of(self.rule(1)), PlanError("plan.no_alternative", "None."))
        perform = story.driver.answers.perform

        def lying(driver: Driver, order: Any) -> Any:
            for answer in perform(driver, order):
                yield replace(answer, outcome="pass") if isinstance(answer, stimuli.Judged) else answer

        story.driver.answers.perform = lying  # type: ignore[method-assign]
        run = story.run()
        assert (run.phase, run.verdict) == (Phase.FAILED, "fail")

    def test_a_check_before_a_write_that_could_not_run_stops_it(self):
        write = step("w1", W, {"key": ref("s1")}, reader=A)
        story = Story(of(S1, write))
        story.driver.answers.judge = lambda run, checks: [
            one.model_copy(update={"outcome": "not_run", "reason": "gone"}) for one in checks
        ]
        run = story.run()
        assert (run.phase, run.reason) == (Phase.FAILED, "verdict.inconclusive") and not story.written

    def test_a_verifier_that_names_no_check_before_a_write_stops_it(self):
        story = Story(of(S1, step("w1", W, {"key": ref("s1")}, reader=A)))
        story.driver.answers.judge = lambda run, checks: []
        assert story.run().phase is Phase.FAILED and not story.written

    def test_a_read_back_that_differs_fails_and_the_write_is_not_simply_repeated(self):
        write = step("w1", W, {"key": 1}, reader=A)
        story = Story(of(write), of(write, S1))
        story.driver.answers.tools = {**story.driver.answers.tools, "t.a": lambda **_: {"key": 2}}
        run = story.run()
        assert (run.phase, run.reason) == (Phase.FAILED, "replan.identical")
        assert story.written == [{"key": 1}]

    def test_a_lost_verifier_is_no_pass(self):
        from duly.protocol.machine import effects, stimuli
        from duly.protocol.wire.errors import RuntimeFault

        for lost in (effects.PrepareVerification, effects.Judge):
            story = Story(of(step("w1", W, {"key": 1}, reader=A), allow_partial=True))
            perform = story.driver.answers.perform

            def gone(driver: Driver, order: Any, lost: Any = lost, perform: Any = perform) -> Any:
                if isinstance(order, lost):
                    error = RuntimeFault("runtime.actor_lost", "Gone.")
                    return iter([stimuli.VerifierLost(**driver.moment(), order=order.key, error=error)])
                return perform(driver, order)

            story.driver.answers.perform = gone  # type: ignore[method-assign]
            run = story.run()
            assert (run.phase, run.verdict) == (Phase.PARTIAL, "inconclusive")
            assert not run.budget.reserved


def test_a_stated_effect_is_kept_by_the_next_plan():
    write = step("w1", W, {"key": 1}, reader=A)
    bad = step("s2", B, {"key": 9}, needs=["w1"], on_failure=REPLAN)
    story = Story(of(write, bad), of(write, step("s3", C)))
    story.broken = {9}
    lost = CallFailure("tool.lost", outcome="lost")

    def cut_off(**arguments: Any) -> Any:
        story.written.append(arguments)
        raise lost

    story.driver.answers.tools = {**story.driver.answers.tools, "t.w": cut_off}
    assert story.run().phase is Phase.WAITING_INPUT
    run = story.driver.answer("it happened")
    assert run.phase is Phase.COMPLETED and run.steps["w1"].status == "reused"
    assert story.written == [{"key": 1}]


def test_checks_as_data_keep_their_form():
    check = Check(check_id="x", kind="rule", step_id="s1", outcome="pass")
    assert Check.model_validate(check.to_data()) == check
