"""Whether a record's events follow from each other and keep to the plan: by hand, and over stories by chance."""

from __future__ import annotations

import pytest

from chance_world import World
from duly.protocol.machine.phases import END_PHASES, Phase
from duly.protocol.views.metrics import Tally
from duly.protocol.views.metrics_record import AFTER_THE_END, duplicated_effects
from duly.protocol.views.phase_moves import BEGIN, MOVES, follows
from duly.storage.recovery import recorded
from told_record import Told, count, whole


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

    def test_a_run_that_nothing_could_go_on_with_is_resumed_under_the_same_epoch(self):
        told = Told().planned(1).add("run.resumed", epoch=2).add("run.stalled", code="x")
        assert count("state_consistency", told.add("run.resumed", epoch=2)) == (1, 1)
        assert count("state_consistency", told.add("run.resumed", epoch=2)) == (0, 1)

    def test_what_a_probe_found_to_have_happened_is_not_under_way(self):
        told = Told().planned(1).start("w").add("step.outcome_unknown", step_id="w", key="k")
        told.add("step.succeeded", step_id="w", attempt=1, wave=1, key="k", host="write", probed=True)
        assert count("state_consistency", told) == (1, 1)

    def test_an_amendment_gives_up_what_is_under_way(self):
        told = Told().planned(1).start("s1").add("objective.amended", at_ms=1)
        told.add("replan.triggered", "PLANNING", code="run.amended").add("plan.drafted", "READY", steps=1)
        assert count("state_consistency", told.start("s1", 1, 2)) == (1, 1)

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
        told = Told().planned(1).add("replan.triggered", "REPLAN_REQUIRED", code="x").start("s1")
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
    for seed in range(150):
        world = World(seed)
        world.live()
        before = last = BEGIN
        for entry in world.record.read_run("r1"):
            kind, after = entry.event["kind"], entry.event["facts"]["phase"]
            late = before in END_PHASES and kind in AFTER_THE_END
            answered = (last, kind, after) == ("direct.answered", "run.ended", Phase.COMPLETED)
            assert late or answered or follows(kind, before, after), (
                f"seed {seed}: {kind} from {before or 'nothing'} to {after}"
            )
            seen |= {(kind, before, after)}
            before, last = after, kind
    known = {(kind, one, other) for kind, moves in MOVES.items() for one in moves for other in moves[one]}
    rare = {move for move in known - seen if move[0] not in ("run.ended", "plan.edited", "replan.refused")}
    rare -= {move for move in rare if move[0] == "replan.triggered" and move[2] == Phase.PLANNING}
    assert rare <= {
        ("plan.extended", "READY", "READY"),
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
