"""What makes a cached plan stale: anything it was planned from, and letters of the request that stand in the plan."""

from __future__ import annotations

from typing import Any

import pytest

from duly.protocol.plan.cache_entry import FACTS, differences, facts_of
from duly.protocol.plan.request import Binding, Request
from plans import plan, ref, step, tool

A = tool("a")
DIGESTS = {"semantics": "s", "policy": "p", "manifest": "m"}
BINDING = Binding(playbook="diagnosis", parameters={"month": {"year": 2013, "month": 5}})
NOW = facts_of(DIGESTS, "d", "pb", BINDING)


def stale(
    new: dict[str, str] = NOW,
    *,
    old: dict[str, str] = NOW,
    arguments: Any = None,
    was: str = "",
    now: str = "",
) -> list[str]:
    subject = plan([step("s1", A, arguments or {})])
    return differences(old, new, subject, Request(text=was), Request(text=now))


def test_the_same_is_fresh():
    assert stale() == [] and set(NOW) == set(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_each_fact_counts(name: str):
    assert stale({**NOW, name: "other"}) == [name]
    assert stale({key: value for key, value in NOW.items() if key != name}) == [name]


def test_last_month_is_another_month_now():
    later = Binding(playbook="diagnosis", parameters={"month": {"year": 2013, "month": 6}})
    assert stale(facts_of(DIGESTS, "d", "pb", later)) == ["binding"]


def test_every_difference_is_named():
    assert stale({}) == list(FACTS)


@pytest.mark.parametrize(
    ("literal", "was", "now", "expected"),
    [
        ("JFK", "Why at JFK?", "why at jfk?", ["literal"]),
        ("JFK", "why at JFK?", "WHY AT JFK?", []),
        ("New  York", "in New  York", "in New York", ["literal"]),
        ("EWR", "Why at JFK?", "why at jfk?", []),
        ("", "Why?", "why?", []),
    ],
)
def test_a_literal_stands_letter_for_letter(literal: str, was: str, now: str, expected: list[str]):
    """The key folds letters and blanks; a plan that holds the person's own letters does not fit other ones."""
    for arguments in ({"x": literal}, {"x": [{"y": literal}]}):
        assert stale(arguments=arguments, was=was, now=now) == expected


def test_a_reference_is_no_literal():
    assert stale(arguments={"x": ref("s1", "")}, was="about s1#", now="about S1#") == []
