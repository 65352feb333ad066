"""What a model does in a run: plans, open arguments, reason steps, direct turns; each reserved, recorded and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.machine import effects
from duly.protocol.machine.corrections import corrections
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Degrade, Plan, Replan, Retry, ToolContract
from duly.protocol.plan.policy import Policy
from duly.protocol.plan.request import Binding
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import DulyError, ModelError, PlanError
from duly.protocol.wire.limits import DIRECT_TURNS_MAX, DRAFTS_PER_PLAN_MAX, MODEL_TOKENS_DEFAULT
from plans import DEGRADE, plan, step, table, tool

LOOK = tool(
    "look", input_schema={"type": "object", "properties": {"key": {"type": "integer"}}, "required": ["key"]}
)
SEND = tool("send", "write")
ALL = table(LOOK, SEND)
TOOLS = {"t.look": lambda key: {"key": key}, "t.send": lambda key: {"key": key}}
NO_PLAYBOOK = PlanError("plan.no_playbook", "No playbook plans this.")
DOWN = ModelError("model.unreachable", "Nobody answers.")


def world(answers: Answers, **more: Any) -> Driver:
    return Driver(answers, ALL, submitted={"has_model": True}, **more)


def reason_step(step_id: str, *needs: str, on_failure: Any = DEGRADE) -> Any:
    one = step(step_id, LOOK, {}, needs=needs, on_failure=on_failure)
    contract = ToolContract(
        tool=None, arguments=None, effect="read", timeout_seconds=10, model={"task": "sum up"}
    )
    return one.model_copy(update={"kind": "reason", "tool_contract": contract})


class TestPlans:
    def draft(self, *said: Plan | DulyError) -> Driver:
        """A run without a playbook; the model says these, one after the other."""
        left = list(said)

        def drafted(run: Run, order: effects.Draft) -> Plan | DulyError:
            self.heard = corrections(run, {"s1"})
            return left.pop(0) if order.model else NO_PLAYBOOK

        answers = Answers(tools=TOOLS, bind=lambda run, order: Binding(), draft=drafted)
        return world(answers, settings={"planning": "always"})

    def test_what_no_playbook_plans_a_model_does(self):
        driver = self.draft(plan([step("s1", LOOK, {"key": 1})], origin="model"))
        run = driver.submit()
        assert run.phase is Phase.COMPLETED and run.verdict == "pass"
        asked = [order for order in driver.performed if isinstance(order, effects.Draft)]
        assert [one.model for one in asked] == [False, True] and asked[1].tokens_max > 0
        assert [one["purpose"] for one in driver.facts("model.called")] == ["plan"]
        assert run.budget.spent["model_tokens"] == 50 and not run.budget.reserved

    @pytest.mark.parametrize("withheld", ["s1", "s2"])
    def test_why_a_plan_failed_is_told_but_for_the_words_of_steps_that_are_withheld(self, withheld: str):
        words: list[list[str]] = []

        def drafted(run: Run, order: effects.Draft) -> Plan | DulyError:
            if not order.model:
                return NO_PLAYBOOK
            words.append(corrections(run, {withheld}))
            return plan(
                [step("s1", LOOK, {"key": len(words)}, on_failure=(Replan(),)), step("s2", LOOK, {"key": 9})],
                origin="model",
            )

        def look(key: int) -> dict[str, Any]:
            if key == 1:
                raise CallFailure("tool.failed")
            return {"key": key}

        answers = Answers(tools={"t.look": look}, bind=lambda run, order: Binding(), draft=drafted)
        driver = world(answers, settings={"planning": "always"})
        assert driver.submit().phase is Phase.COMPLETED and words[0] == []
        said = " ".join(words[1])
        assert ("did not work" in said) is (withheld != "s1") and "s1" in said

    def test_a_plan_that_may_not_be_is_told_back_as_often_as_one_is_drafted(self):
        bad = plan([step("s1", LOOK, {"key": "one"})], origin="model")
        driver = self.draft(bad, bad, plan([step("s1", LOOK, {"key": 1})], origin="model"))
        assert driver.submit().phase is Phase.COMPLETED
        assert "arguments/key" in self.heard[0]
        driver = self.draft(*[bad] * DRAFTS_PER_PLAN_MAX)
        run = driver.submit()
        assert (run.phase, run.reason) == (Phase.FAILED, "plan.refused")
        assert len(driver.facts("plan.refused")) == DRAFTS_PER_PLAN_MAX
        assert run.budget.spent["model_tokens"] == 50 * DRAFTS_PER_PLAN_MAX

    def test_a_model_that_fails_ends_the_run_with_its_reason(self):
        run = self.draft(DOWN).submit()
        assert (run.phase, run.reason, run.message) == (Phase.FAILED, "model.unreachable", "Nobody answers.")

    def test_without_a_token_left_nobody_is_asked(self):
        driver = self.draft()
        driver.settings = {"planning": "always", "budget": {"model_tokens": 0}}
        assert (driver.submit().phase, driver.run and driver.run.reason) == (
            Phase.FAILED,
            "budget.model_tokens",
        )

    def test_a_crash_counts_what_was_reserved_and_asks_again(self):
        driver = self.draft(plan([step("s1", LOOK, {"key": 1})], origin="model"))
        driver.give(driver.submission())
        while not any(isinstance(order, effects.Draft) and order.model for order in driver.todo):
            driver._one_order()
        reserved = driver.run.budget.reserved["model_tokens"]
        driver.resume()
        assert driver.go_on().phase is Phase.COMPLETED
        assert driver.run.budget.spent["model_tokens"] == reserved + 50 <= MODEL_TOKENS_DEFAULT


class TestArguments:
    def filling(self, steps: Any, fill: Any, **more: Any) -> Driver:
        return world(Answers(tools=TOOLS, fill=fill), plan=plan(steps), **more)

    def test_a_read_gets_them_before_it_starts(self):
        seen: list[dict[str, Any]] = []

        def fill(run: Run, order: effects.FillArguments) -> dict[str, Any]:
            seen.append(dict(order.inputs))
            return {"key": 7}

        steps = [step("s1", LOOK, {"key": 1}), step("s2", LOOK, needs=["s1"], open_arguments=True)]
        driver = self.filling(steps, fill)
        run = driver.submit()
        assert run.phase is Phase.COMPLETED and seen == [{"s1": {"key": 1}}]
        assert driver.answers.called[-1] == ("s2", "t.look", {"key": 7})
        assert run.plan is not None and run.plan.step("s2").tool_contract.arguments is None

    def test_a_level_of_open_reads_still_runs_at_once(self):
        steps = [step(f"s{n}", LOOK, open_arguments=True) for n in range(3)]
        driver = self.filling(steps, lambda run, order: {"key": int(order.step_id[1])})
        assert driver.submit().phase is Phase.COMPLETED
        assert [len(one.calls) for one in driver.performed if isinstance(one, effects.Dispatch)] == [3]

    def test_for_a_write_its_gate_is_asked_again_with_them(self):
        steps = [step("w", SEND, open_arguments=True, reader=LOOK)]
        steps[0] = steps[0].model_copy(
            update={"verification": step("x", SEND, {"key": 3}, reader=LOOK).verification}
        )
        driver = self.filling(steps, lambda run, order: {"key": 3})
        assert driver.submit().gate.kind == "plan"
        run = driver.approve()
        assert run.phase is Phase.WAITING_APPROVAL and (run.gate.kind, run.gate.step_id) == ("step", "w")
        assert not driver.answers.called
        assert driver.approve().phase is Phase.COMPLETED
        assert [one for one in driver.answers.called if one[1] == "t.send"] == [("w", "t.send", {"key": 3})]

    @pytest.mark.parametrize("alone", [False, True])
    def test_results_that_do_not_fit_a_tool_are_made_to_fit_before_it_runs(self, alone: bool):
        """Alone the step starts with its arguments known; else its host finds out, in the segment of the one before."""

        def look(key: Any) -> dict[str, Any]:
            if not isinstance(key, int):
                raise CallFailure("tool.bad_arguments")
            return {"key": f"number {key + 1}"}

        seen: list[dict[str, Any]] = []

        def fill(run: Run, order: effects.FillArguments) -> dict[str, Any]:
            seen.append(dict(order.inputs))
            return {"key": int(order.inputs["s1"]["key"].split()[-1])}

        steps = [step("s1", LOOK, {"key": 1}), step("s2", LOOK, {"key": {"$ref": "s1#/key"}})]
        budget = {"rows_scanned": 100} if alone else {}
        answers = Answers(tools={"t.look": look}, fill=fill)
        driver = world(answers, plan=plan(steps), settings={"budget": budget})
        run = driver.submit()
        assert run.phase is Phase.COMPLETED and seen == [{"s1": {"key": "number 2"}}]
        assert driver.answers.called[-1] == ("s2", "t.look", {"key": 2})
        assert run.output("s2") == {"key": "number 3"} and run.steps["s2"].attempts == 1

    def test_without_a_model_what_does_not_fit_fails_as_before(self):
        def look(key: Any) -> dict[str, Any]:
            if not isinstance(key, int):
                raise CallFailure("tool.bad_arguments")
            return {"key": "one"}

        steps = [
            step("s1", LOOK, {"key": 1}),
            step("s2", LOOK, {"key": {"$ref": "s1#/key"}}, on_failure=(Degrade(),)),
        ]
        driver = Driver(Answers(tools={"t.look": look}), ALL, plan=plan(steps))
        run = driver.submit()
        assert run.steps["s2"].code == "tool.bad_arguments" and "s2" not in run.outputs

    def test_a_write_by_results_that_do_not_fit_shows_a_person_what_a_model_made_of_them(self):
        tools = {**TOOLS, "t.look": lambda key: {"key": "number 5"}}
        send = tool("send", "write", input_schema=LOOK.input_schema)
        steps = [step("s1", LOOK, {"key": 1}), step("w", send, {"key": {"$ref": "s1#/key"}}, reader=LOOK)]
        answers = Answers(tools=tools, fill=lambda run, order: {"key": 5})
        driver = Driver(answers, table(LOOK, send), submitted={"has_model": True}, plan=plan(steps))
        assert driver.submit().gate.kind == "plan"
        run = driver.approve()
        assert run.phase is Phase.WAITING_APPROVAL and (run.gate.kind, run.gate.step_id) == ("step", "w")
        assert [one for one in driver.answers.called if one[1] == "t.send"] == []
        driver.approve()
        assert [one for one in driver.answers.called if one[1] == "t.send"] == [("w", "t.send", {"key": 5})]

    @pytest.mark.parametrize(
        "filled",
        [{"key": "seven"}, {}, {"key": {"$ref": "s1#/key"}}, DOWN],
        ids=["type", "none", "ref", "down"],
    )
    def test_what_does_not_fit_never_runs(self, filled: Any):
        driver = self.filling(
            [step("s1", LOOK, open_arguments=True, on_failure=(Degrade(),))], lambda *_: filled
        )
        run = driver.submit()
        assert run.phase is Phase.FAILED and not driver.answers.called
        assert run.steps["s1"].code in ("plan.arguments", "model.unreachable")


class TestReason:
    def test_it_answers_from_its_inputs_alone_and_is_no_tool_call(self):
        steps = [step("s1", LOOK, {"key": 1}), reason_step("r", "s1")]
        driver = world(Answers(tools=TOOLS), plan=plan(steps))
        run = driver.submit()
        assert run.phase is Phase.COMPLETED and run.output("r") == {"said": ["s1"]}
        assert run.budget.spent["steps"] == 2 and run.budget.spent["tool_calls"] == 1
        assert run.budget.spent["model_tokens"] == 30 and not run.budget.reserved

    def test_a_passing_failure_is_tried_again_and_another_leads_where_its_contract_says(self):
        said = [CallFailure("model.lost", transient=True), {"said": 1}]
        steps = [reason_step("r", on_failure=(Retry(attempts=1), Degrade()))]
        driver = world(Answers(tools=TOOLS, reason=lambda run, order: said.pop(0)), plan=plan(steps))
        assert driver.submit().phase is Phase.COMPLETED
        driver = world(
            Answers(tools=TOOLS, reason=lambda run, order: CallFailure("model.bad_answer")), plan=plan(steps)
        )
        assert driver.submit().steps["r"].status == "degraded"

    def test_a_restart_asks_again(self):
        driver = world(Answers(tools=TOOLS), plan=plan([reason_step("r")]))
        driver.give(driver.submission())
        assert driver.run.outstanding == ["r"]
        driver.resume()
        assert driver.go_on().phase is Phase.COMPLETED

    def test_without_a_model_the_plan_is_refused(self):
        run = Driver(Answers(), ALL, plan=plan([reason_step("r")])).submit()
        assert (run.phase, run.reason) == (Phase.FAILED, "plan.refused")


class TestDirect:
    def talking(self, *said: Any, **settings: Any) -> Driver:
        left = list(said)
        answers = Answers(tools=TOOLS, bind=lambda run, order: Binding(), turn=lambda run, order: left.pop(0))
        return world(
            answers, settings={"planning": "never", "scope": Scope(resources=["sink:send"]), **settings}
        )

    def test_an_answer_completes_and_nobody_checked_it(self):
        driver = self.talking("It is 4.")
        run = driver.submit()
        assert (run.phase, run.verdict, run.reason, run.answer) == (
            Phase.COMPLETED,
            "none",
            "direct.answered",
            "It is 4.",
        )

    def test_calls_are_steps_and_what_is_no_call_is_told_back(self):
        driver = self.talking(
            ("t.look", {"key": 1}), ("t.gone", {}), ("t.look", {"key": "x"}), ("t.look", {"key": 2}), "Done."
        )
        run = driver.submit()
        assert run.phase is Phase.COMPLETED and list(run.steps) == ["call-1", "call-2"]
        assert [one[2] for one in driver.answers.called] == [{"key": 1}, {"key": 2}]
        assert len(driver.facts("direct.call_refused")) == 2
        assert run.budget.spent["model_tokens"] == 5 * 40 and run.budget.spent["steps"] == 2

    def test_a_write_waits_for_a_person_with_its_arguments(self):
        driver = self.talking(("t.send", {"key": 5}), "Sent.")
        run = driver.submit()
        assert run.phase is Phase.WAITING_APPROVAL and run.gate.kind == "step" and not driver.answers.called
        assert driver.approve().phase is Phase.COMPLETED and len(driver.answers.called) == 1

    def test_a_read_of_a_sensitive_source_waits_for_a_person_too(self):
        driver = self.talking(("t.look", {"key": 1}, "people"), ("t.look", {"key": 2}, "towns"), "Seen.")
        driver.submitted["policy"] = Policy(sensitive_sources=["people"])
        run = driver.submit()
        assert run.phase is Phase.WAITING_APPROVAL and not driver.answers.called
        assert driver.approve().phase is Phase.COMPLETED
        assert [one[2] for one in driver.answers.called] == [{"key": 1}, {"key": 2}]

    def test_a_rejected_call_does_not_happen_and_the_model_hears_why(self):
        driver = self.talking(("t.send", {"key": 5}), "I did not send it.")
        driver.submit()
        run = driver.reject("not today")
        assert run.phase is Phase.COMPLETED and not driver.answers.called
        assert (run.steps["call-1"].code, run.steps["call-1"].message) == ("gate.rejected", "not today")

    def test_it_ends_within_its_turns(self):
        driver = self.talking(
            *[("t.look", {"key": n}) for n in range(DIRECT_TURNS_MAX)], budget={"steps": 50}
        )
        run = driver.submit()
        assert (run.phase, run.reason) == (Phase.FAILED, "direct.turns")
        turns = [order for order in driver.performed if isinstance(order, effects.TakeTurn)]
        assert len(turns) == DIRECT_TURNS_MAX and [one.last for one in turns] == [False] * 11 + [True]

    def test_a_budget_of_calls_ends_it_before_another_call(self):
        driver = self.talking(*[("t.look", {"key": n}) for n in range(5)], budget={"tool_calls": 2})
        run = driver.submit()
        assert (run.phase, run.reason) == (Phase.PARTIAL, "budget.tool_calls") and len(
            driver.answers.called
        ) == 2

    def test_cancelling_stops_the_model(self):
        driver = self.talking("never heard")
        driver.give(driver.submission())
        driver._one_order()
        assert driver.run.thinking == "direct"
        assert driver.cancel().phase is Phase.CANCELLED and driver.answers.cancelled == 1

    def test_a_restart_takes_the_turn_again(self):
        driver = self.talking(("t.look", {"key": 1}), "Done.")
        driver.give(driver.submission())
        for _ in range(2):
            driver._one_order()
        driver.resume()
        assert driver.go_on().phase is Phase.COMPLETED
