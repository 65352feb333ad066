"""Policies: who approves, what costs, what is sensitive, and the calls that a condition gates."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.plan.plan import Inputs, SourceInput
from duly.protocol.plan.policy import Policy, PolicyGate
from duly.protocol.plan.request import Binding
from duly.protocol.plan.scope import Scope
from plans import plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")
ALL = table(A, B, W)
READ = step("s1", A, {"key": 1})
WRITE = step("s2", W, {"key": 2}, reader=B, needs=["s1"])


def driver_of(*steps: Any, policy: Policy, fields: Any = None, **more: Any) -> Driver:
    settings = {"tier": "assisted", **more.pop("settings", {})}
    answers = Answers(tools={name: lambda **k: k for name in ALL}, **more)
    return Driver(
        answers,
        ALL,
        plan=plan(steps, **(fields or {})),
        settings=settings,
        submitted={"policy": policy},
    )


class TestApprovers:
    POLICY = Policy(approvers=["ada"])

    def test_a_key_that_is_not_among_them_approves_nothing(self):
        driver = driver_of(READ, WRITE, policy=self.POLICY)
        driver.submit()
        driver.approver_name = "somebody"
        run = driver.approve()
        assert run.phase is Phase.WAITING_APPROVAL
        assert driver.refusals[-1].code == "approval.not_an_approver" and "ada" in driver.refusals[-1].message
        assert driver.facts("authority.refused")[-1]["code"] == "approval.not_an_approver"

    def test_one_of_them_does_by_name_or_by_key(self):
        driver = driver_of(READ, WRITE, policy=self.POLICY)
        driver.submit()
        driver.approver_name = "ada"
        assert driver.approve().phase is Phase.COMPLETED
        own = key_id(public_bytes(driver.person))
        driver = driver_of(READ, WRITE, policy=Policy(approvers=[own]))
        driver.submit()
        assert driver.approve().phase is Phase.COMPLETED

    def test_a_nameless_key_is_nobody(self):
        driver = driver_of(READ, WRITE, policy=Policy(approvers=["ada", ""]))
        driver.submit()
        driver.approver_name = ""
        driver.approve()
        assert driver.refusals[-1].code == "approval.not_an_approver"

    @pytest.mark.parametrize(("name", "gated"), [("ada", False), ("somebody", True), ("", True)])
    def test_the_mandate_of_somebody_who_may_not_approve_is_no_approval(self, name: str, gated: bool):
        driver = driver_of(READ, WRITE, policy=self.POLICY, settings={"tier": "bounded_autonomous"})
        driver.submitted = {**driver.submitted, "submitter_name": name}
        run = driver.submit()
        assert (run.gate is not None) is gated
        assert gated or run.phase is Phase.COMPLETED


class TestConsequences:
    @pytest.mark.parametrize(("cost", "gated"), [(100, False), (101, True)])
    def test_an_estimate_above_the_cost_line_waits(self, cost: int, gated: bool):
        answers = Answers(
            tools={name: lambda **k: k for name in ALL},
            bind=lambda run, order: Binding(playbook="p", estimate_cost=cost),
            draft=lambda run, order: plan([READ], origin="playbook"),
        )
        driver = Driver(answers, ALL, submitted={"policy": Policy(cost_line=100)})
        run = driver.submit()
        assert (run.gate is not None) is gated
        assert run.gate is None or run.gate.reason == "cost"

    def test_a_sensitive_source_waits(self):
        inputs = Inputs(sources=[SourceInput(source="patients", semantic_version="1")])
        driver = driver_of(step("s1", A, {}, inputs=inputs), policy=Policy(sensitive_sources=["patients"]))
        run = driver.submit()
        assert run.gate is not None and run.gate.reason == "consequential"
        assert driver.approve().phase is Phase.COMPLETED

    def test_a_scope_with_a_sensitive_source_waits(self):
        scope = Scope(sources=["patients"])
        driver = driver_of(
            READ,
            policy=Policy(sensitive_sources=["patients"]),
            fields={"scope": scope},
            settings={"scope": scope},
        )
        run = driver.submit()
        assert run.gate is not None and run.gate.reason == "sensitive"


class TestConditions:
    POLICY = Policy(
        gates=[PolicyGate(tool="t.w", when="arguments.key > 1"), PolicyGate(tool="t.w", when="x")]
    )

    def run_of(self, gated: bool, *steps: Any, **settings: Any) -> Driver:
        tier = {"tier": "bounded_autonomous", **settings}
        driver = driver_of(*(steps or (READ, WRITE)), policy=self.POLICY, settings=tier)
        driver.answers.policy = lambda run, order: gated
        return driver

    def asked(self, driver: Driver) -> list[effects.JudgePolicy]:
        return [order for order in driver.performed if isinstance(order, effects.JudgePolicy)]

    def test_a_call_that_a_condition_gates_waits_in_every_tier(self):
        driver = self.run_of(True)
        run = driver.submit()
        assert run.gate is not None and run.gate.step_id == "s2"
        (order,) = self.asked(driver)
        assert order.expressions == ("arguments.key > 1", "x")
        assert order.facts == {
            "arguments": {"key": 2},
            "tool": "t.w",
            "effect": "write",
            "resource": "sink:w",
        }
        assert driver.approve().phase is Phase.COMPLETED and len(self.asked(driver)) == 1

    def test_one_that_none_gates_goes_on(self):
        driver = self.run_of(False)
        assert driver.submit().phase is Phase.COMPLETED
        assert driver.facts("policy.judged")[0]["gated"] is False

    def test_where_nobody_can_say_it_waits(self):
        driver = self.run_of(False)
        driver.give(driver.submission())
        while not any(isinstance(order, effects.JudgePolicy) for order in driver.todo):
            driver._one_order()
        driver.todo.clear()
        driver.give(
            stimuli.PolicyJudged(**driver.moment(), step_id="s2", gated=False, code="gate.not_evaluated")
        )
        assert driver.run is not None and driver.run.gate is not None
        assert driver.facts("policy.judged")[0]["code"] == "gate.not_evaluated"

    def test_nothing_else_starts_while_it_is_asked(self):
        driver = self.run_of(False)
        driver.give(driver.submission())
        while not any(isinstance(order, effects.JudgePolicy) for order in driver.todo):
            driver._one_order()
        assert driver.run is not None and driver.run.asking == "s2" and not driver.run.outstanding

    def test_resolved_arguments_are_judged(self):
        driver = self.run_of(True, READ, step("s2", W, {"key": ref("s1")}, reader=B))
        driver.submit()
        assert self.asked(driver)[0].facts["arguments"] == {"key": 1}

    def test_what_a_tier_gates_anyway_is_gated_whatever_they_say(self):
        driver = self.run_of(False, READ, step("s2", W, {"key": ref("s1")}, reader=B), tier="assisted")
        driver.submit()
        run = driver.approve()
        assert run.gate is not None and run.gate.step_id == "s2"

    def test_a_tool_that_is_gated_anyway_is_not_asked_about(self):
        driver = self.run_of(False, gated_tools=["t.w"])
        run = driver.submit()
        assert run.gate is not None and not self.asked(driver)

    def test_a_gate_without_a_condition_gates_every_call(self):
        driver = driver_of(
            READ, WRITE, policy=Policy(gates=[PolicyGate(tool="t.a")]), settings={"tier": "long_autonomous"}
        )
        run = driver.submit()
        assert run.gate is not None and run.gate.step_id == "s1" and not driver.answers.called

    def test_reads_of_a_level_are_judged_one_by_one_before_any_starts(self):
        policy = Policy(gates=[PolicyGate(tool="t.a", when="x")])
        level = [step(f"s{n}", A, {"key": n}) for n in range(3)]
        driver = driver_of(*level, policy=policy, settings={"tier": "bounded_autonomous"})
        driver.answers.policy = lambda run, order: order.step_id == "s1"
        run = driver.submit()
        assert run.gate is not None and run.gate.step_id == "s1" and not driver.answers.called
        assert [order.step_id for order in self.asked(driver)] == ["s0", "s1"]
        run = driver.approve()
        assert run.phase is Phase.COMPLETED and len(self.asked(driver)) == 3
        assert driver.dispatches() == [("concurrent", ["s0", "s1", "s2"])]

    def test_after_a_crash_it_is_asked_again(self):
        driver = self.run_of(False)
        driver.give(driver.submission())
        while not any(isinstance(order, effects.JudgePolicy) for order in driver.todo):
            driver._one_order()
        driver.resume()
        assert driver.go_on().phase is Phase.COMPLETED

    def test_an_answer_that_nobody_waits_for_is_refused(self):
        driver = self.run_of(True)
        before = driver.submit()
        driver.give(stimuli.PolicyJudged(**driver.moment(), step_id="s2", gated=False))
        assert driver.run == before and driver.refusals[-1].code == "run.not_waiting_for_that"


def test_the_policy_is_part_of_the_record():
    policy = Policy(approvers=["ada"], gates=[PolicyGate(tool="t.w", when="true")], cost_line=7)
    driver = driver_of(READ, WRITE, policy=policy)
    driver.submit()
    assert driver.record.replayed("r1").policy == policy
