"""The moves that a replan may not make, each with its event and code; and ends that say first what went wrong first."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.machine import gates
from duly.protocol.machine.phases import Phase
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import PlanError
from plans import REPLAN, plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write", resource="sink:orders")
SAME = tool("same", "write", resource="sink:orders")
OTHER = tool("other", "write", resource="sink:mail")
OUT = tool("out", "external", resource="sink:orders")
QUERY = tool("query", resource="db:people")
SHELL = tool("shell", resource="db:people")
ALL = table(A, B, W, SAME, OTHER, OUT, QUERY, SHELL)
SCOPE = Scope(sources=["a", "b"])
READ = step("s1", A, {"key": 1})


def planner(*drafts: Plan | PlanError, **tools: Any) -> Answers:
    waiting = list(drafts)

    def draft(run: Any, order: Any) -> Any:
        return waiting.pop(0) if waiting else PlanError("plan.no_alternative", "There is no other way.")

    working = {name: lambda **k: k for name in ALL}
    return Answers(tools={**working, **{f"t.{name}": call for name, call in tools.items()}}, draft=draft)


def failing(code: str, **more: Any) -> Any:
    def call(**_: Any) -> Any:
        raise CallFailure(code, **more)

    return call


def refused(driver: Driver) -> list[tuple[str, str]]:
    return [(facts["trigger"], facts["code"]) for facts in driver.facts("replan.refused")]


class TestSameEffect:
    def at_the_step_gate(self, *drafts: Plan) -> Driver:
        by_reference = plan([READ, step("s2", W, {"key": ref("s1")}, reader=A)])
        driver = Driver(planner(by_reference, *drafts), ALL)
        driver.submit()
        run = driver.approve()
        assert run.gate is not None and run.gate.step_id == "s2"
        return driver

    def test_another_tool_of_the_same_effect_on_the_same_resource_after_a_rejection(self):
        driver = self.at_the_step_gate(plan([READ, step("s2", SAME, {"key": 5}, reader=A)]))
        run = driver.reject("do not write that")
        assert (run.phase, run.reason) == (Phase.FAILED, "replan.same_effect")
        assert refused(driver) == [("gate_feedback", "replan.same_effect")]
        assert "t.same" in run.message

    @pytest.mark.parametrize("descriptor", [W, OTHER, OUT], ids=lambda one: one.full_name)
    def test_the_same_tool_another_resource_or_another_effect_is_another_matter(self, descriptor: Any):
        driver = self.at_the_step_gate(plan([READ, step("s2", descriptor, {"key": 5}, reader=A)]))
        run = driver.reject("with another key")
        assert run.phase is Phase.WAITING_APPROVAL  # and it gates like any plan

    @pytest.mark.parametrize(
        "code", ["tool.not_allowed", "tool.denied", "policy.denied", "mandate.tool_not_named"]
    )
    def test_after_a_denial_by_a_host(self, code: str):
        around = plan([step("s2", SHELL, {"key": 1})], origin="playbook")
        driver = Driver(
            planner(around, query=failing(code)), ALL, plan=plan([step("s1", QUERY, {}, on_failure=REPLAN)])
        )
        run = driver.submit()
        assert run.reason == "replan.same_effect" and refused(driver) == [
            ("step_failure", "replan.same_effect")
        ]
        assert run.message.startswith(f"Step s1 failed with {code}")

    def test_not_after_any_other_failure(self):
        around = plan([step("s2", SHELL, {"key": 1})], origin="playbook")
        driver = Driver(
            planner(around, query=failing("tool.broken")),
            ALL,
            plan=plan([step("s1", QUERY, {}, on_failure=REPLAN)]),
        )
        assert driver.submit().phase is Phase.COMPLETED

    def test_a_denial_is_remembered_across_plans(self):
        first = plan([step("s2", B, {"key": 1}, on_failure=REPLAN)], origin="playbook")
        second = plan([step("s3", SHELL, {"key": 1})], origin="playbook")
        driver = Driver(
            planner(first, second, query=failing("tool.not_allowed"), b=failing("tool.broken")),
            ALL,
            plan=plan([step("s1", QUERY, {}, on_failure=REPLAN)]),
        )
        assert driver.submit().reason == "replan.same_effect"

    def test_a_person_may_write_it_into_the_plan(self):
        around = plan([step("s2", OTHER, {"key": 5}, reader=A)])
        driver = self.at_the_step_gate(around)
        run = driver.reject("not so")
        assert run.plan is not None
        edited = run.plan.model_copy(update={"steps": [step("s2", SAME, {"key": 5}, reader=A)]})
        run = driver.edit(edited)
        assert run.plan is not None and run.plan.steps[0].tool == "t.same"


class TestScope:
    """A plan over ``a`` fails; the next one is over ``a`` and ``b``."""

    def driver(self, wider: Plan, steps: Any = None, **settings: Any) -> Driver:
        first = steps or [step("s1", B, {"key": 1}, on_failure=REPLAN)]
        return Driver(
            planner(wider, b=failing("tool.broken")),
            ALL,
            plan=plan(first, scope=Scope(sources=["a"])),
            settings={"scope": SCOPE, **settings},
        )

    WIDER = plan([READ], scope=SCOPE, origin="playbook")
    EQUAL = plan([READ], scope=Scope(sources=["a"]), origin="playbook")

    @pytest.mark.parametrize("tier", ["bounded_autonomous", "long_autonomous"])
    def test_without_a_gate_it_is_refused(self, tier: str):
        driver = self.driver(self.WIDER, tier=tier)
        run = driver.submit()
        assert run.reason == "replan.scope" and refused(driver) == [("step_failure", "replan.scope")]
        assert "sources:b" in run.message

    @pytest.mark.parametrize("tier", ["assisted", "supervised"])
    def test_with_one_it_is_asked_for_even_if_it_only_reads(self, tier: str):
        driver = self.driver(self.WIDER, tier=tier)
        run = driver.submit()
        assert run.gate is not None and run.gate.reason == "wider_scope"
        assert '"b"' in gates.view(run).text
        assert driver.approve().phase is Phase.COMPLETED

    @pytest.mark.parametrize("tier", ["assisted", "bounded_autonomous"])
    def test_no_wider_no_question(self, tier: str):
        assert self.driver(self.EQUAL, tier=tier).submit().phase is Phase.COMPLETED

    def test_what_was_approved_since_is_the_measure(self):
        wider = plan([step("s3", B, {"key": 3}, on_failure=REPLAN)], scope=SCOPE, origin="playbook")
        third = plan([READ], scope=SCOPE, origin="playbook")
        driver = Driver(
            planner(wider, third, b=failing("tool.broken")),
            ALL,
            plan=plan([step("s1", B, {"key": 1}, on_failure=REPLAN)], scope=Scope(sources=["a"])),
            settings={"scope": SCOPE},
        )
        driver.submit()
        assert driver.approve().phase is Phase.COMPLETED and driver.kinds().count("gate.asked") == 1

    def test_a_rejected_plan_allows_nothing(self):
        first = plan([step("s1", W, {"key": 1}, reader=A)], scope=SCOPE)
        driver = Driver(planner(first, self.EQUAL), ALL, settings={"scope": SCOPE})
        driver.submit()
        run = driver.reject("read only")
        assert run.phase is Phase.COMPLETED and run.settled_scope is None

    def test_beyond_the_mandate_it_is_a_fault_in_every_tier(self):
        beyond = plan([READ], scope=Scope(sources=["a", "c"]), origin="playbook")
        for tier in ("assisted", "bounded_autonomous"):
            assert self.driver(beyond, tier=tier).submit().reason == "plan.refused"


class TestEnds:
    def failed(self, answer: Any, **more: Any) -> Driver:
        def call(**_: Any) -> Any:
            raise CallFailure("tool.source_missing")

        driver = Driver(
            planner(answer, b=call), ALL, plan=plan([READ, step("s2", B, {"key": 2}, on_failure=REPLAN)])
        )
        driver.submit()
        return driver

    def test_the_first_failure_is_named_first_and_no_code_twice(self):
        run = self.failed(PlanError("plan.no_alternative", "No playbook is left.")).run
        assert run is not None and run.reason == "plan.no_alternative"
        assert run.message == (
            "Step s2 failed with tool.source_missing: s2 did not work. No playbook is left."
        )

    def test_a_refused_plan_too(self):
        run = self.failed(plan([step("s9", tool("nowhere"), {})], origin="playbook")).run
        assert run is not None and run.reason == "plan.refused"
        assert run.message.startswith("Step s2 failed with tool.source_missing")
        assert run.message.count("plan.tool_not_granted") == 1

    def test_after_the_bound_the_last_failure_is_named(self):
        drafts = [plan([step("s1", B, {"key": n}, on_failure=REPLAN)], origin="playbook") for n in (2, 3, 4)]
        run = Driver(
            planner(*drafts, b=failing("tool.broken")),
            ALL,
            plan=plan([step("s1", B, {"key": 1}, on_failure=REPLAN)]),
        ).submit()
        assert run.reason == "replan.bound"
        assert run.message.startswith("Step s1 failed with tool.broken: s1 did not work.")

    def test_after_a_failed_check_the_check_is_named(self):
        answers = planner()
        answers.judge = lambda run, checks: [
            one.model_copy(update={"outcome": "fail", "reason": "3 is not 4"}) for one in checks
        ]
        run = Driver(answers, ALL, plan=plan([READ])).submit()
        assert run.reason == "plan.no_alternative"
        assert run.message == ("A check failed: schema:s1:contract: 3 is not 4. There is no other way.")

    def test_a_first_plan_that_does_not_come_has_its_own_message(self):
        run = Driver(planner(PlanError("plan.no_alternative", "Nothing matches.")), ALL).submit()
        assert (run.reason, run.message) == ("plan.no_alternative", "Nothing matches.")
