"""What does not bind is asked for: one precise question at a time, and answers that continue."""

from __future__ import annotations

from typing import Any

import pytest

from duly.actors.planner.bind import bind
from duly.protocol.plan.request import InputPart, new_request
from flights import RATE, bound, catalogue, filters, month, package, route_of


@pytest.mark.parametrize(
    ("text", "parameter", "says"),
    [
        ("Why did on-time arrivals fall last month?", "current", "January 2013 to December 2013"),
        ("Why did on-time arrivals fall this week?", "current", "no clock"),
        ("Why did on-time arrivals fall in June compared with last month?", "baseline", "'last month'"),
        ("Why did on-time arrivals fall in June 2012?", "current", "no June 2012"),
        ("Why did on-time arrivals fall in June compared with May 2012?", "baseline", "no May 2012"),
        ("Why did on-time arrivals fall in January?", "baseline", "lacks the month before January 2013"),
        ("Why did on-time arrivals fall in Q2?", "current", "single months"),
        ("Why did on-time arrivals fall on 8 February?", "current", "whole months"),
        ("Why did on-time arrivals fall in May, June and July?", "periods", "May, June, July"),
        ("Why did on-time arrivals fall between 1 June and 8 June?", "current", "is a day"),
        ("Why did on-time arrivals fall in Febuary?", "current", "'Febuary'"),
        ("Why did on-time arrivals for flights by Lufthansa fall in June?", "filters", "'Lufthansa'"),
        ("Why did on-time arrivals fall in June by pilot?", "dimensions", "'pilot'"),
        ("Why did on-time arrivals fall?", "periods", "Which two months"),
        ("Why did on-time arrivals fall in June compared with June?", "baseline", "June 2013"),
        ("Baggage losses rose in June compared with May. Find the cause.", "metric", "'Baggage losses'"),
        ("What was the load factor in June?", "metric", "'load factor'"),
        ("Why did on-time arrivals and cancellations change in June?", "metric", "several metrics"),
        ("On-time arrivals fell in June compared with May by aircraft age. Why?", "dimensions", "'aircraft age'"),
        ("Compare on-time arrivals by aircraft age", "segments", "'aircraft age'"),
        ("Open an incident for the pilot that contributed most to the fall in June", "dimension", "'pilot'"),
        ("Open an incident about the fall in June", "dimension", "no dimension"),
        ("Compare on-time arrivals of Delta and Lufthansa", "segments", "no carrier 'Lufthansa'"),
        ("compare on-time arrivals of delta and lufthansa", "segments", "no carrier 'lufthansa'"),
        ("Compare on-time arrivals of Delta", "segments", "compared with Delta Air Lines Inc. (DL)"),
        ("Compare on-time arrivals of Delta, United and Alaska", "segments", "Which two"),
        ("On-time arrivals of Lufthansa fell in June compared with May. Why?", "filters", "'Lufthansa'"),
        ("On-time arrivals fell at LGA in June compared with May. Why?", "filters", "origin LaGuardia (LGA)"),
        ("How many flights departed from BOS in March?", "filters", "no origin 'BOS'"),
        ("how many flights departed for lufthansa in march", "filters", "'lufthansa'"),
        ("How many flights departed by carrier in March?", "filters", "Which carrier"),
        ("How many flights departed from JFK in March were cancelled?", "filters", "'cancelled'"),
        ("How many flights departed from JFK last month?", "period", "'last month'"),
        ("How many flights departed from JFK in March and April?", "period", "March, April"),
    ],
)  # fmt: skip
def test_what_does_not_bind_is_asked_for(text: str, parameter: str, says: str) -> None:
    binding = bound(text)
    assert binding.question is not None
    assert binding.question.parameter == parameter
    assert says in binding.question.text
    assert not binding.single_value
    assert route_of(text) == "clarify"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("On-time arrivals fell in June by aircraft age. Why?", "aircraft maker"),
        ("Why did the arrival delays mean value fall in June compared with Mai 2012?", None),
        ("Compare on-time arrivals of Delta and JetBleu", "JetBlue Airways (B6)"),
        (
            "On-time arrivals of Hawaian fell in June compared with May. Why?",
            "carrier Hawaiian Airlines Inc. (HA)",
        ),
    ],
)
def test_the_closest_choice_comes_first(text: str, first: str | None) -> None:
    question = bound(text).question
    if first is None:
        assert question is None or question.choices
    else:
        assert question is not None
        assert question.choices[0] == first


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
    [
        ("Why did on-time arrivals fall last month?", {"current": "June"}, {"current": month(6), "baseline": month(5)}),
        ("Why did on-time arrivals fall last month?", {"current": "may"}, {"current": month(5), "baseline": month(4)}),
        ("Why did on-time arrivals fall?", {"periods": "December against November"}, {"current": month(12), "baseline": month(11)}),
        ("Why did on-time arrivals fall in January?", {"baseline": "March 2013"}, {"current": month(1), "baseline": month(3)}),
        ("Why did it get worse in June?", {"metric": "punctuality"}, {"metric": RATE, "current": month(6)}),
        ("Compare on-time arrivals of Delta and Lufthansa", {"segments": "US Airways"}, {"segments": ["DL", "US"]}),
        ("Compare on-time arrivals of Delta and Lufthansa", {"segments": "AA and UA"}, {"segments": ["AA", "UA"]}),
        ("On-time arrivals fell at LGA in June. Why?", {"filters": "the origin"}, {"filters": filters(origin="LGA")}),
        ("On-time arrivals fell at LGA in June. Why?", {"filters": "destination LGA"}, {"filters": filters(destination="LGA")}),
        ("On-time arrivals of Lufthansa fell in June. Why?", {"filters": "United"}, {"filters": filters(carrier="UA")}),
        ("On-time arrivals of Lufthansa fell in June. Why?", {"filters": "none"}, {"filters": []}),
        ("Open an incident about the fall in June", {"dimension": "airline"}, {"dimension": "carrier"}),
        ("On-time arrivals fell in June by aircraft age. Why?", {"dimensions": "maker"}, {"current": month(6)}),
        ("How many flights departed from JFK last month?", {"period": "March"}, {"period": month(3), "filters": filters(origin="JFK")}),
    ],
)  # fmt: skip
def test_an_answer_continues(text: str, answers: dict[str, str], expected: dict[str, Any]) -> None:
    assert bound(text).question is not None
    binding = bound(text, answers)
    assert binding.question is None
    assert expected.items() <= binding.parameters.items()


def test_a_useless_answer_asks_again_and_quotes_it() -> None:
    for text, answers in (
        ("Why did on-time arrivals fall last month?", {"current": "Smarch"}),
        ("Baggage losses rose in June. Why?", {"metric": "Smarch"}),
        ("On-time arrivals of Lufthansa fell in June. Why?", {"filters": "Smarch"}),
        ("Compare on-time arrivals of Delta and Lufthansa", {"segments": "Smarch"}),
        ("Open an incident about the fall in June", {"dimension": "Smarch"}),
    ):
        question = bound(text, answers).question
        assert question is not None
        assert question.parameter in answers
        assert "Smarch" in question.text


def test_questions_come_one_at_a_time_in_the_order_of_the_playbook() -> None:
    text = "Why did it get worse at LGA last month by aircraft age?"
    asked = []
    answers: dict[str, str] = {}
    for answer in ("on-time arrivals", "June", "origin", "carrier"):
        question = bound(text, answers).question
        assert question is not None
        asked.append(question.parameter)
        answers[question.parameter] = answer
    assert asked == ["metric", "current", "filters", "dimensions"]
    assert bound(text, answers).question is None


def test_an_input_part_answers_too() -> None:
    request = new_request(
        "Why did on-time arrivals fall last month?", [InputPart(name="current", value="June")]
    )
    binding = bind(request, package(), catalogue(), package().agent())
    assert binding.parameters["current"] == month(6)
