"""The seven metrics, each on records written by hand, and their page."""

from __future__ import annotations

import re

import pytest

from duly.protocol.machine.events import KINDS, Event
from duly.protocol.views.metrics import DEFINITIONS, Tally, tally
from duly.protocol.views.metrics_record import duplicated_effects
from duly.storage.recovery import Recorded
from source_tree import CHECKOUT
from told_record import Told, count, whole

PAGE = CHECKOUT / "docs/metrics.md"
CODES = {"gate.guided", "run.amended"}  # of replans; they look like kinds and are none


class TestEndToEndSuccess:
    def test_a_completed_run_that_passed(self):
        assert count("end_to_end_success", whole()) == (1, 1)

    @pytest.mark.parametrize("end", ["PARTIAL", "FAILED", "CANCELLED"])
    def test_every_other_end(self, end):
        assert count("end_to_end_success", Told().planned(1).ran("s1").judged().ended(end)) == (0, 1)

    def test_completed_without_a_passing_verdict(self):
        assert count("end_to_end_success", Told().planned(1).ran("s1").ended()) == (0, 1)
        assert count("end_to_end_success", Told().planned(1).ran("s1").judged("fail").ended()) == (0, 1)

    def test_the_last_verdict_counts(self):
        told = Told().planned(1).ran("s1").judged("fail").replanned(1).ran("s1").judged().ended()
        assert count("end_to_end_success", told) == (1, 1)

    def test_open_direct_and_shadow_runs_are_left_out(self):
        assert count("end_to_end_success", Told().planned(1).ran("s1")) == (0, 0)
        direct = Told().add("run.submitted", epoch=1).add("route.chosen", route="direct").ended()
        assert count("end_to_end_success", direct) == (0, 0)
        shadow = Told().planned(1).add("step.shadowed", step_id="s1").ended("PARTIAL")
        assert count("end_to_end_success", shadow) == (0, 0)


class TestEffectiveStepRate:
    def test_a_retry_is_an_attempt(self):
        told = Told().planned(1).start("s1").fail("s1").start("s1", 2, 2).succeed("s1", 2, 2).judged().ended()
        assert count("effective_step_rate", told) == (1, 2)

    def test_a_call_that_no_host_took_is_none(self):
        told = (
            Told().planned(1).start("s1").fail("s1", not_started=True).start("s1", 1, 2).succeed("s1", 1, 2)
        )
        assert count("effective_step_rate", told) == (1, 1)

    def test_a_step_that_could_not_be_made_was_no_attempt(self):
        told = Told().planned(1)
        told.add("step.failed", step_id="s1", attempt=1, not_started=True, code="plan.bad_arguments")
        assert count("effective_step_rate", told) == (0, 0)

    def test_a_failed_check_takes_the_result_away(self):
        told = whole()
        told.record.insert(
            -1, Recorded(98, 1, "r1", 1, "", Event("step.checked", {"step_id": "s1", "outcome": "fail"}))
        )
        assert count("effective_step_rate", told) == (0, 1)

    def test_a_result_of_an_earlier_plan_counts_where_it_is_reused(self):
        told = (
            Told()
            .planned(2)
            .ran("a")
            .ran("b")
            .replanned(2)
            .add("step.reused", step_id="a2", key="k-a")
            .ran("c")
        )
        assert count("effective_step_rate", told) == (2, 3)

    def test_a_crash_costs_the_read_that_runs_again(self):
        told = Told().planned(1).start("s1").add("run.resumed", epoch=2).start("s1", 1, 2).succeed("s1", 1, 2)
        assert count("effective_step_rate", told) == (1, 2)


class TestRecoverySuccess:
    def resumed(self) -> Told:
        return Told().planned(2).start("w").add("run.resumed", epoch=2)

    def test_without_an_interruption_at_work_there_is_nothing_to_count(self):
        assert count("recovery_success", whole()) == (0, 0)
        waiting = Told().planned(1).gated("plan", None).add("run.resumed", epoch=2)
        assert count("recovery_success", waiting) == (0, 0)

    def test_to_the_end_or_to_a_person(self):
        told = self.resumed().start("w", 1, 2).succeed("w", 1, 2, host="write").judged().ended()
        assert count("recovery_success", told) == (1, 1)
        told = self.resumed().add("step.outcome_unknown", step_id="w", key="k").asked("outcome:w", "outcome")
        assert count("recovery_success", told) == (1, 1)

    def test_failed_still_active_and_cancelled(self):
        assert count("recovery_success", self.resumed().ended("FAILED")) == (0, 1)
        assert count("recovery_success", self.resumed()) == (0, 0)
        assert count("recovery_success", self.resumed().add("run.cancelled").ended("CANCELLED")) == (0, 0)

    def test_an_effect_that_happened_twice_is_no_recovery(self):
        told = self.resumed().start("w", 1, 2).succeed("w", 1, 2, key="k", host="write")
        told.replanned(1).start("w", 1, 3).succeed("w", 1, 3, key="k", host="write").judged().ended()
        assert duplicated_effects(told.record) == ["k"]
        assert count("recovery_success", told) == (0, 1)

    def test_a_late_result_of_what_a_person_denied_is_the_second_effect(self):
        told = self.resumed().add("step.outcome_unknown", step_id="w", key="k").asked("outcome:w", "outcome")
        told.add("input.given", "RUNNING", about="outcome:w", parameter="outcome", said="it did not")
        told.add("step.outcome_stated", step_id="w", said="did_not_happen")
        told.start("w", 2, 2).succeed("w", 2, 2, key="k", host="write")
        assert duplicated_effects(told.record) == []
        told.add("step.late_result", step_id="w", attempt=1, wave=1, outcome="ok")
        assert duplicated_effects(told.record) == ["k"]

    def test_a_late_result_of_what_a_probe_denied_is_the_second_effect_too(self):
        told = self.resumed().add("step.outcome_unknown", step_id="w", key="k")
        told.add("step.probed", step_id="w", outcome="did_not_happen")
        told.start("w", 1, 2).succeed("w", 1, 2, key="k", host="write")
        assert duplicated_effects(told.record) == []
        told.add("step.late_result", step_id="w", attempt=1, wave=1, outcome="ok")
        assert duplicated_effects(told.record) == ["k"]

    def test_two_steps_of_one_plan_are_two_effects_that_were_asked_for(self):
        told = Told().planned(2).ran("a", key="k", host="write").ran("b", key="k", host="write")
        assert duplicated_effects(told.record) == []

    def test_reads_are_no_effects(self):
        told = Told().planned(1).ran("a", key="k").replanned(1).ran("a", key="k")
        assert duplicated_effects(told.record) == []


class TestEscalationQuality:
    def test_a_decision_of_either_kind_is_good(self):
        told = Told().planned(1).gated("plan", None).add("plan.approved", "READY")
        assert count("escalation_quality", told) == (1, 1)
        told = Told().planned(1).gated("plan", None).add("plan.rejected").ended("FAILED")
        assert count("escalation_quality", told) == (1, 1)

    def test_an_open_gate_is_not_counted_yet(self):
        assert count("escalation_quality", Told().planned(1).gated()) == (0, 0)

    def test_a_gate_that_nobody_decided(self):
        assert count("escalation_quality", Told().planned(1).gated().ended("FAILED")) == (0, 1)

    def test_giving_up_is_no_answer(self):
        told = Told().planned(1).asked("step:s1", "s1")
        told.add("input.given", about="step:s1", parameter="s1", said="give up").ended("FAILED")
        assert count("escalation_quality", told) == (0, 1)

    def test_asking_the_same_again_spoils_the_first_time(self):
        told = (
            Told().planned(1).gated().add("step.approved", "RUNNING").gated().add("step.approved", "RUNNING")
        )
        assert count("escalation_quality", told) == (1, 2)

    def test_another_plan_is_another_matter(self):
        told = Told().planned(1).gated("plan", None).add("plan.rejected").replanned(1)
        told.gated("plan", None).add("plan.approved", "READY")
        assert count("escalation_quality", told) == (2, 2)
        told = (
            Told().planned(1).gated("plan", None).add("plan.edited").gated("plan", None).add("plan.approved")
        )
        assert count("escalation_quality", told) == (2, 2)

    def test_a_person_who_guides_or_amends_has_decided(self):
        for code in ("gate.guided", "run.amended"):
            told = Told().planned(1).gated("plan", None).add("replan.triggered", "REPLAN_REQUIRED", code=code)
            assert count("escalation_quality", told) == (1, 1)

    def test_a_gate_that_something_else_closed_is_not_counted(self):
        told = Told().planned(1).gated("plan", None).add("replan.triggered", "REPLAN_REQUIRED", code="x")
        assert count("escalation_quality", told.ended("FAILED")) == (0, 0)


class TestBudgetAdherence:
    def test_exhausted_or_not(self):
        assert count("budget_adherence", whole()) == (1, 1)
        spent = Told().planned(1).add("budget.exhausted", name="steps", limit=1).ended("FAILED")
        assert count("budget_adherence", spent) == (0, 1)
        assert count("budget_adherence", Told().planned(1)) == (0, 0)


class TestTally:
    def test_runs_are_added_up_and_those_that_lower_a_metric_are_named(self):
        bad = Told().planned(1).start("s1").fail("s1").ended("FAILED").record
        runs = [(f"r{n}", bad if n % 2 else whole().record) for n in range(20)]
        total = tally([*runs, ("r-empty", [])])
        found = {one.name: one for one in total.metrics()}
        assert total.runs == 20 and total.phases == {"COMPLETED": 10, "FAILED": 10}
        success = found["end_to_end_success"]
        assert (success.numerator, success.denominator, success.value) == (10, 20, 0.5)
        assert success.lowered_by == ("r1", "r3", "r5", "r7", "r9")
        assert found["recovery_success"].value is None and found["recovery_success"].lowered_by == ()

    def test_nothing_gives_every_metric_without_a_value(self):
        assert [one.value for one in Tally().metrics()] == [None] * 7


def test_the_page_defines_exactly_these_metrics_by_kinds_that_exist():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## ([a-z_]+)$", text, re.MULTILINE) == [one.name for one in DEFINITIONS]
    named = {word for word in re.findall(r"`([a-z]+\.[a-z_]+)`", text)}
    assert named and named - CODES <= KINDS
    for part in text.split("\n## ")[1:]:
        assert "**Denominator:**" in part and "**Numerator:**" in part


def test_every_kind_that_is_counted_exists():
    source = (CHECKOUT / "protocol/views/metrics.py").read_text(encoding="utf-8")
    source += (CHECKOUT / "protocol/views/metrics_record.py").read_text(encoding="utf-8")
    named = set(
        re.findall(
            r'"((?:run|route|plan|gate|guidance|objective|step|input|replan|budget|verdict|verification)\.[a-z_]+)"',
            source,
        )
    )
    assert named - CODES <= KINDS
