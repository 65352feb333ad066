"""What a request is taken to ask. Each row is a wording that a person would use, and exactly what must be bound."""

from __future__ import annotations

from typing import Any

import pytest

from flights import RATE, bound, filters, month, route_of

FLAGSHIP = "On-time arrivals fell in June compared with May. Find the cause and recommend what to do."


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
        ("What share of flights was cancelled at JFK in February?", "cancelled_share", month(2), filters(origin="JFK")),
        ("How many flights were cancelled in February?", "cancelled_share", month(2), []),
        ("How many flights departed in March with BOEING aircraft?", "departed_flights", month(3), filters(maker="BOEING")),
        ("How many Delta flights took off from Kennedy in the morning of 2013-03?", "departed_flights", month(3),
         filters(carrier="DL", origin="JFK", day_part="morning")),
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


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("How do Delta and US Airways compare on on-time arrivals?", ["DL", "US"]),
        ("Is Delta better than US Airways at on-time arrivals?", ["DL", "US"]),
        ("US Airways vs. Delta: on-time arrival rate", ["US", "DL"]),
        ("Compare DL and US on punctuality", ["DL", "US"]),
        ("Compare JFK and LGA on-time arrivals", ["JFK", "LGA"]),
        ("compare the on-time arrivals of morning and evening flights", ["morning", "evening"]),
    ],
)
def test_two_segments_in_several_wordings(text: str, segments: list[str]) -> None:
    binding = bound(text)
    assert binding.question is None
    assert (binding.playbook, binding.metric) == ("segment_comparison", RATE)
    assert binding.parameters["segments"] == segments


def test_segments_that_a_change_is_about_are_filters() -> None:
    binding = bound("On-time arrivals for JFK and LGA fell in June vs May, why?")
    assert binding.playbook == "metric_diagnosis"
    assert binding.parameters["filters"] == [*filters(origin="JFK"), *filters(origin="LGA")]
    assert "origin" in binding.parameters["dimensions"]
    one = bound("Why did Delta's on-time arrivals fall in June?")
    assert one.parameters["filters"] == filters(carrier="DL")
    assert "carrier" not in one.parameters["dimensions"]


def test_an_incident_about_another_metric_wins_over_a_diagnosis() -> None:
    text = "Create a ticket for the carrier that contributed most to the rise of cancellations in February compared with January"
    binding = bound(text)
    assert (binding.playbook, binding.metric) == ("open_incident", "cancelled_share")


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
