"""Where a run waits for a person, and that nothing but an approval of exactly what waits lets it go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.authority.approval import Approval
from duly.protocol.machine import gates, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.wire.errors import AuthorityError, PlanError
from plans import plan, ref, step, table, tool

A, B = tool("a"), tool("b")
SECRET = tool("secret", sensitive=True)
W, V = tool("w", "write"), tool("v", "write")
MAIL = tool("mail", "external")
ALL = table(A, B, SECRET, W, V, MAIL)
READ = step("s1", A, {"key": 1})
FIXED = step("s2", W, {"key": 1}, reader=A, needs=["s1"])
REFERRING = step("s2", W, {"key": ref("s1")}, reader=A)


class World:
    """Tools that count what was written."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.tools: dict[str, Callable[..., Any]] = {
            "t.a": lambda **k: {"key": k.get("key")},
            "t.b": lambda **k: {"key": 2},
            "t.secret": lambda **k: {"key": 3},
            "t.w": lambda **k: self.written.append(k),
            "t.v": lambda **k: self.written.append(k),
            "t.mail": lambda **k: self.written.append(k),
        }


def waiting(*steps: Any, **settings: Any) -> tuple[Driver, World]:
    world = World()
    many = [
        one.model_copy(update={"output_contract": one.output_contract.model_copy(update={"json_schema": {}})})
        for one in steps
    ]
    driver = Driver(Answers(tools=world.tools), ALL, plan=plan(many), settings=settings)
    driver.submit()
    return driver, world


def stops(driver: Driver) -> list[str]:
    """Every gate that the run stopped at, approved one after the other."""
    found = []
    while driver.run is not None and driver.run.gate is not None:
        found.append(driver.run.gate.kind if driver.run.gate.step_id is None else driver.run.gate.step_id)
        driver.approve()
    return found


class TestWhere:
    @pytest.mark.parametrize(
        ("steps", "settings", "expected"),
        [
            ([READ], {}, []),
            ([READ], {"gate": "always"}, ["plan"]),
            ([READ], {"gate": "always", "tier": "bounded_autonomous"}, []),
            ([step("s1", SECRET)], {}, ["plan"]),
            ([step("s1", SECRET)], {"tier": "long_autonomous"}, []),
            ([step("s1", MAIL, {"key": 1}, reader=A)], {}, ["plan"]),
            ([READ, FIXED], {}, ["plan"]),
            ([READ, FIXED], {"tier": "supervised"}, ["plan"]),
            ([READ, FIXED], {"tier": "bounded_autonomous"}, []),
            ([READ, FIXED], {"tier": "long_autonomous"}, []),
            ([READ, REFERRING], {}, ["plan", "s2"]),
            ([READ, REFERRING], {"tier": "bounded_autonomous"}, []),
            ([READ, REFERRING], {"tier": "bounded_autonomous", "gated_tools": ["t.w"]}, ["s2"]),
            ([READ, FIXED], {"tier": "long_autonomous", "gated_tools": ["t.w"]}, ["s2"]),
            ([READ], {"tier": "long_autonomous", "gated_tools": ["t.a"]}, ["s1"]),
            ([READ], {"gated_tools": ["t.a"]}, ["plan"]),
        ],
    )
    def test_tiers_and_settings(self, steps: Any, settings: Any, expected: list[str]):
        driver, _ = waiting(*steps, **settings)
        assert stops(driver) == expected
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED

    def test_a_gated_read_of_a_concurrent_level_holds_the_level_up(self):
        steps = [step("s1", A, {"key": 1}), step("s2", B), step("s3", B, {"key": 3})]
        driver, _ = waiting(*steps, tier="bounded_autonomous", gated_tools=["t.b"])
        assert not driver.answers.called
        assert stops(driver) == ["s2", "s3"]
        assert driver.dispatches() == [("concurrent", ["s1", "s2", "s3"])]

    def test_a_gated_read_inside_a_chain_ends_the_segment(self):
        steps = [step("s1", A, {"key": 1}), step("s2", B, {"key": ref("s1")})]
        driver, _ = waiting(*steps, tier="bounded_autonomous", gated_tools=["t.b"])
        assert stops(driver) == ["s2"]
        assert driver.dispatches() == [("serial", ["s1"]), ("serial", ["s2"])]

    def test_nothing_happens_before_the_plan_is_approved(self):
        driver, world = waiting(READ, REFERRING)
        assert not driver.answers.called
        driver.approve()
        assert [name for name, _, _ in driver.answers.called] == ["s1"] and not world.written
        driver.approve()
        assert world.written == [{"key": 1}]

    def test_inputs_of_a_write_are_checked_before_anybody_is_asked(self):
        bad = step("s1", A, {"key": 1}, schema={"type": "object", "required": ["other"]})
        world = World()
        driver = Driver(Answers(tools=world.tools), ALL, plan=plan([bad, REFERRING]))
        driver.submit()
        run = driver.approve()
        assert run.phase is Phase.FAILED and not world.written
        assert driver.kinds().count("gate.asked") == 1
        assert driver.facts("replan.triggered")[0]["trigger"] == "failed_verification"

    def test_with_references_one_approval_is_enough(self):
        driver, world = waiting(READ, REFERRING)
        run = driver.approve(with_references=True)
        assert run.phase is Phase.COMPLETED and world.written == [{"key": 1}]

    def test_the_text_shown_holds_the_resolved_arguments(self):
        driver, _ = waiting(READ, REFERRING)
        driver.approve()
        assert driver.run is not None
        view = gates.view(driver.run)
        assert view.step_id == "s2" and view.arguments == {"s2": {"key": 1}}
        assert not view.steps["s2"].template


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another run": ({"run_id": "r2"}, "approval.other_run"),
    "another gate": ({"gate": "g-0"}, "gate.already_decided"),
    "another kind": ({"kind": "step"}, "approval.other_gate"),
    "expired": ({"expires_ms": 1}, "approval.expired"),
    "another plan": ({"plan": "0" * 64}, "approval.other_plan"),
    "another step": ({"step_id": "s2"}, "approval.other_step"),
    "no step": ({"steps": {}}, "approval.descriptor_changed"),
    "another scope": ({"scope": "0" * 64}, "approval.scope_changed"),
    "another budget": ({"budget": {"steps": 10**6}}, "approval.budget_changed"),
    "another policy": ({"policy": "policy-2"}, "approval.policy_changed"),
    "another text": ({"shown": "0" * 64}, "approval.shown_mismatch"),
}


class TestWhat:
    @pytest.mark.parametrize("name", WRONG)
    def test_an_approval_of_anything_else_is_refused_and_recorded(self, name: str):
        changes, code = WRONG[name]
        driver, world = waiting(READ, FIXED)
        gate = driver.run.gate if driver.run else None
        run = driver.approve(**changes)
        assert run.phase is Phase.WAITING_APPROVAL and run.gate == gate
        assert driver.refusals[-1].code == code
        assert driver.facts("authority.refused") == [{"code": code, "phase": "WAITING_APPROVAL"}]
        assert not driver.answers.called
        assert driver.approve().phase is Phase.COMPLETED and world.written == [{"key": 1}]

    @pytest.mark.parametrize(
        ("field", "code"),
        [
            ("tool", "approval.descriptor_changed"),
            ("descriptor", "approval.descriptor_changed"),
            ("arguments", "approval.args_mismatch"),
            ("template", "approval.args_mismatch"),
        ],
    )
    def test_one_changed_field_of_one_step_is_enough(self, field: str, code: str):
        driver, _ = waiting(READ, FIXED)
        steps = driver.approval().steps
        value: Any = True if field == "template" else "0" * 64
        driver.approve(steps={"s2": steps["s2"].model_copy(update={field: value})})
        assert driver.refusals[-1].code == code

    def test_twice_approved_is_once_approved(self):
        driver, world = waiting(READ, FIXED)
        envelope = driver.approval().sign(driver.person)
        assert driver.give_approval(envelope).phase is Phase.COMPLETED
        driver.give_approval(envelope)
        assert driver.refusals[-1].code == "gate.already_decided"
        assert world.written == [{"key": 1}]

    def test_the_approval_of_the_plan_gate_does_not_open_the_step_gate(self):
        driver, world = waiting(READ, REFERRING)
        envelope = driver.approval().sign(driver.person)
        driver.give_approval(envelope)
        driver.give_approval(envelope)
        assert driver.refusals[-1].code == "gate.already_decided" and not world.written

    def test_a_used_nonce_is_used(self):
        driver, _ = waiting(READ, REFERRING)
        first = driver.approval()
        driver.give_approval(first.sign(driver.person))
        driver.approve(nonce=first.nonce)
        assert driver.refusals[-1].code == "approval.replayed"

    def test_a_strangers_signature_is_refused_and_recorded(self):
        driver, _ = waiting(READ, FIXED)
        run = driver.give_approval(driver.approval().sign(driver.clock.key("stranger")))
        assert run.phase is Phase.WAITING_APPROVAL
        assert driver.facts("authority.refused")[0]["code"] == "approval.unknown_key"

    def test_an_approval_that_expired_while_other_steps_ran_is_asked_for_again(self):
        second = step("s3", V, {"key": 3}, reader=A, needs=["s2"])
        driver, world = waiting(READ, FIXED, second)
        driver.order_ms = 1_000
        run = driver.approve(expires_ms=driver.clock.now_ms + 3_500)
        assert run.gate is not None and run.gate.step_id == "s3"
        assert world.written == [{"key": 1}]

    def test_a_host_that_does_not_take_the_approval_reopens_the_gate(self):
        for code in ("approval.expired", "approval.args_mismatch", "grant.args_mismatch"):
            driver, _ = waiting(READ, FIXED)
            given = driver.approval()
            driver.give(
                stimuli.Approved(
                    **driver.moment(), approval=given, envelope=given.sign(driver.person), approver="k1"
                )
            )
            for _ in range(3):  # the read, the reads for its checks, its checks
                driver._one_order()
            assert driver.run is not None and driver.run.outstanding == ["s2"]
            outcome = stimuli.StepOutcome(step_id="s2", attempt=1, wave=2, outcome="error", code=code)
            driver.todo.clear()
            driver.give(stimuli.StepsReturned(**driver.moment(), outcomes=[outcome]))
            assert driver.run.gate is not None and driver.run.gate.step_id == "s2"
            assert driver.approve().phase is Phase.COMPLETED


class TestDecisions:
    def test_rejected_without_a_word(self):
        for feedback in (None, "", "   "):
            driver, world = waiting(READ, FIXED)
            run = driver.reject(feedback)
            assert (run.phase, run.reason) == (Phase.FAILED, "gate.rejected")
            assert not driver.answers.called and not world.written

    def test_rejected_at_the_step_gate_nothing_is_written(self):
        driver, world = waiting(READ, REFERRING)
        driver.approve()
        assert driver.reject().phase is Phase.FAILED and not world.written

    def test_feedback_reaches_the_planner_and_is_bounded(self):
        driver, _ = waiting(READ, FIXED)
        seen: list[tuple[str, ...]] = []

        def draft(run: Any, order: Any) -> Any:
            seen.append(order.guidance)
            return plan([READ, step("s2", W, {"key": len(seen) + 1}, reader=A)])

        driver.answers.draft = draft
        for number in range(3):
            assert driver.reject(f"no {number}").phase is Phase.WAITING_APPROVAL
        assert seen == [("no 0",), ("no 0", "no 1"), ("no 0", "no 1", "no 2")]
        run = driver.reject("no more")
        assert (run.phase, run.reason) == (Phase.FAILED, "gate.rejected")
        assert driver.facts("replan.refused")[-1]["code"] == "replan.bound"

    def test_a_rejected_plan_cannot_return_under_another_number(self):
        driver, _ = waiting(READ, FIXED)
        assert driver.plan is not None
        same = driver.plan.model_copy(update={"plan_id": "other", "version": 9, "origin": "playbook"})
        driver.answers.draft = lambda run, order: same
        run = driver.reject("another way")
        assert (run.phase, run.reason) == (Phase.FAILED, "plan.already_rejected")

    def test_no_other_way_after_a_rejection_says_that_it_was_rejected(self):
        driver, _ = waiting(READ, FIXED)
        driver.answers.draft = lambda run, order: PlanError("plan.no_alternative", "None.")
        run = driver.reject("another way")
        assert (run.phase, run.reason) == (Phase.FAILED, "gate.rejected")

    def test_a_replanned_plan_gates_again_and_shows_the_difference(self):
        driver, _ = waiting(READ, FIXED)
        driver.answers.draft = lambda run, order: plan([READ, step("s2", W, {"key": 2}, reader=A)])
        run = driver.reject("two, please")
        assert run.gate is not None and run.gate.kind == "plan"
        assert "WHAT CHANGED SINCE THE LAST PLAN" in gates.view(run).text

    def test_the_loser_of_two_decisions_is_told(self):
        driver, _ = waiting(READ, FIXED)
        assert driver.run is not None and driver.run.gate is not None
        gate = driver.run.gate.gate_id
        driver.approve()
        driver.give(stimuli.Rejected(**driver.moment(), gate=gate))
        assert driver.refusals[-1].code == "gate.already_decided"

    def test_a_rejection_of_another_gate_is_refused(self):
        driver, _ = waiting(READ, FIXED)
        driver.give(stimuli.Rejected(**driver.moment(), gate="g-0"))
        assert driver.refusals[-1].code == "gate.already_decided"
        assert driver.run is not None and driver.run.phase is Phase.WAITING_APPROVAL


class TestTime:
    def test_without_a_limit_waiting_lasts(self):
        driver, _ = waiting(READ, FIXED)
        assert not driver.timers
        driver.clock.now_ms += 50 * 24 * 3600 * 1000
        driver.give(stimuli.TimePassed(**driver.moment()))
        assert driver.run is not None and driver.run.phase is Phase.WAITING_APPROVAL

    def test_a_gate_has_its_end(self):
        driver, world = waiting(READ, FIXED, gate_ttl_seconds=60)
        assert driver.run is not None and driver.run.gate is not None
        assert [timer.at_ms for timer in driver.timers] == [driver.run.gate.asked_ms + 60_000]
        run = driver.wake()
        assert (run.phase, run.reason) == (Phase.FAILED, "gate.timeout") and not world.written

    def test_a_timer_that_comes_too_early_is_set_again(self):
        driver, _ = waiting(READ, FIXED, gate_ttl_seconds=60)
        driver.timers.clear()
        driver.give(stimuli.TimePassed(**driver.moment()))
        assert len(driver.timers) == 1 and driver.run is not None and driver.run.gate is not None

    def test_an_approval_after_the_end_is_too_late_even_before_the_timer(self):
        driver, world = waiting(READ, FIXED, gate_ttl_seconds=60)
        driver.clock.now_ms += 60_000
        assert driver.approve().reason == "gate.timeout" and not world.written


def test_only_a_gate_has_a_view():
    driver, _ = waiting(READ)
    assert driver.run is not None
    with pytest.raises(AuthorityError) as caught:
        gates.view(driver.run)
    assert caught.value.code == "gate.none"


def test_covers_says_why_not_with_a_code_for_each_reason():
    driver, _ = waiting(READ, FIXED)
    given = driver.approval()
    plain = given.steps["s2"]
    fits: dict[str, Any] = {
        "run_id": given.run_id,
        "plan": given.plan,
        "step_id": "s2",
        "descriptor": plain.descriptor,
        "arguments": plain.arguments,
        "template": plain.arguments,
        "now_ms": 0,
    }
    given.covers(**fits)
    reasons = {
        "approval.other_run": {"run_id": "r2"},
        "approval.expired": {"now_ms": given.expires_ms + 1},
        "approval.other_plan": {"plan": "0" * 64},
        "approval.other_step": {"step_id": "s1"},
        "approval.descriptor_changed": {"descriptor": "0" * 64},
        "approval.args_mismatch": {"arguments": "0" * 64},
    }
    for code, change in reasons.items():
        with pytest.raises(AuthorityError) as caught:
            given.covers(**{**fits, **change})
        assert caught.value.code == code


def test_open_arguments_are_covered_only_with_references_and_only_as_this_template():
    driver, _ = waiting(READ, REFERRING)
    given = driver.approval()
    template = given.steps["s2"].arguments
    fits: dict[str, Any] = {
        "run_id": given.run_id,
        "plan": given.plan,
        "step_id": "s2",
        "descriptor": given.steps["s2"].descriptor,
        "arguments": "1" * 64,
        "template": template,
        "now_ms": 0,
    }
    whole: Approval = given.model_copy(update={"with_references": True})
    whole.covers(**fits)
    for approval, change in ((given, {}), (whole, {"template": "2" * 64})):
        with pytest.raises(AuthorityError) as caught:
            approval.covers(**{**fits, **change})
        assert caught.value.code == "approval.args_open"


def test_a_step_approval_covers_that_step_only():
    driver, _ = waiting(READ, FIXED)
    given = driver.approval(kind="step", step_id="s1")
    plain = given.steps["s2"]
    with pytest.raises(AuthorityError) as caught:
        given.covers(
            run_id=given.run_id,
            plan=given.plan,
            step_id="s2",
            descriptor=plain.descriptor,
            arguments=plain.arguments,
            template=plain.arguments,
            now_ms=0,
        )
    assert caught.value.code == "approval.other_step"
