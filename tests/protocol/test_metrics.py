"""The seven metrics: each on records written by hand, all of them on stories by chance, and their page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chance_world import World
from duly.protocol.machine.events import KINDS, Event
from duly.protocol.machine.phases import END_PHASES, Phase
from duly.protocol.views.metrics import DEFINITIONS, Tally, tally
from duly.protocol.views.metrics_record import AFTER_THE_END, duplicated_effects
from duly.protocol.views.phase_moves import BEGIN, MOVES, follows
from duly.storage.recovery import Recorded, recorded
from source_tree import CHECKOUT

PAGE = CHECKOUT / "docs/metrics.md"
STAYS = ""


class Told:
    """A record written by hand: ``add`` takes the kind, the phase after it (the last one, if none) and the facts."""

    def __init__(self) -> None:
        self.record: list[Recorded] = []
        self.phase = "PLANNING"

    def add(self, kind: str, phase: str = STAYS, **facts: Any) -> Told:
        assert kind in KINDS
        self.phase = phase or self.phase
        event = Event(kind, {**facts, "phase": self.phase})
        self.record.append(Recorded(len(self.record), 1_000 + len(self.record), "r1", 1, "", event))
        return self

    def planned(self, steps: int, route: str = "orchestrated") -> Told:
        return (
            self.add("run.submitted", "PLANNING", epoch=1)
            .add("route.chosen", route=route)
            .add("plan.drafted", "READY", steps=steps)
        )

    def replanned(self, steps: int) -> Told:
        return self.add("replan.triggered", "REPLAN_REQUIRED").add("plan.drafted", "READY", steps=steps)

    def start(self, step: str, attempt: int = 1, wave: int = 1) -> Told:
        self.add("budget.reserved", purpose="wave", wave=wave, amounts={"steps": 1, "tool_calls": 1})
        return self.add("step.started", "RUNNING", step_id=step, attempt=attempt, wave=wave)

    def succeed(self, step: str, attempt: int = 1, wave: int = 1, key: str = "", host: str = "read") -> Told:
        return self.add(
            "step.succeeded", step_id=step, attempt=attempt, wave=wave, key=key or f"k-{step}", host=host
        )

    def fail(self, step: str, attempt: int = 1, wave: int = 1, *, not_started: bool = False) -> Told:
        return self.add(
            "step.failed",
            step_id=step,
            attempt=attempt,
            wave=wave,
            not_started=not_started,
            code="tool.error",
        )

    def ran(self, step: str, **more: Any) -> Told:
        return self.start(step).succeed(step, **more)

    def judged(self, outcome: str = "pass") -> Told:
        return self.add("verification.started", "VERIFYING").add("verdict.reached", outcome=outcome)

    def ended(self, end: str = "COMPLETED") -> Told:
        return self.add("run.ended", end, end=end, reason="because")

    def asked(self, about: str = "bind", parameter: str = "month") -> Told:
        return self.add("input.asked", "WAITING_INPUT", about=about, parameter=parameter)

    def gated(self, kind: str = "step", step: str | None = "s1") -> Told:
        return self.add("gate.asked", "WAITING_APPROVAL", gate_kind=kind, step_id=step)


def count(name: str, told: Told) -> tuple[int, int]:
    return next(one for one in DEFINITIONS if one.name == name).count(told.record)


def whole() -> Told:
    return Told().planned(1).ran("s1").judged().ended()


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


class TestBudgetAdherence:
    def test_exhausted_or_not(self):
        assert count("budget_adherence", whole()) == (1, 1)
        spent = Told().planned(1).add("budget.exhausted", name="steps", limit=1).ended("FAILED")
        assert count("budget_adherence", spent) == (0, 1)
        assert count("budget_adherence", Told().planned(1)) == (0, 0)


class TestStateConsistency:
    def test_a_whole_run(self):
        assert count("state_consistency", whole()) == (1, 1)

    @pytest.mark.parametrize(
        "told",
        [
            Told().add("route.chosen", route="direct"),
            Told().planned(1).add("run.submitted", "PLANNING"),
            Told().planned(1).add("step.started", "RUNNING", step_id="s1", attempt=1, wave=1),
            Told().planned(1).start("s1").start("s1", 2, 2),
            Told().planned(1).start("s1").succeed("s1", wave=2),
            Told().planned(1).succeed("s1"),
            Told().planned(1).start("s1").succeed("s1").succeed("s1"),
            Told().planned(1).gated().add("budget.warned", "RUNNING", name="steps", percent=80),
            Told().planned(1).add("gate.asked", "READY", gate_kind="plan", step_id=None),
            whole().add("route.chosen", route="direct"),
            whole().ended(),
            Told().planned(1).add("run.ended", "FAILED", end="COMPLETED", reason="x"),
            Told().planned(1).add("plan.cache_miss", "COMPLETED"),
            Told().planned(1).add("run.resumed", epoch=2).add("run.resumed", epoch=2),
        ],
        ids=[
            "no beginning", "two beginnings", "not reserved", "started twice", "another wave", "not started",
            "returned twice", "a warning moves", "a gate that waits for nobody", "after the end", "two ends",
            "another end", "an end without an event", "the same epoch",
        ],
    )  # fmt: skip
    def test_what_does_not_follow(self, told):
        assert count("state_consistency", told) == (0, 1)

    def test_numbers_rise(self):
        told = whole()
        told.record[1], told.record[2] = told.record[2], told.record[1]
        assert count("state_consistency", told) == (0, 1)

    def test_a_late_result_may_follow_the_end(self):
        told = whole().add("step.late_result", step_id="s1", attempt=1, wave=1, outcome="ok")
        assert count("state_consistency", told) == (1, 1)


class TestPlanAdherence:
    def test_starts_under_a_plan(self):
        assert count("plan_adherence", whole()) == (1, 1)

    def test_without_a_plan(self):
        told = Told().add("run.submitted", epoch=1).start("s1")
        assert count("plan_adherence", told) == (0, 1)

    def test_under_a_plan_that_was_given_up(self):
        told = Told().planned(1).add("replan.triggered", "REPLAN_REQUIRED").start("s1")
        assert count("plan_adherence", told) == (0, 1)

    def test_while_a_person_is_asked(self):
        assert count(
            "plan_adherence",
            Told()
            .planned(1)
            .gated("plan", None)
            .add("step.started", "RUNNING", step_id="s1", attempt=1, wave=1),
        ) == (0, 1)

    def test_one_step_too_many(self):
        assert count("plan_adherence", Told().planned(1).ran("s1").ran("s2")) == (1, 2)

    def test_a_step_that_has_its_result(self):
        assert count("plan_adherence", Told().planned(2).ran("s1").start("s1", 2, 2)) == (1, 2)

    def test_a_retry_is_allowed(self):
        assert count("plan_adherence", Told().planned(1).start("s1").fail("s1").start("s1", 2, 2)) == (2, 2)

    def test_direct_runs_have_no_plan_to_keep_to(self):
        told = Told().add("run.submitted", epoch=1).add("route.chosen", route="direct").start("s1")
        assert count("plan_adherence", told) == (0, 0)


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


def test_stories_by_chance_are_consistent_and_keep_to_their_plans():
    total = Tally()
    for seed in range(60):
        world = World(seed)
        world.live()
        record = [recorded(entry.seq, entry.event) for entry in world.record.read_run("r1")]
        assert duplicated_effects(record) == [], f"seed {seed}"
        total.add(f"seed {seed}", record)
    found = {one.name: one for one in total.metrics()}
    for name in ("state_consistency", "plan_adherence"):
        assert found[name].value == 1.0, f"{name} is lowered by {found[name].lowered_by}"
    for one in found.values():
        assert 0 < one.numerator <= one.denominator, f"{one.name} counts nothing here"


def test_every_move_of_a_story_is_on_record_and_most_of_those_on_record_happen():
    seen = set()
    for seed in range(250):
        world = World(seed)
        world.live()
        before = BEGIN
        for entry in world.record.read_run("r1"):
            kind, after = entry.event["kind"], entry.event["facts"]["phase"]
            late = before in END_PHASES and kind in AFTER_THE_END
            assert late or follows(kind, before, after), (
                f"seed {seed}: {kind} from {before or 'nothing'} to {after}"
            )
            seen |= {(kind, before, after)}
            before = after
    known = {(kind, one, other) for kind, moves in MOVES.items() for one in moves for other in moves[one]}
    rare = {move for move in known - seen if move[0] not in ("run.ended", "plan.edited", "replan.refused")}
    rare -= {move for move in rare if move[0] == "replan.triggered" and move[2] == Phase.PLANNING}
    assert rare <= {
        ("gate.asked", "WAITING_APPROVAL", "WAITING_APPROVAL"),
        ("replan.triggered", "WAITING_APPROVAL", "REPLAN_REQUIRED"),
        ("step.shadowed", "READY", "RUNNING"),
        ("step.shadowed", "RUNNING", "RUNNING"),
        ("input.asked", "READY", "WAITING_INPUT"),
        ("input.asked", "REPLAN_REQUIRED", "WAITING_INPUT"),
        ("replan.triggered", "READY", "REPLAN_REQUIRED"),
        ("verification.started", "READY", "VERIFYING"),
    }


def test_only_verification_leads_to_completed():
    assert [one for one in MOVES["run.ended"] if Phase.COMPLETED in MOVES["run.ended"][one]] == [
        Phase.VERIFYING
    ]


def test_the_page_defines_exactly_these_metrics_by_kinds_that_exist():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## ([a-z_]+)$", text, re.MULTILINE) == [one.name for one in DEFINITIONS]
    named = {word for word in re.findall(r"`([a-z]+\.[a-z_]+)`", text)}
    assert named and named <= KINDS
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
    assert named <= KINDS
