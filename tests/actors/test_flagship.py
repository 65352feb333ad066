"""The flagship request through the command line: a request becomes a plan that is executed, verified and journaled."""

from __future__ import annotations

import pytest

from report_values import Report
from runtime_home import FLIGHTS, Outcome, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
REQUEST = "On-time arrivals fell in June compared with May. Find the cause and recommend what to do."


@pytest.fixture(scope="module")
def flagship(runtime: RuntimeHome) -> Outcome:
    return runtime.ask(FLIGHTS, REQUEST)


@pytest.fixture(scope="module")
def report(flagship: Outcome) -> Report:
    assert flagship.code == 0, flagship.err
    return Report(flagship.result)


def test_it_ends_completed_with_a_passing_verdict(flagship):
    result = flagship.result
    assert (flagship.code, result["phase"], result["verdict"]) == (0, "COMPLETED", "pass")
    assert result["next_owner"] == "nobody" and result["needs"] is None
    assert result["trusted_artifacts"] and len(result["plan_digest"]) == 64


def test_the_change_and_its_bounds_are_exact(report):
    change = report.one("observation", "before_counted")
    assert (change["before_counted"], change["before_observed"]) == (21_950, 28_128)
    assert (change["after_counted"], change["after_observed"]) == (18_735, 27_075)
    assert change["before"] == pytest.approx(78.036, abs=0.0011)
    assert change["after"] == pytest.approx(69.197, abs=0.0011)
    assert change["change"] == pytest.approx(-8.839, abs=0.0011)
    bounds = report.one("observation", "certainty")
    assert bounds["certainty"] == "certain"
    assert (bounds["low"], bounds["high"]) == (
        pytest.approx(-12.21, abs=0.011),
        pytest.approx(-5.76, abs=0.011),
    )


@pytest.mark.parametrize(
    ("segment", "points", "low", "high"),
    [
        ("JFK", -3.573, -4.440, -2.935),
        ("LGA", -2.731, -4.110, -1.627),
        ("EWR", -2.535, -3.943, -1.329),
        ("B6", -2.019, -2.246, -1.843),
        ("UA", -1.984, -2.288, -1.708),
        ("DL", -1.455, -1.596, -1.366),
    ],
)
def test_contributions_and_their_intervals_are_exact(report, segment, points, low, high):
    found = report.contribution(segment)
    assert found["contribution"] == pytest.approx(points, abs=0.0011)
    assert (found["low"], found["high"]) == (pytest.approx(low, abs=0.0011), pytest.approx(high, abs=0.0011))


def test_what_cannot_be_told_apart_is_said(report):
    texts = report.texts()
    assert any(text.startswith("JFK is not separable from LGA and EWR") for text in texts)
    assert any(
        "B6 is not separable from UA" in text and "DL is separable from B6 and UA" in text for text in texts
    )


def test_the_fall_is_broad_and_the_recommendation_says_so(report):
    assert report.one("observation", "comparable", dimension="origin")["moved"] == 3
    across = next(report.all("rate", plural="carriers"))
    assert across["rate"] == pytest.approx(-9.061, abs=0.0011)
    assert across["mix"] == pytest.approx(0.221, abs=0.0011)
    advice = [one["text"] for one in report.statements if one["kind"] == "recommendation"]
    assert any("every origin at once" in text for text in advice)


def test_no_statement_claims_more_than_its_evidence(report):
    levels = {one["level"] for one in report.statements}
    assert "causal" not in levels and "association" in levels
    assert all(one["query"] for one in report.statements if "contribution" in one["values"])


def test_show_and_follow_give_the_result_that_the_run_printed(flagship, runtime):
    run_id = flagship.result["run_id"]
    assert runtime.json("show", run_id) == flagship.result
    again = runtime.follow(run_id)
    assert again.result == flagship.result
    assert again.events == flagship.events


def test_the_log_has_the_events_that_the_run_printed(flagship, runtime):
    log = runtime.duly("audit", "log", flagship.result["run_id"], "--json")
    assert log.code == 0
    assert [(one["seq"], one["kind"]) for one in log.lines] == [
        (one["seq"], one["kind"]) for one in flagship.events
    ]
    runtime.verified()


def test_no_level_begins_before_the_one_before_it_ended(flagship):
    """The times are those of the hosts' receipts. That reads of one level overlap: ``test_lifecycle``."""
    ran = {one["step_id"]: one for one in flagship.facts("step.succeeded")}
    level = [one for name, one in ran.items() if name.startswith("decompose-")]
    assert len(level) == 5
    assert ran["completeness"]["ended_ms"] <= min(one["started_ms"] for one in level)
    assert ran["report"]["started_ms"] >= max(one["ended_ms"] for one in level)


def test_the_budget_is_inside_its_limits_and_events_come_before_effects(flagship):
    budget = flagship.result["budget"]
    assert budget["steps"] == {"limit": 60, "spent": len(flagship.facts("step.succeeded"))}
    kinds = flagship.kinds()
    assert kinds.index("budget.reserved") < kinds.index("step.started") < kinds.index("step.succeeded")
    assert kinds[0] == "run.submitted" and kinds[-1] == "run.ended"


def test_a_second_time_the_plan_comes_from_the_cache_and_says_the_same(report, runtime):
    again = runtime.ask(FLIGHTS, REQUEST.upper())
    assert again.code == 0 and "plan.cache_hit" in again.kinds()
    assert [one["origin"] for one in again.facts("plan.drafted")] == ["cache"]
    assert Report(again.result).essence() == report.essence()
    stats = runtime.json("cache", "stats")
    assert stats["hits"] >= 1 and stats["entries"] >= 1
