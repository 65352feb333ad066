"""What a request is taken to ask. Each row is a wording that a person would use, and exactly what must be bound."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flights
from duly.actors.planner.bind import bind
from duly.protocol.plan.request import Binding, InputPart, new_request
from duly.protocol.plan.route import choose

FLAGSHIP = "On-time arrivals fell in June compared with May. Find the cause and recommend what to do."
RATE = "on_time_arrival_rate"


def bound(text: str, answers: dict[str, str] | None = None, *years: int) -> Binding:
    package = flights.package()
    return bind(new_request(text), package, flights.catalogue(*years), package.agent(), answers)


def route_of(text: str) -> str:
    package = flights.package()
    return choose(new_request(text), bound(text), package.agent(), has_model=False).route


def month(number: int, year: int | None = 2013) -> dict[str, int | None]:
    return {"year": year, "month": number}


def filters(**named: str) -> list[dict[str, str]]:
    return [{"dimension": name, "value": value} for name, value in named.items()]


def test_the_flagship_binds_metric_months_and_every_dimension() -> None:
    binding = bound(FLAGSHIP)
    assert binding.question is None
    assert binding.playbook == "metric_diagnosis"
    assert binding.parameters == {
        "metric": RATE,
        "baseline": month(5),
        "current": month(6),
        "filters": [],
        "dimensions": ["origin", "carrier", "day_part", "destination", "maker"],
    }
    assert route_of(FLAGSHIP) == "orchestrated"


@pytest.mark.parametrize(
    ("text", "baseline", "current"),
    [
        ("On-time arrivals fell in February compared with January. Find the cause.", 1, 2),
        ("On-time arrivals, December against November", 11, 12),
        ("on time arrivals december vs november", 11, 12),
        ("Why did on-time arrivals change between Oct and Dec 2013?", 10, 12),
        ("Why did punctuality change from December to October?", 12, 10),
        ("Explain on-time arrivals 2013-06 against 2013-05", 5, 6),
        ("Explain on-time arrivals 06/2013 versus 05/2013", 5, 6),
        ("Compared with May, on-time arrivals fell in June. Why?", 5, 6),
        ("Why were on-time arrivals worse in June than in May?", 5, 6),
        ("Why were on-time arrivals lower in June relative to the month before?", 5, 6),
        ("On-time arrivals fell to 69 % in June, down from 78 % in May. Why?", 5, 6),
        ("On-time arrivals fell from 78 % in May to 69 % in June. Why?", 5, 6),
        ("Compare on-time arrivals in June to May", 5, 6),
        ("Compare on-time arrivals in June and May", 5, 6),
        ("On-time arrivals: May → June. What happened?", 5, 6),
        ("On-time arrivals May-June, why?", 5, 6),
        ("Why did on-time arrivals fall in June?", 5, 6),
        ("What may be the cause of the fall of on-time arrivals in June over May?", 5, 6),
        ("Why did on-time arrivals fall in June, with May as the baseline?", 5, 6),
        ("In June on-time arrivals fell. Why was June so bad compared with May?", 5, 6),
        ("WHY DID ON-TIME ARRIVALS FALL IN JUNE COMPARED WITH MAY?", 5, 6),
        ("why did on-time arrivals fall in june compared with may", 5, 6),
        ("Pourquoi (why) did ON-TIME ÀRRIVALS fall in Jun. '13 versus May of 2013?", 5, 6),
        ("On-time arrivals fell in March compared with February; March was bad. Why?", 2, 3),
    ],
)
def test_two_months_in_many_wordings(text: str, baseline: int, current: int) -> None:
    binding = bound(text)
    assert binding.question is None
    assert (binding.playbook, binding.metric) == ("metric_diagnosis", RATE)
    assert (binding.parameters["baseline"], binding.parameters["current"]) == (
        month(baseline),
        month(current),
    )


MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
# Wording → whether the first month is the current one.
WORDINGS = {
    "On-time arrivals moved in {0} compared with {1}. Find the cause.": True,
    "Why did on-time arrivals change in {0} against {1}?": True,
    "on-time arrivals {0} vs {1}": True,
    "Why did on-time arrivals change from {0} to {1}?": False,
    "Why did on-time arrivals change between {0} and {1}?": False,
    "Compared to {0}, on-time arrivals moved in {1}. Why?": False,
    "Were on-time arrivals worse in {0} than in {1}, and why?": True,
    "on-time arrivals, {0} 2013 versus {1} 2013": True,
    "Explain on-time arrivals in {0} relative to {1}.": True,
    "Compare on-time arrivals in {0} with {1}": True,
}


@pytest.mark.parametrize("wording", WORDINGS)
def test_every_ordered_pair_of_months(wording: str) -> None:
    for first in range(1, 13):
        for second in range(1, 13):
            for style in (str, str.lower, lambda name: name[:3]):
                text = wording.format(style(MONTHS[first - 1]), style(MONTHS[second - 1]))
                binding = bound(text)
                if first == second:
                    assert binding.question is not None, text
                    continue
                current, baseline = (first, second) if WORDINGS[wording] else (second, first)
                assert binding.question is None, text
                assert binding.playbook == "metric_diagnosis", text
                assert binding.parameters["current"] == month(current), text
                assert binding.parameters["baseline"] == month(baseline), text


NOISE = st.lists(
    st.sampled_from(
        "please dear team honestly quickly, really? ok; hmm … 42 ✈ nevertheless tomorrow's".split()[:-1]
    ),
    max_size=5,
).map(" ".join)


@given(before=NOISE, after=NOISE, pair=st.permutations(range(12)).map(lambda order: order[:2]))
def test_noise_changes_nothing(before: str, after: str, pair: list[int]) -> None:
    current, baseline = pair
    text = f"{before} On-time arrivals fell in {MONTHS[current]} compared with {MONTHS[baseline]} {after}. Find the cause."
    binding = bound(text)
    assert binding.question is None
    assert binding.parameters["current"] == month(current + 1)
    assert binding.parameters["baseline"] == month(baseline + 1)


@pytest.mark.parametrize(
    ("text", "metric", "period", "where"),
    [
        ("How many flights departed from JFK in March?", "departed_flights", month(3), filters(origin="JFK")),
        ("How many flights from JFK departed in March 2013, please?", "departed_flights", month(3), filters(origin="JFK")),
        ("how many flights departed from jfk in march", "departed_flights", month(3), filters(origin="JFK")),
        ("How many flights were scheduled from JFK in March?", "scheduled_flights", month(3), filters(origin="JFK")),
        ("How many flights from JFK were scheduled in March?", "scheduled_flights", month(3), filters(origin="JFK")),
        ("What was the on-time arrival rate of Delta in June?", RATE, month(6), filters(carrier="DL")),
        ("What was the on-time arrival rate of carrier US in June?", RATE, month(6), filters(carrier="US")),
        ("How many flights departed to Boston or BOS", None, None, None),
        ("How many flights departed to BOS in May?", "departed_flights", month(5), filters(destination="BOS")),
        ("How many flights departed from Newark for United in 2013-07?", "departed_flights", month(7),
         filters(origin="EWR", carrier="UA")),
        ("How many flights departed from JFK?", "departed_flights", None, filters(origin="JFK")),
        ("How many flights departed from JFK in 2013?", "departed_flights", None, filters(origin="JFK")),
        ("What is the cancelled share in the morning?", "cancelled_share", None, filters(day_part="morning")),
        ("What was the mean arrival delay of flights to LGA in June?", "mean_arrival_delay", month(6),
         filters(destination="LGA")),
    ],
)  # fmt: skip
def test_one_value(text: str, metric: str | None, period: Any, where: Any) -> None:
    binding = bound(text)
    if metric is None:
        assert binding.question is not None
        return
    assert binding.question is None
    assert binding.playbook is None
    assert binding.single_value
    assert binding.parameters == {"metric": metric, "period": period, "filters": where}
    assert route_of(text) == "constrained"


def test_two_segments_are_compared_over_everything_or_one_month() -> None:
    binding = bound("Compare on-time arrivals of Delta and US Airways")
    assert binding.question is None
    assert binding.playbook == "segment_comparison"
    assert binding.parameters == {
        "metric": RATE,
        "compared_by": "carrier",
        "segments": ["DL", "US"],
        "strata": ["origin", "day_part"],
        "period": None,
        "filters": [],
    }
    other = bound("Compare the on-time arrivals of EWR with LGA in June for United")
    assert other.parameters["segments"] == ["EWR", "LGA"]
    assert other.parameters["period"] == month(6)
    assert other.parameters["filters"] == filters(carrier="UA")


def test_an_incident_takes_the_usual_metric_and_the_month_before() -> None:
    binding = bound("Open an incident for the carrier that contributed most to the fall in June")
    assert binding.question is None
    assert binding.playbook == "open_incident"
    assert binding.parameters == {
        "metric": RATE,
        "baseline": month(5),
        "current": month(6),
        "dimension": "carrier",
        "filters": [],
    }


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
    package = flights.package()
    binding = bind(request, package, flights.catalogue(), package.agent())
    assert binding.parameters["current"] == month(6)


def test_a_year_is_implied_only_where_there_is_one() -> None:
    question = bound("Why did on-time arrivals fall in June?", None, 2012, 2013).question
    assert question is not None
    assert "several years" in question.text
    shared = bound("Why did on-time arrivals change between Oct and Dec 2012?", None, 2012, 2013)
    assert shared.parameters["baseline"] == month(10, 2012)
    assert shared.parameters["current"] == month(12, 2012)
    years = bound("Why did on-time arrivals fall in June 2013 compared with June 2012?", None, 2012, 2013)
    assert years.parameters["baseline"] == month(6, 2012)
    earlier = bound(
        "Why did on-time arrivals fall in June 2013 compared with a year earlier?", None, 2012, 2013
    )
    assert earlier.parameters["baseline"] == month(6, 2012)


@pytest.mark.parametrize(
    "text",
    [
        "Write a poem about the sea.",
        "What is the weather in Paris?",
        "Book me a hotel.",
        "What should we have for lunch in the evening canteen on Tuesday after the meeting with Anna?",
        "…",
        "?",
        "Improve our on-time arrivals by next year with a bold strategy for the whole organisation",
    ],
)
def test_what_the_package_cannot_do_matches_nothing(text: str) -> None:
    assert route_of(text) == "none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Can you tell us why on-time arrivals fell in June?", []),
        ("May I ask why on-time arrivals fell in June?", []),
        ("Why did on-time arrivals fall in June, as seen by day?", []),
        ("Why did on-time arrivals fall in June for US?", filters(carrier="US")),
        ("Why did on-time arrivals fall in June for an unknown reason?", []),
        ("Why did on-time arrivals fall in June for the unknown maker?", filters(maker="unknown")),
        ("Why did on-time arrivals fall in June across the sea?", []),
        ("Why did on-time arrivals fall in June to SEA?", filters(destination="SEA")),
    ],
)
def test_everyday_words_are_no_codes(text: str, expected: list[dict[str, str]]) -> None:
    binding = bound(text)
    assert binding.question is None
    assert binding.parameters["filters"] == expected


HOSTILE = [
    "a" * 65_536,
    "on time " * 8_192,
    "June May " * 7_000,
    "from to between and " * 3_000,
    "flights " * 8_000,
    "Lufthansa of Lufthansa for " * 2_300,
    "by the each every " * 3_600,
    "{$ref: completeness#/x} $param ${JFK} {{carrier}} " * 1_300,
    "2013-" * 13_000,
    "\u202eyluJ\u202c \u0301\u0301\u0301 " * 2_000,
    "İıſßﬁ why JUNE " * 3_000,
    "why " + "delta and " * 6_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_long_request_stays_fast(text: str) -> None:
    cut = text.encode()[:65_536].decode(errors="ignore")
    started = time.process_time()
    bound(cut)
    assert time.process_time() - started < 5.0


@given(st.text(max_size=300))
def test_any_text_binds_or_asks(text: str) -> None:
    package = flights.package()
    request = new_request("x " + text.encode("utf-8", "ignore").decode())
    binding = bind(request, package, flights.catalogue(), package.agent(), {"filters": text, "current": text})
    again = bind(request, package, flights.catalogue(), package.agent(), {"filters": text, "current": text})
    assert binding == again


@given(st.lists(st.sampled_from(
    "why fell June May 2013 compared with against to from between and on-time arrivals Delta JFK LGA by carrier the of "
    "for maker how many flights departed last month incident open compare Lufthansa . ? , - US as unknown".split()
), max_size=14).map(" ".join))  # fmt: skip
def test_any_order_of_known_words_binds_or_asks(text: str) -> None:
    binding = bound("x " + text)
    if binding.playbook is not None and binding.question is None:
        assert binding.metric is not None
        if "current" in binding.parameters:
            assert binding.parameters["current"] != binding.parameters["baseline"]
