"""What a new start finds changed: gates ask anew, approvals lapse, changed tools end a run, and what nobody can execute says so."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.machine import effects, gates, stimuli
from duly.protocol.machine.pending import pending
from duly.protocol.machine.phases import Phase
from plans import plan, ref, step, table, tool

A, B, S = tool("a"), tool("b"), tool("s", sensitive=True)
W, V = tool("w", "write"), tool("v", "write")
ALL = table(A, B, S, W, V)
TOOLS = {name: lambda **k: k for name in ALL}
READ = step("s1", A, {"key": 1})
WRITE = step("s2", W, {"key": 2}, reader=A, needs=["s1"])
POLICY = {"changed": ["policy"], "digests": {"policy": "policy-2", "semantics": ""}}


def driver_of(*steps: Any, **more: Any) -> Driver:
    settings = more.pop("settings", {})
    return Driver(
        Answers(tools=TOOLS), ALL, plan=plan(steps, **more.pop("fields", {})), settings=settings, **more
    )


def start_again(driver: Driver, **found: Any) -> Any:
    driver.resumed = found
    driver.resume()
    return driver.go_on()


def until_outstanding(driver: Driver, *names: str) -> None:
    while driver.run is None or driver.run.outstanding != list(names):
        driver._one_order()


class TestGate:
    @pytest.mark.parametrize("changed", [["catalogue"], ["policy"], ["semantics", "t.b"]])
    def test_it_asks_anew_and_says_what_changed(self, changed: list[str]):
        driver = driver_of(READ, WRITE)
        run = driver.submit()
        assert run.gate is not None
        old, approval = run.gate.gate_id, driver.approval().sign(driver.person)
        run = start_again(driver, changed=changed)
        assert run.phase is Phase.WAITING_APPROVAL and run.gate is not None and run.gate.gate_id != old
        asked = driver.facts("gate.asked")[-1]
        assert (asked["why"], asked["changed"]) == ("changed", changed)
        driver.give_approval(approval)
        assert driver.refusals[-1].code == "gate.already_decided"
        assert driver.approve().phase is Phase.COMPLETED

    def test_nothing_changed_nothing_is_asked_again(self):
        driver = driver_of(READ, WRITE)
        before = driver.submit()
        run = start_again(driver)
        assert run.gate == before.gate and driver.kinds().count("gate.asked") == 1

    def test_a_step_gate_asks_anew_too(self):
        driver = driver_of(READ, step("s2", W, {"key": ref("s1")}, reader=A))
        driver.submit()
        run = driver.approve()
        assert run.gate is not None and run.gate.step_id == "s2"
        run = start_again(driver, changed=["catalogue"])
        assert run.gate is not None and run.gate.step_id == "s2" and run.gate.reason == "changed"


class TestPolicy:
    def test_an_approval_under_the_old_policy_is_none(self):
        driver = driver_of(READ, WRITE)
        driver.submit()
        driver.give(_approved(driver))
        until_outstanding(driver, "s1")
        run = start_again(driver, **POLICY)
        assert run.gate is not None and run.gate.kind == "plan" and run.approvals == ()
        assert gates.view(run).policy == "policy-2"
        old = driver.approval(policy="policy-1")
        driver.give_approval(old.sign(driver.person))
        assert driver.refusals[-1].code == "approval.policy_changed"
        assert driver.approve().phase is Phase.COMPLETED

    def test_a_step_that_was_approved_under_the_old_policy_waits_again(self):
        driver = driver_of(READ, step("s2", W, {"key": ref("s1")}, reader=A), settings={"gate": "always"})
        driver.submit()
        driver.approve()
        driver.give(_approved(driver))
        until_outstanding(driver, "s2")
        run = start_again(driver, **POLICY)
        assert run.gate is not None and run.gate.kind == "plan"
        run = driver.approve()
        assert run.asked is not None and run.asked.about == "outcome:s2"
        run = driver.answer("it did not")
        assert run.gate is not None and run.gate.step_id == "s2"
        assert driver.approve().phase is Phase.COMPLETED


def _approved(driver: Driver) -> stimuli.Approved:
    approval = driver.approval()
    return stimuli.Approved(
        **driver.moment(), approval=approval, envelope=approval.sign(driver.person), approver="k1"
    )


class TestDescriptors:
    @pytest.mark.parametrize("tools", [["t.w"], ["t.a"], ["t.a", "t.w", "t.b"]])
    def test_a_changed_tool_of_the_rest_of_the_plan_ends_the_run(self, tools: list[str]):
        driver = driver_of(READ, WRITE)
        driver.submit()
        run = start_again(driver, changed=tools)
        assert (run.phase, run.reason) == (Phase.FAILED, "run.descriptors_changed")
        assert all((name in run.message) == (name != "t.b") for name in tools)
        assert not driver.answers.called

    def test_with_what_is_valid_where_the_plan_allows_it(self):
        driver = driver_of(READ, step("s2", W, {"key": ref("s1")}, reader=B), fields={"allow_partial": True})
        driver.submit()
        driver.approve()
        run = start_again(driver, changed=["t.w"])
        assert (run.phase, run.reason) == (Phase.PARTIAL, "run.descriptors_changed")

    def test_a_tool_that_is_done_or_never_used_is_no_matter(self):
        driver = driver_of(READ, step("s2", W, {"key": ref("s1")}, reader=B))
        driver.submit()
        driver.approve()
        run = start_again(driver, changed=["t.a", "t.v"])
        assert run.phase is Phase.WAITING_APPROVAL

    def test_the_read_back_of_what_was_written_is_the_rest_of_the_plan_too(self):
        driver = driver_of(step("s1", W, {"key": 1}, reader=B), settings={"tier": "bounded_autonomous"})
        driver.give(driver.submission())
        while driver.run is None or driver.run.phase is not Phase.VERIFYING:
            driver._one_order()
        run = start_again(driver, changed=["t.b"])
        assert run.reason == "run.descriptors_changed"

    def test_a_write_under_way_is_not_forgotten_in_the_end(self):
        driver = driver_of(step("s1", W, {"key": 1}, reader=B), settings={"tier": "bounded_autonomous"})
        driver.give(driver.submission())
        until_outstanding(driver, "s1")
        run = start_again(driver, changed=["t.w"])
        assert run.phase is Phase.FAILED and "nobody can say" in run.message
        assert run.steps["s1"].status == "unknown"

    def test_no_later_plan_uses_it_either(self):
        again = plan([step("s9", A, {"key": 9}), step("s8", B, {"key": 1})])
        driver = Driver(Answers(tools=TOOLS, draft=lambda run, order: again), ALL)
        driver.give(driver.submission())
        run = start_again(driver, changed=["t.b"])
        assert run.phase is Phase.FAILED and run.reason == "plan.refused"
        assert "plan.descriptor_changed" in run.message


class TestExpiry:
    def test_a_plan_approval_that_lapsed_before_a_sensitive_read_is_asked_for_again(self):
        driver = driver_of(READ, step("s2", S, {"key": ref("s1")}), order_ms=1_000)
        driver.settings = {"schedule": "overlap", "budget": {"rows_scanned": 100}}  # each read by itself
        driver.submit()
        run = driver.approve(expires_ms=driver.clock.now_ms + 500)
        assert run.gate is not None and run.gate.reason == "expired" and run.gate.kind == "plan"
        assert [one[0] for one in driver.answers.called] == ["s1"]
        assert driver.approve().phase is Phase.COMPLETED


class TestStalled:
    def stalled(self, *steps: Any, **more: Any) -> Driver:
        driver = driver_of(*(steps or (READ, step("s3", B, {"key": 3}))), **more)
        driver.give(driver.submission())
        until_outstanding(driver, *(["s1", "s3"] if not steps else [steps[0].step_id]))
        driver.resumed = {"stalled": "package.missing"}
        driver.resume()
        return driver

    def test_it_stays_where_it_is_and_says_so(self):
        driver = self.stalled()
        run = driver.run
        assert run is not None and run.phase is Phase.RUNNING
        assert (run.reason, run.stalled) == ("run.no_executor", "package.missing")
        assert pending(run) == [] and driver.facts("run.stalled")[0]["code"] == "package.missing"
        driver.checked()

    def test_the_next_start_goes_on(self):
        driver = self.stalled()
        run = start_again(driver)
        assert run.phase is Phase.COMPLETED and run.stalled == ""

    def test_the_next_start_may_find_the_same(self):
        driver = self.stalled()
        run = start_again(driver, stalled="package.missing")
        assert run.reason == "run.no_executor" and not run.phase.ended

    def test_time_stands_still(self):
        driver = self.stalled()
        assert driver.run is not None
        spent = driver.run.budget.spent.get("wall_ms", 0)
        driver.clock.now_ms += 10**7
        driver.give(stimuli.TimePassed(**driver.moment(), elapsed_ms=10**7))
        assert driver.run.budget.spent.get("wall_ms", 0) == spent and not driver.run.phase.ended

    def test_it_can_be_cancelled(self):
        driver = self.stalled()
        assert driver.cancel().phase is Phase.CANCELLED

    def test_an_approval_is_kept_until_something_can_execute_it(self):
        driver = driver_of(READ, WRITE)
        driver.submit()
        driver.resumed = {"stalled": "package.missing"}
        driver.resume()
        run = driver.approve()
        assert run.phase is Phase.READY and run.reason == "run.no_executor" and not driver.answers.called
        assert start_again(driver).phase is Phase.COMPLETED

    def test_of_a_write_that_was_under_way_nothing_is_repeated(self):
        driver = self.stalled(step("s1", W, {"key": 1}, reader=B), settings={"tier": "bounded_autonomous"})
        run = start_again(driver)
        assert run.asked is not None and run.asked.about == "outcome:s1"
        assert not [one for one in driver.answers.called if one[0] == "s1"]


class TestTwice:
    def test_a_harness_takes_a_run_over_once(self):
        driver = driver_of(READ, step("s3", B, {"key": 3}))
        driver.give(driver.submission())
        until_outstanding(driver, "s1", "s3")
        before = driver.run
        driver.give(stimuli.Resumed(**driver.moment(), epoch=driver.epoch))
        assert driver.refusals[-1].code == "run.already_resumed" and driver.run == before

    def test_what_was_reserved_for_checks_is_forfeit_once(self):
        driver = driver_of(READ, WRITE, settings={"tier": "bounded_autonomous"})
        driver.give(driver.submission())
        while not any(isinstance(order, effects.CheckSteps) for order in driver.todo):
            driver._one_order()
        run = start_again(driver)
        assert run.phase is Phase.COMPLETED
