"""Other requests to the example package through the command line: numbers, comparisons, questions, refusals."""

from __future__ import annotations

import pytest

from duly.protocol.wire.errors import DulyError
from report_values import Report
from runtime_home import FLIGHTS, RuntimeHome
from shoppers import TABLE, write_package

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_a_change_of_uncertain_sign_is_not_attributed(runtime: RuntimeHome):
    outcome = runtime.ask(FLIGHTS, "Why did on-time arrivals change from January to February?")
    result, report = outcome.result, Report(outcome.result)
    assert (outcome.code, result["phase"], result["verdict"]) == (4, "PARTIAL", "inconclusive")
    assert next(report.all("change"))["change"] == pytest.approx(-0.214, abs=0.0011)
    bounds = next(report.all("certainty"))
    assert (bounds["low"], bounds["high"]) == (
        pytest.approx(-4.86, abs=0.011),
        pytest.approx(2.75, abs=0.011),
    )
    assert next(report.all("before_missing"))["before_missing"] == 606
    assert next(report.all("after_missing"))["after_missing"] == 1_340
    assert not list(report.all("contribution")) and not list(report.all("rate"))
    missing = [one["text"] for one in report.statements if one["kind"] == "missing_evidence"]
    assert any("475 of 930" in text and "8 February" in text for text in missing)
    assert any("393 of 684" in text and "9 February" in text for text in missing)
    assert len(result["needs"]["choices"]) >= 2


def test_a_comparison_names_the_reversal(runtime: RuntimeHome):
    outcome = runtime.ask(FLIGHTS, "Compare on-time arrivals of Delta and US Airways")
    assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED")
    report = Report(outcome.result)
    numbers = [
        value["value"]
        for one in report.statements
        for value in one["values"].values()
        if value["unit"] == "percent"
    ]
    expected = (82.053, 81.766, 89.27, 88.72, 78.30, 77.40, 74.24, 74.09)
    for number, tolerance in zip(expected, (0.0011, 0.0011, *[0.011] * 6), strict=True):
        assert any(abs(number - one) < tolerance for one in numbers), number
    assert {one["level"] for one in report.statements} - {None} == {"observation", "association"}
    assert any("reversal" in text and "every day part" in text for text in report.texts())


@pytest.mark.parametrize(("verb", "count"), [("departed", 9_512), ("were scheduled", 9_697)])
def test_a_number_is_a_plan_of_one_read(runtime: RuntimeHome, verb, count):
    outcome = runtime.ask(FLIGHTS, f"How many flights {verb} from JFK in March?")
    assert outcome.code == 0 and outcome.facts("route.chosen")[0]["route"] == "constrained"
    report = Report(outcome.result)
    values = [value["value"] for one in report.statements for value in one["values"].values()]
    assert count in values and len(outcome.facts("step.succeeded")) == 1
    assert any("definition" in one["values"] for one in report.statements)
    assert any(one["query"] and '"origin"' in one["query"] for one in report.statements)


@pytest.mark.parametrize(
    ("request_text", "before", "after", "change"),
    [
        ("Why did on-time arrivals fall in December against November?", "November 2013", "December 2013", -15.261),
        ("between Oct and Dec 2013, why did the on-time arrival rate drop?", "October 2013", "December 2013", -15.847),
    ],
)  # fmt: skip
def test_any_two_months_in_several_wordings(runtime: RuntimeHome, request_text, before, after, change):
    outcome = runtime.ask(FLIGHTS, request_text)
    assert outcome.code == 0, outcome.err
    values = next(Report(outcome.result).all("change"))
    assert (values["baseline"], values["current"]) == (before, after)
    assert values["change"] == pytest.approx(change, abs=0.0011)


@pytest.mark.parametrize(
    ("request_text", "about"),
    [
        ("Why did on-time arrivals fall last month?", "last month"),
        ("Why did on-time arrivals fall in June 2014 against May 2014?", "2014"),
        ("Why did seat occupancy fall in June against May?", "metric"),
        ("Why did on-time arrivals of Lufthansa fall in June against May?", "Lufthansa"),
    ],
)
def test_what_does_not_bind_is_asked_in_one_question(runtime: RuntimeHome, request_text, about):
    outcome = runtime.ask(FLIGHTS, request_text)
    needs = outcome.result["needs"]
    assert (outcome.code, outcome.result["phase"]) == (7, "WAITING_INPUT")
    assert about.casefold() in needs["question"].casefold() and needs["question"].count("?") == 1
    assert "plan.drafted" not in outcome.kinds() and "step.started" not in outcome.kinds()


def test_an_answer_goes_on_where_the_question_stood(runtime: RuntimeHome):
    asked = runtime.ask(FLIGHTS, "How many flights departed from JFK last month?")
    assert asked.code == 7
    run_id = asked.result["run_id"]
    empty = runtime.duly("answer", run_id, "  ")
    assert empty.code == 2 and "[request.empty]" in empty.err
    answered = runtime.duly("answer", run_id, "March 2013", "--json")
    assert (answered.code, answered.result["phase"]) == (0, "COMPLETED")
    values = [v["value"] for one in Report(answered.result).statements for v in one["values"].values()]
    assert 9_512 in values
    assert "run.submitted" not in answered.kinds(), "what was printed before is not printed again"
    again = runtime.duly("answer", run_id, "May 2013")
    assert again.code == 8 and "COMPLETED" in again.err


def test_a_request_that_nothing_matches_says_what_the_package_can(runtime: RuntimeHome):
    outcome = runtime.ask(FLIGHTS, "What is the weather like?")
    assert (outcome.code, outcome.result["phase"], outcome.result["reason"]) == (3, "FAILED", "model.none")
    for playbook in ("metric_diagnosis", "segment_comparison", "open_incident"):
        assert playbook in outcome.result["message"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", str(FLIGHTS), ""), "request.empty"),
        (("run", str(FLIGHTS), " \t\n "), "request.empty"),
        (("run", str(FLIGHTS), "Why?", "--budget", "steps=abc"), "budget.bad_value"),
        (("run", str(FLIGHTS), "Why?", "--budget", "sleep=1"), "budget.unknown"),
    ],
)
def test_a_bad_command_line_is_a_usage_error(runtime: RuntimeHome, arguments, code):
    outcome = runtime.duly(*arguments)
    assert outcome.code == 2 and f"[{code}]" in outcome.err


def test_a_request_of_a_megabyte_is_refused(runtime: RuntimeHome):
    """At the front door, past the command line: the kernel passes no argument of that size on."""
    outcome = runtime.duly("run", str(FLIGHTS), "why? " * 20_000)
    assert outcome.code == 2 and "[request.too_large]" in outcome.err
    package = runtime.ask(FLIGHTS, "How many flights departed in March?").facts("run.submitted")[0]["package"]
    with runtime.door() as door, pytest.raises(DulyError) as refused:
        door.call("route", package=package, agent="analyst", text="why? " * 200_000, parts=[])
    assert refused.value.code == "request.too_large"


@pytest.mark.parametrize("command", ["show", "approve", "reject", "cancel", "inbox"])
def test_an_unknown_run_is_refused(runtime: RuntimeHome, command):
    outcome = runtime.duly(command, "rzzzzzzzzzz")
    assert outcome.code == 8 and "[run.unknown]" in outcome.err


def test_a_second_package_over_other_data_works_the_same(runtime: RuntimeHome, suites, tmp_path):
    package = write_package(tmp_path / "shoppers", suites / TABLE)
    outcome = runtime.ask(
        package, "Why is conversion of new visitors down in December compared with November?"
    )
    assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED"), outcome.err
    report = Report(outcome.result)
    change = next(report.all("change"))
    assert (change["before"], change["after"]) == (
        pytest.approx(30.55, abs=0.011),
        pytest.approx(22.39, abs=0.011),
    )
    assert change["change"] == pytest.approx(-8.161, abs=0.0011)
    channel = next(v for v in report.all("contribution") if str(v["segment"]) == "8")
    assert channel["contribution"] == pytest.approx(-4.917, abs=0.0011)
