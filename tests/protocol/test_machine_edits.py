"""What people change under way: the waiting plan, what planning has to take into account, the objective."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.authority.mandate import MandatedTool
from duly.protocol.machine import effects, gates, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import PlanError
from plans import plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W, V = tool("w", "write"), tool("v", "write")
ALL = table(A, B, W, V)
TOOLS = {name: lambda **k: k for name in ALL}
READ = step("s1", A, {"key": 1})
WRITE = step("s2", W, {"key": 2}, reader=A, needs=["s1"])
PLANNED: list[Any] = [READ, WRITE]


def planner(*drafts: Plan | PlanError) -> Answers:
    """A planner that gives these, in order, with the objective that the request has then."""
    waiting = list(drafts)

    def draft(run: Run, order: effects.Draft) -> Any:
        one = waiting.pop(0) if waiting else PlanError("plan.no_alternative", "There is no other way.")
        return one.model_copy(update={"objective": run.request.text}) if isinstance(one, Plan) else one

    return Answers(tools=TOOLS, draft=draft)


def waiting(*drafts: Plan | PlanError, **more: Any) -> Driver:
    """A run that waits at the gate of the first plan."""
    driver = Driver(planner(plan(PLANNED), *drafts), ALL, **more)
    run = driver.submit()
    assert run.gate is not None and run.gate.kind == "plan"
    return driver


def drafts_asked(driver: Driver) -> list[effects.Draft]:
    return [order for order in driver.performed if isinstance(order, effects.Draft)]


class TestEdit:
    def test_the_edited_plan_is_shown_again_with_the_difference_and_runs_after_an_approval(self):
        driver = waiting()
        first = driver.run
        assert first is not None and first.gate is not None and first.plan is not None
        edited = first.plan.model_copy(update={"steps": [READ, step("s2", V, {"key": 3}, reader=A)]})
        run = driver.edit(edited)
        assert run.phase is Phase.WAITING_APPROVAL and run.gate is not None
        assert run.gate.gate_id != first.gate.gate_id and run.gate.reason == "edited"
        assert run.plan is not None and run.plan.version == 2
        assert (run.plan.origin, run.plan.provenance.kind) == ("person", "edited")
        text = gates.view(run).text
        assert text.index("WHAT CHANGED") < text.index("OBJECTIVE") and "+ steps.s2" in text
        run = driver.approve()
        assert run.phase is Phase.COMPLETED and [one[1] for one in driver.answers.called][-1] == "t.v"

    def test_the_approval_of_the_plan_before_is_worth_nothing(self):
        driver = waiting()
        old = driver.approval().sign(driver.person)
        assert driver.run is not None and driver.run.plan is not None
        driver.edit(driver.run.plan.model_copy(update={"steps": [READ]}))
        run = driver.give_approval(old)
        assert run.phase is Phase.WAITING_APPROVAL
        assert driver.refusals[-1].code == "gate.already_decided"

    def test_a_plan_without_consequences_is_shown_again_too(self):
        driver = waiting()
        assert driver.run is not None and driver.run.plan is not None
        run = driver.edit(driver.run.plan.model_copy(update={"steps": [READ]}))
        assert run.phase is Phase.WAITING_APPROVAL and not driver.answers.called
        assert driver.approve().phase is Phase.COMPLETED

    def test_every_fault_is_named_and_the_gate_stays(self):
        driver = waiting()
        before = driver.run
        assert before is not None and before.plan is not None
        bad = [
            step("s1", A, {"key": ref("s9")}),
            step("s1", tool("x"), {}),
            step("s3", W, {"key": 1}),  # no read-back
        ]
        run = driver.edit(before.plan.model_copy(update={"steps": bad, "objective": "Something else."}))
        assert run == before
        refusal = driver.refusals[-1]
        assert refusal.code == "plan.invalid"
        assert {fault.code for fault in refusal.faults} >= {
            "plan.duplicate_id",
            "plan.dangling_reference",
            "plan.tool_not_granted",
            "plan.no_read_back",
            "replan.objective",
        }

    @pytest.mark.parametrize("scope", [["other"]])
    def test_no_edit_reaches_beyond_the_mandate(self, scope: list[str]):
        driver = waiting()
        assert driver.run is not None and driver.run.plan is not None
        driver.edit(driver.run.plan.model_copy(update={"scope": Scope(sources=scope)}))
        assert [fault.code for fault in driver.refusals[-1].faults] == ["plan.scope"]

    def test_the_same_plan_is_no_edit(self):
        driver = waiting()
        assert driver.run is not None and driver.run.plan is not None
        driver.edit(driver.run.plan)
        assert driver.refusals[-1].code == "plan.unchanged"

    def test_a_rejected_plan_does_not_come_back_by_an_edit(self):
        other = plan([READ, step("s2", V, {"key": 2}, reader=A)])
        driver = waiting(other)
        assert driver.run is not None and driver.run.plan is not None
        rejected = driver.run.plan
        driver.reject("another tool")
        driver.edit(rejected)
        assert driver.refusals[-1].code == "plan.already_rejected"

    def test_only_at_a_plan_gate(self):
        by_reference = [READ, step("s2", W, {"key": ref("s1")}, reader=A)]
        driver = Driver(planner(plan(by_reference)), ALL)
        driver.submit()
        run = driver.approve()
        assert run.gate is not None and run.gate.kind == "step" and run.plan is not None
        driver.edit(run.plan.model_copy(update={"steps": [READ]}))
        assert driver.refusals[-1].code == "run.not_editable"
        driver.approve()
        driver.edit(run.plan)
        assert driver.refusals[-1].code == "run.not_editable"

    def test_of_two_that_look_at_one_gate_the_first_wins(self):
        driver = waiting()
        assert driver.run is not None and driver.run.gate is not None and driver.run.plan is not None
        gate, seen = driver.run.gate.gate_id, driver.run.plan
        driver.edit(seen.model_copy(update={"steps": [READ]}))
        driver.say(lambda: stimuli.Edited(**driver.moment(), plan=seen, gate=gate))
        assert driver.refusals[-1].code == "gate.already_decided"

    def test_an_edited_plan_is_never_cached(self):
        driver = waiting()
        assert driver.run is not None and driver.run.plan is not None
        driver.edit(driver.run.plan.model_copy(update={"steps": [READ]}))
        driver.approve()
        assert driver.answers.stored == []


class TestGuide:
    def test_at_a_plan_gate_the_next_draft_follows_and_knows_it(self):
        other = plan([READ, step("s2", V, {"key": 2}, reader=A)])
        driver = waiting(other)
        run = driver.guide("use the other one")
        assert run.phase is Phase.WAITING_APPROVAL and run.plan is not None
        assert run.plan.steps[1].tool == "t.v" and drafts_asked(driver)[-1].guidance == ("use the other one",)
        assert [facts["code"] for facts in driver.facts("replan.triggered")] == ["gate.guided"]

    def test_without_another_way_the_plan_before_waits_again(self):
        driver = waiting()
        before = driver.run
        assert before is not None
        run = driver.guide("use the other one")
        assert run.phase is Phase.WAITING_APPROVAL and run.plan == before.plan
        assert driver.facts("replan.refused")[-1]["keep"] is True
        assert driver.approve().phase is Phase.COMPLETED

    def test_the_same_plan_again_is_refused_and_the_old_one_waits(self):
        driver = waiting(plan(PLANNED))
        run = driver.guide("use the other one")
        assert run.phase is Phase.WAITING_APPROVAL
        assert driver.facts("replan.refused")[-1]["code"] == "replan.identical"

    def test_it_is_bounded_with_the_feedback(self):
        many = [plan([READ, step("s2", V, {"key": n}, reader=A)]) for n in range(9)]
        driver = waiting(*many)
        for _ in range(3):
            driver.guide("another")
        version = driver.run.plan.version if driver.run and driver.run.plan else 0
        run = driver.guide("and another")
        assert run.phase is Phase.WAITING_APPROVAL and run.plan is not None and run.plan.version == version
        assert driver.facts("replan.refused")[-1]["code"] == "replan.bound"

    def test_elsewhere_it_waits_for_the_next_draft(self):
        by_reference = [READ, step("s2", W, {"key": ref("s1")}, reader=A)]
        other = plan([READ, step("s2", V, {"key": 5}, reader=A)])
        driver = Driver(planner(plan(by_reference), other), ALL)
        driver.submit()
        driver.approve()
        run = driver.guide("mind the gap")
        assert run.gate is not None and run.gate.kind == "step" and len(drafts_asked(driver)) == 1
        driver.reject("not so")
        assert drafts_asked(driver)[-1].guidance == ("mind the gap", "not so")

    def test_a_draft_that_was_under_way_without_it_does_not_count(self):
        driver = Driver(planner(plan(PLANNED), plan([READ])), ALL)
        driver.give(driver.submission())
        while not any(isinstance(order, effects.Draft) for order in driver.todo):
            driver._one_order()
        old = driver.todo.popleft()
        driver.give(stimuli.Guided(**driver.moment(), text="mind the gap"))
        late = list(driver.answers.perform(driver, old))
        driver.give(late[0])
        assert driver.refusals[-1].code == "run.not_waiting_for_that"
        driver.go_on()
        assert drafts_asked(driver)[-1].guidance == ("mind the gap",)

    @pytest.mark.parametrize("text", ["", "  \n", "x" * 70_000])
    def test_nothing_or_a_book_is_no_guidance(self, text: str):
        driver = waiting()
        before = driver.run
        assert driver.guide(text) == before and driver.refusals[-1].code == "run.bad_guidance"


class TestAmend:
    def test_the_run_is_planned_anew_for_the_new_objective_and_gates_again(self):
        driver = waiting(plan([READ, step("s2", V, {"key": 2}, reader=A)]))
        run = driver.amend("Find out something else.")
        assert run.phase is Phase.WAITING_APPROVAL and run.plan is not None
        assert run.plan.objective == run.request.text == "Find out something else."
        assert run.mandate.request == run.request.digest()
        assert "WHAT CHANGED" in gates.view(run).text
        binds = [order for order in driver.performed if isinstance(order, effects.Bind)]
        assert len(binds) == 2 and drafts_asked(driver)[-1].exclude == ()
        assert driver.approve().phase is Phase.COMPLETED

    def test_validated_results_are_kept(self):
        driver = Driver(planner(plan([READ, step("s2", W, {"key": ref("s1")}, reader=A)]), plan([READ])), ALL)
        driver.submit()
        driver.approve()  # the read ran; the write waits at its gate
        run = driver.amend("Find out something else.")
        assert run.phase is Phase.COMPLETED and run.steps["s1"].status == "reused"
        assert [one[0] for one in driver.answers.called] == ["s1"]

    def test_the_playbooks_and_answers_of_the_old_objective_do_not_count(self):
        asked: list[dict[str, str]] = []
        driver = waiting(plan([READ]))

        def bind(run: Run, order: effects.Bind) -> Binding:
            asked.append(dict(order.answers))
            return Binding(playbook="p")

        driver.answers.bind = bind
        run = driver.amend("Find out something else.")
        assert run.phase is Phase.COMPLETED and asked == [{}]

    def test_reads_under_way_are_given_up_and_come_too_late(self):
        driver = Driver(planner(plan([READ, step("s2", B, {"key": 2})]), plan([READ])), ALL)
        driver.give(driver.submission())
        while not any(isinstance(order, effects.Dispatch) for order in driver.todo):
            driver._one_order()
        dispatch = driver.todo.popleft()
        results = list(driver.answers.perform(driver, dispatch))
        driver.give(driver.amendment("Find out something else."))
        assert isinstance(driver.todo[0], effects.CancelCalls)
        run = driver.run
        assert run is not None and run.phase is Phase.PLANNING and not run.outstanding
        assert run.budget.spent["steps"] == 2 and not run.budget.reserved
        for one in results:
            driver.give(one)
        assert len(driver.facts("step.late_result")) == 2
        assert driver.go_on().phase is Phase.COMPLETED and driver.answers.cancelled == 1

    def test_not_while_a_write_is_under_way(self):
        driver = Driver(planner(plan([WRITE.model_copy(update={"depends_on": []})])), ALL)
        driver.settings = {"tier": "bounded_autonomous"}
        driver.give(driver.submission())
        while driver.run is None or not driver.run.outstanding:
            driver._one_order()
        before = driver.run
        driver.give(driver.amendment("Find out something else."))
        assert driver.run == before and driver.refusals[-1].code == "run.busy"

    def test_not_while_nobody_knows_what_became_of_one(self):
        driver = waiting()
        driver.answers.tools = {**TOOLS, "t.w": _lost}
        run = driver.approve()
        assert run.asked is not None and run.asked.about == "outcome:s2"
        driver.amend("Find out something else.")
        assert driver.refusals[-1].code == "run.busy" and driver.run == run

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"run_id": "r2"}, "mandate.other_run"),
            ({"expires_ms": 1}, "mandate.expired"),
            ({"request": "0" * 64}, "mandate.other_request"),
            ({"agent": "somebody"}, "mandate.other_agent"),
            ({"package": "0" * 64}, "mandate.other_agent"),
            ({"plan": "0" * 64}, "mandate.other_plan"),
            ({"shadow": True}, "mandate.shadow"),
            ({"from_run": "r0"}, "mandate.other_from_run"),
            ({"gated_tools": []}, "mandate.gate_weakened"),
            (
                {"tools": {"t.z": MandatedTool(descriptor="0" * 64, effect="read")}},
                "mandate.tool_not_granted",
            ),
            (
                {"tools": {"t.a": MandatedTool(descriptor="0" * 64, effect="read")}},
                "mandate.descriptor_changed",
            ),
            ({"budget": {"nonsense": 1}}, "budget.bad_value"),
            ({"budget": {"steps": 0}}, "budget.already_spent"),
        ],
    )
    def test_a_mandate_that_does_not_fit_changes_nothing(self, changes: dict[str, Any], code: str):
        by_reference = [READ, step("s2", W, {"key": ref("s1")}, reader=A)]
        driver = Driver(planner(plan(by_reference)), ALL, settings={"gated_tools": ["t.w"]})
        driver.submit()
        before = driver.approve()
        run = driver.amend("Find out something else.", **changes)
        assert driver.refusals[-1].code == code
        assert run == before

    def test_the_mandate_of_the_submission_again_is_no_amendment(self):
        driver = waiting()
        order = driver.submission()
        assert driver.run is not None
        again = order.mandate.model_copy(update={"nonce": driver.run.mandate.nonce})
        driver.say(
            lambda: stimuli.Amended(
                **driver.moment(),
                request=order.request,
                mandate=again,
                envelope=order.mandate_envelope,
                submitter=order.submitter,
            )
        )
        assert driver.refusals[-1].code == "mandate.replayed"

    def test_fewer_tools_are_fewer_tools(self):
        driver = waiting(plan([READ, step("s2", V, {"key": 2}, reader=A)]))
        one = {"t.a": MandatedTool(descriptor=A.digest(), effect="read")}
        run = driver.amend("Find out something else.", tools=one)
        assert set(run.descriptors) == {"t.a"} and run.phase is Phase.FAILED
        assert "not granted" in run.message

    def test_not_for_ever(self):
        many = [plan([READ, step("s2", V, {"key": n}, reader=A)]) for n in range(30)]
        driver = waiting(*many)
        for number in range(20):
            driver.amend(f"Find out, {number}.")
        driver.amend("Find out at last.")
        assert driver.refusals[-1].code == "run.amended_too_often"


def _lost(**_: Any) -> Any:
    raise CallFailure("tool.lost", outcome="lost")
