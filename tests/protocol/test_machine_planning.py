"""From the order to a plan: what the mandate must say, routes, questions, the cache, drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.decide import decide
from duly.protocol.machine.phases import Phase
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.cache_key import cache_key
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, Question, Request
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import ModelError, PlanError
from duly.protocol.wire.limits import ANSWERS_MAX
from plans import plan, step, table, tool

A = tool("a")
W = tool("w", "write")
ALL = table(A, W)
READS = plan([step("s1", A, {"key": 1})], origin="playbook")
WRITES = plan([step("s1", W, {"key": 1}, reader=A)], origin="playbook")
MONTH = Question(parameter="month", text="Which month of 2013 do you mean?", choices=["May 2013"])


def driver(plan_or_draft: Any = READS, **more: Any) -> Driver:
    draft = plan_or_draft if callable(plan_or_draft) else lambda run, order: plan_or_draft
    answers = Answers(
        tools={"t.a": lambda **k: k, "t.w": lambda **k: {}}, draft=draft, **more.pop("answers", {})
    )
    return Driver(answers, ALL, **more)


class TestOrder:
    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"request": "0" * 64}, "mandate.other_request"),
            ({"agent": "somebody"}, "mandate.other_agent"),
            ({"agent_version": "2"}, "mandate.other_agent"),
            ({"plan": "0" * 64}, "mandate.other_plan"),
            ({"tools": {}}, "mandate.tool_not_named"),
            ({"expires_ms": 1}, "mandate.expired"),
        ],
    )
    def test_a_mandate_for_anything_else_is_refused_and_nothing_begins(
        self, change: dict[str, Any], code: str
    ):
        one = driver(settings=change)
        decision = one.give(one.submission())
        assert decision.refusal is not None and decision.refusal.code == code
        assert decision.run is None and not decision.events and not one.record.leaves

    def test_a_plan_that_the_mandate_does_not_name_is_refused(self):
        one = driver()
        order = one.submission()
        assert isinstance(order, stimuli.Submitted)
        decision = decide(None, replace(order, plan=READS), one.record.seal)
        assert decision.refusal is not None and decision.refusal.code == "mandate.other_plan"

    def test_the_same_run_cannot_be_submitted_twice(self):
        one = driver()
        one.submit()
        one.give(one.submission())
        assert one.refusals[-1].code == "run.exists"


class TestRoutes:
    def test_a_question_comes_before_anything_else(self):
        answers = {
            "bind": lambda run, order: Binding(playbook="p", question=None if order.answers else MONTH)
        }
        one = driver(answers=answers)
        run = one.submit()
        assert run.phase is Phase.WAITING_INPUT and run.asked is not None and run.asked.question == MONTH
        assert not any(isinstance(order, effects.Draft) for order in one.performed)
        run = one.answer("May 2013")
        assert run.phase is Phase.COMPLETED and run.answers == {"month": "May 2013"}

    def test_an_answer_that_does_not_help_is_asked_again_and_not_for_ever(self):
        one = driver(answers={"bind": lambda run, order: Binding(playbook="p", question=MONTH)})
        one.submit()
        for _ in range(ANSWERS_MAX):
            assert one.answer("hm").phase is Phase.WAITING_INPUT
        run = one.answer("hm")
        assert (run.phase, run.reason) == (Phase.FAILED, "input.too_many")

    def test_nothing_matches_and_no_model(self):
        one = driver(answers={"bind": lambda run, order: Binding()})
        run = one.submit()
        assert (run.phase, run.reason) == (Phase.FAILED, "model.none")
        assert "compare; count" in run.message

    def test_one_value_of_one_metric_is_a_plan_of_one_read(self):
        one = driver(
            answers={"bind": lambda run, order: Binding(metric="m", single_value=True)},
            settings={"planning": "auto"},
        )
        run = one.submit()
        assert run.phase is Phase.COMPLETED and run.route == "constrained"
        draft = next(order for order in one.performed if isinstance(order, effects.Draft))
        assert draft.mode == "constrained"
        assert not any(isinstance(order, effects.LookUpPlan) for order in one.performed)

    def test_the_mandate_says_how_to_plan_and_not_the_agent(self):
        one = driver(
            answers={"bind": lambda run, order: Binding(playbook="p")},
            agent_settings={"planning": "never"},
            settings={"planning": "always"},
        )
        assert one.submit().route == "orchestrated"

    def test_a_binding_comes_once(self):
        one = driver()
        one.give(one.submission())
        bound = stimuli.Bound(**one.moment(), binding=Binding(playbook="p"))
        one.give(bound)
        one.give(bound)
        assert one.refusals[-1].code == "run.not_waiting_for_that"
        assert one.kinds().count("route.chosen") == 1


class TestDrafts:
    def test_every_fault_is_named_and_the_run_ends(self):
        bad = plan([step("s1", A, needs=["s9"]), step("s1", W, {"key": 1})], objective=" ", report_step="s7")
        one = driver(bad)
        run = one.submit()
        assert (run.phase, run.reason) == (Phase.FAILED, "plan.refused")
        for code in ("duplicate_id", "unknown_step", "objective", "no_read_back"):
            assert f"plan.{code}" in run.message
        assert one.facts("plan.refused")[0]["faults"] >= 5

    @pytest.mark.parametrize(
        "step_of", [lambda: step("s1", A, open_arguments=True), lambda: _reason()], ids=["open", "reason"]
    )
    def test_what_only_a_model_could_do_is_refused_without_one(self, step_of: Callable[[], Any]):
        run = driver(plan([step_of()])).submit()
        assert run.phase is Phase.FAILED and "model.none" in run.message

    def test_a_scope_beyond_the_mandate_is_refused(self):
        run = driver(plan([step("s1", A)], scope=Scope(sources=["payroll"]))).submit()
        assert run.phase is Phase.FAILED and "sources:payroll" in run.message

    def test_a_plan_that_has_no_bytes_is_refused(self):
        run = driver(plan([step("s1", A, {"key": float("nan")})])).submit()
        assert run.phase is Phase.FAILED and "wire.float" in run.message

    @pytest.mark.parametrize(
        "error", [PlanError("plan.no_alternative", "None."), ModelError("model.none", "No model.")]
    )
    def test_a_planner_without_a_plan(self, error: Any):
        one = driver(error)
        run = one.submit()
        assert (run.phase, run.reason) == (Phase.FAILED, error.code)
        assert one.facts("plan.refused")[0]["code"] == error.code

    def test_the_run_numbers_its_plans_itself(self):
        run = driver(READS.model_copy(update={"plan_id": "mine", "version": 77})).submit()
        assert run.plan is not None and (run.plan.plan_id, run.plan.version) == ("p-r1", 1)

    def test_a_question_while_drafting(self):
        waiting: list[Any] = [MONTH, READS]
        one = driver(lambda run, order: waiting.pop(0))
        assert one.submit().phase is Phase.WAITING_INPUT
        assert one.answer("May 2013").phase is Phase.COMPLETED


def _reason() -> Any:
    one = step("s1", A)
    contract = one.tool_contract.model_copy(update={"tool": None, "model": {"ask": "why"}})
    return one.model_copy(update={"kind": "reason", "tool_contract": contract})


class TestBrought:
    def test_a_persons_plan_needs_neither_route_nor_cache(self):
        one = driver(plan=READS)
        assert one.submit().phase is Phase.COMPLETED
        kinds = {type(order) for order in one.performed}
        assert not kinds & {effects.Bind, effects.LookUpPlan, effects.Draft, effects.StorePlan}

    def test_but_the_gate(self):
        one = driver(plan=WRITES)
        assert one.submit().phase is Phase.WAITING_APPROVAL

    def test_and_valid_it_must_be(self):
        one = driver(plan=plan([step("s1", A, needs=["s2"]), step("s2", A, needs=["s1"])]))
        run = one.submit()
        assert run.phase is Phase.FAILED and "plan.cycle" in run.message


class TestCache:
    def test_a_passed_plan_is_stored_after_its_verdict_under_its_key(self):
        one = driver()
        run = one.submit()
        (stored,) = one.answers.stored
        assert run.plan is not None and stored.plan == run.plan
        assert stored.cache_key == cache_key(run.agent, run.request)

    @pytest.mark.parametrize("why", ["failed", "partial", "cached", "constrained", "cancelled"])
    def test_no_other_plan_is(self, why: str):
        def broken(**_: Any) -> Any:
            raise AssertionError("never called")

        one = driver()
        if why == "failed":
            one.answers.judge = lambda run, checks: [
                one.model_copy(update={"outcome": "fail"}) for one in checks
            ]
        elif why == "partial":
            one = driver(READS.model_copy(update={"allow_partial": True}))
            one.answers.judge = lambda run, checks: []
        elif why == "cached":
            one.answers.cached = lambda run: {"outcome": "hit", "plan": READS}
        elif why == "constrained":
            one.answers.bind = lambda run, order: Binding(metric="m", single_value=True)
            one.settings = {"planning": "auto"}
        elif why == "cancelled":
            one = driver(WRITES)
            one.submit()
            one.cancel()
        if one.run is None:
            one.submit()
        assert not one.answers.stored

    def test_a_hit_skips_planning_and_never_the_gate(self):
        one = driver()
        one.answers.cached = lambda run: {"outcome": "hit", "plan": WRITES}
        run = one.submit()
        assert run.phase is Phase.WAITING_APPROVAL and run.plan is not None and run.plan.origin == "cache"
        assert not any(isinstance(order, effects.Draft) for order in one.performed)
        assert not run.approvals and not one.answers.called
        assert one.approve().phase is Phase.COMPLETED

    def test_a_hit_carries_the_words_of_this_request(self):
        one = driver(text="Find   OUT.")
        one.answers.cached = lambda run: {"outcome": "hit", "plan": READS}
        run = one.submit()
        assert run.plan is not None and run.plan.objective == "Find   OUT."
        assert run.plan_digest == run.plan.content_digest()

    def test_a_hit_that_does_not_hold_any_more_is_stale(self):
        other = tool("a", description="It does something else now.")
        for cached in (plan([step("s1", other)]), plan([step("s1", A)], scope=Scope(sources=["payroll"]))):
            one = driver()
            one.answers.cached = lambda run, cached=cached: {"outcome": "hit", "plan": cached}
            assert one.submit().phase is Phase.COMPLETED
            assert one.facts("plan.cache_stale")[0]["reasons"] == ["plan"]

    @pytest.mark.parametrize(
        ("reply", "kind"),
        [
            ({"outcome": "miss"}, "plan.cache_miss"),
            ({"outcome": "miss", "tampered": True}, "plan.cache_miss"),
            ({"outcome": "stale", "reasons": ["binding"]}, "plan.cache_stale"),
        ],
    )
    def test_anything_else_is_planned(self, reply: dict[str, Any], kind: str):
        one = driver()
        one.answers.cached = lambda run: reply
        assert one.submit().phase is Phase.COMPLETED
        assert kind in one.kinds() and "plan.drafted" in one.kinds()

    def test_a_reply_that_nobody_asked_for_is_refused(self):
        one = driver()
        one.give(one.submission())
        one.give(stimuli.CacheReplied(**one.moment(), outcome="hit", plan=WRITES))
        assert one.refusals[-1].code == "run.not_waiting_for_that"


class TestCacheKey:
    agent = AgentSpec(name="analyst", version="1", tools=["t.b", "t.a"])

    def key(self, text: str = "Why?", **changes: Any) -> str:
        return cache_key(self.agent.model_copy(update=changes), Request(text=text))

    def test_letters_and_blanks_do_not_matter_and_the_order_of_tools_does_not(self):
        assert self.key("Why  did\tit\nFALL?") == self.key(" why did it fall? ")
        assert self.key(tools=["t.a", "t.b"]) == self.key()

    def test_anything_else_does(self):
        keys = {
            self.key(),
            self.key("Why not?"),
            self.key(name="other"),
            self.key(version="2"),
            self.key(tools=["t.a"]),
            self.key("x" * 600),
            self.key("x" * 601),
            self.key("a b"),
            self.key("ab"),
        }
        assert len(keys) == 9

    def test_parts_do(self):
        one = Request.model_validate({"text": "Why?", "parts": [{"name": "region", "value": "EU"}]})
        two = Request.model_validate({"text": "Why?", "parts": [{"name": "region", "value": "US"}]})
        assert len({cache_key(self.agent, one), cache_key(self.agent, two), self.key()}) == 3


def test_a_plan_in_the_cache_is_a_plan(checkout: Any):
    """The type has no place for an approval."""
    assert not {name for name in Plan.model_fields if "approv" in name}
