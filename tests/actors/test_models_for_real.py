"""Models in a real runtime: real model hosts and real HTTP, with scripted servers in place of a model that thinks."""

from __future__ import annotations

import os
import re
import signal

import pytest

from holding import PACKAGE
from mind import ALWAYS, NEVER, answer, call, look, note, planned, think
from scripted_model_server import drips, holds, refuses

pytestmark = [pytest.mark.ray, pytest.mark.slow]
FAR = "Tell me of the far hills."


class TestPlans:
    def test_a_plan_that_no_playbook_makes(self, ask, mind, home):
        outcome = ask(FAR, *ALWAYS, plan=planned(look("s1", "far"), look("s2", "hills")))
        assert outcome.code == 0, outcome.err
        assert mind.kinds() == ["plan"] and outcome.result["verdict"] == "pass"
        called = outcome.facts("model.called")
        assert [one["purpose"] for one in called] == ["plan"] and called[0]["model"] == "openai:planner"
        assert called[0]["tokens_in"] == 20 and called[0]["tokens_out"] == 10
        home.verified()

    def test_it_can_be_replayed_without_a_model_byte_for_byte(self, ask, mind, home):
        first = ask("Tell me of the near hills.", *ALWAYS, plan=planned(look("s1", "near")))
        assert first.code == 0, first.err
        mind.says, mind.asked = {}, []
        again = home.duly("run", "--replay", first.result["run_id"], "--json")
        assert again.code == 0, again.err
        assert mind.asked == [] and again.lines[-1]["plan_digest"] == first.result["plan_digest"]

    def test_a_bad_plan_is_told_every_fault_and_the_third_is_refused(self, ask, mind):
        bad = planned(
            look("s1", "far", after=["s2"]), look("s2", "far", after=["s1"]), look("s3", "x", after=["s9"])
        )
        outcome = ask(FAR + " Now.", *ALWAYS, plan=[bad, planned(look("s1", "far"))])
        assert outcome.code == 0, outcome.err
        assert "plan.cycle" in mind.asked[1][1] and "plan.unknown_step" in mind.asked[1][1]
        outcome = ask(FAR + " Again.", *ALWAYS, plan=bad)
        assert outcome.code == 3 and outcome.result["reason"] == "plan.refused", outcome.err
        assert len(mind.asked) == 3 and not outcome.facts("step.started")

    def test_a_rejected_plan_comes_back_better(self, ask, mind, home, held):
        outcome = ask("Write down the hills.", *ALWAYS, plan=planned(note("s1", "wrong")))
        assert outcome.code == 6, outcome.err
        run_id = outcome.result["run_id"]
        mind.says = {"plan": planned(note("s1", "right"))}
        rejected = home.duly("reject", run_id, "--feedback", "call it right", "--json")
        assert rejected.code == 6, rejected.err
        assert "call it right" in mind.asked[-1][1]
        assert home.duly("approve", run_id, "--json").code == 0
        assert len(held.sink) == 1 and held.sink[0].endswith(" right")

    def test_plan_alone_asks_the_model_under_a_mandate(self, home, held, mind):
        mind.says = {"plan": planned(look("s1", "far"))}
        shown = home.duly("plan", str(PACKAGE), "Make a plan of the hills.", "--json")
        assert shown.code == 0, shown.err
        assert shown.lines[0]["plan"]["origin"] == "model"


class TestSteps:
    def test_open_arguments_and_a_reason_step(self, ask, mind):
        outcome = ask(
            "Tell me what the hills mean.",
            *ALWAYS,
            plan=planned(look("s1", "far"), look("s2", None, after=["s1"]), think("s3", "s1", "s2")),
            arguments={"arguments": {"name": "deep"}},
            answer={"answer": {"meaning": "much"}},
        )
        assert outcome.code == 0, mind.asked[-1][1]
        assert mind.kinds() == ["plan", "arguments", "answer"]
        assert '"FAR"' in mind.asked[1][1] and '"DEEP"' in mind.asked[2][1]
        assert outcome.facts("step.arguments_filled")[0]["step_id"] == "s2"

    def test_a_model_that_fails_there_leads_where_the_contract_says(self, ask):
        outcome = ask(
            "Tell me what the hills said.",
            *ALWAYS,
            plan=planned(look("s1", "far"), look("s2", None, after=["s1"])),
        )
        assert outcome.code in (3, 4), outcome.err
        failed = [one["code"] for one in outcome.facts("step.failed")]
        assert set(failed) == {"model.unavailable"}


class TestProgress:
    def test_a_person_sees_every_purpose_for_which_a_model_is_asked(self, home, held, mind):
        mind.says = {
            "plan": planned(look("s1", "far"), look("s2", None, after=["s1"]), think("s3", "s1", "s2")),
            "arguments": [refuses(500, "not now"), {"arguments": {"name": "deep"}}],
            "answer": {"answer": {"meaning": "much"}},
            "review": {"outcome": "pass", "corrections": []},
            "turn": answer("Seen."),
        }
        said = home.duly("run", str(PACKAGE), "Show me it all.", *ALWAYS, "--tier", "supervised").out
        said += home.duly("run", str(PACKAGE), "Show me more.", *NEVER).out
        told = [line for line in said.splitlines() if line.startswith(("model ", "critic "))]
        told = [line for line in told if "answered in" not in line]
        assert re.fullmatch(r"model     failed after \S+ s \[model.unavailable\]", told.pop(2)), told
        assert told == [
            "model     asked for a plan",
            "model     asked for the arguments of s2",
            "model     asked to answer s3",
            "critic    asked for a review, once the verifier has looked",
            "model     asked what to do next",
        ]
        assert said.count("answered in ") == 5


class TestDirect:
    def test_calls_and_an_answer_that_nobody_checked(self, ask, mind):
        outcome = ask(FAR, *NEVER, turn=[call("things.look", name="hills"), answer("They are HILLS.")])
        assert outcome.code == 0, outcome.err
        result = outcome.result
        assert (result["phase"], result["verdict"], result["answer"]) == (
            "COMPLETED",
            "none",
            "They are HILLS.",
        )
        assert '"HILLS"' in mind.asked[1][1]
        assert len(outcome.facts("step.succeeded")) == 1

    def test_a_write_is_gated(self, ask, home, held, mind):
        outcome = ask("Keep hi.", *NEVER, turn=[call("things.note", text="hi"), answer("Kept.")])
        assert (outcome.code, outcome.result["needs"]["approval"]) == (6, "step"), outcome.err
        assert held.sink == []
        assert home.duly("approve", outcome.result["run_id"], "--json").code == 0
        assert len(held.sink) == 1

    def test_the_text_output_says_that_nobody_checked_it(self, home, held, mind):
        mind.says = {"turn": answer("Six \x1b[31mhills.")}
        said = home.duly("run", str(PACKAGE), "How many hills?", *NEVER)
        assert said.code == 0 and "nobody checked" in said.out and "hills." in said.out
        assert "\x1b[31m" not in said.out


class TestCritic:
    SUPERVISED = ("--tier", "supervised")
    FAIL = {"outcome": "fail", "corrections": ["look at the sea, too"]}

    def test_a_correction_leads_to_a_better_plan(self, ask, mind):
        outcome = ask(
            "Tell me of everything.",
            *ALWAYS,
            *self.SUPERVISED,
            plan=[planned(look("s1", "far")), planned(look("s1", "far"), look("s2", "sea"))],
            review=[self.FAIL, {"outcome": "pass", "corrections": []}],
        )
        assert outcome.code == 0, outcome.err
        assert mind.kinds() == ["plan", "review", "plan", "review"]
        assert "look at the sea, too" in mind.asked[2][1]
        assert outcome.facts("step.reused")

    def test_one_that_fails_the_first_and_both_corrections_ends_it(self, ask):
        plans = [
            planned(look("s1", "far"), *(look(f"s{n}", f"p{n}") for n in range(2, k))) for k in (2, 3, 4)
        ]
        outcome = ask("Tell me of all.", *ALWAYS, *self.SUPERVISED, plan=plans, review=self.FAIL)
        assert (outcome.code, outcome.result["phase"]) == (3, "FAILED"), outcome.err
        assert len(outcome.facts("verdict.reached")) == 3

    GARBAGE = {"outcome": "splendid", "corrections": []}

    @pytest.mark.parametrize("tier", ["supervised", "bounded_autonomous", "long_autonomous"])
    def test_garbage_is_no_pass(self, ask, mind, tier):
        request = f"Tell me of some, {tier}."
        outcome = ask(request, *ALWAYS, "--tier", tier, plan=planned(look("s1", "a")), review=self.GARBAGE)
        assert (outcome.code, outcome.result["phase"]) == (4, "PARTIAL"), outcome.err
        assert outcome.result["verdict"] == "inconclusive" and "review" in mind.kinds()
        assert outcome.facts("verdict.reached")[0]["critic"] == "asked"

    def test_assisted_asks_no_critic_and_hears_no_garbage(self, ask, mind):
        """The table of tiers: with a person at every gate, the default, the critic is off."""
        outcome = ask("Tell me of a few.", *ALWAYS, plan=planned(look("s1", "b")), review=self.GARBAGE)
        assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED"), outcome.err
        assert outcome.result["verdict"] == "pass" and mind.kinds() == ["plan"]
        assert outcome.facts("verdict.reached")[0]["critic"] == "off"


class TestFailures:
    def test_a_server_that_is_down(self, ask):
        outcome = ask("Tell me of nothing.", *ALWAYS)
        assert (outcome.code, outcome.result["reason"]) == (3, "model.unavailable"), outcome.err
        assert len(outcome.facts("model.called")) == 4, "one call and three tries more"

    def test_a_budget_of_tokens_ends_it(self, ask, mind):
        outcome = ask(
            "Tell me of a lot.", *ALWAYS, "--budget", "model_tokens=100", plan=planned(look("s1", "a"))
        )
        assert (outcome.code, outcome.result["phase"]) == (3, "FAILED"), outcome.out
        assert outcome.result["reason"] == "model.budget"
        assert outcome.result["budget"]["model_tokens"] == {"limit": 100, "spent": 0}
        assert mind.asked == [] and not outcome.facts("plan.drafted"), "the prompt alone would take more"

    def test_a_harness_that_dies_while_a_model_works_leaves_the_next_one_to_ask_again(self, home, held, mind):
        mind.says = {"turn": [holds(), answer("Still here.")]}
        mind.forget()
        command = home.begin("run", str(PACKAGE), "Are you there?", "--json", *NEVER)
        mind.wait()
        os.kill(home.pid("Harness"), signal.SIGKILL)
        outcome = home.finish(command)
        assert (outcome.code, outcome.result["answer"]) == (0, "Still here."), outcome.err
        assert mind.kinds() == ["turn", "turn"] and outcome.facts("run.resumed")
        home.verified()

    def test_cancelling_ends_the_call(self, home, held, mind, model_server):
        """An answer that drips would go on for minutes: only a client that goes away ends it."""
        mind.says = {"turn": [drips()]}
        mind.forget()
        while model_server.gone.acquire(blocking=False):
            continue  # clients of the tests before this one
        command = home.begin("run", str(PACKAGE), "Are you there now?", "--json", *NEVER)
        mind.wait()
        command.send_signal(signal.SIGINT)
        outcome = home.finish(command)
        assert (outcome.code, outcome.result["phase"]) == (5, "CANCELLED"), outcome.err
        assert model_server.gone.acquire(timeout=30), "the server's client went on reading"
