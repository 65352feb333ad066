"""Levels, and which of them run at once: a question to the descriptor, never to the plan."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.plan import schedule
from duly.protocol.plan.ancestors import Ancestors
from plans import plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")
X = tool("x", "external")
ALL = table(A, B, W, X)


def levels(*edges: tuple[str, str]) -> list[list[str]]:
    """Levels of a graph given as (step, what it waits for); ``""`` for nothing."""
    needs: dict[str, list[str]] = {}
    for name, need in edges:
        needs.setdefault(name, []).extend([need] if need else [])
    return schedule.levels_of(list(needs.items()))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([("a", "")], [["a"]]),
        ([("a", ""), ("b", "a"), ("c", "b")], [["a"], ["b"], ["c"]]),
        ([("c", ""), ("a", ""), ("b", "")], [["c", "a", "b"]]),
        ([("a", ""), ("b", "a"), ("c", "a"), ("d", "b"), ("d", "c")], [["a"], ["b", "c"], ["d"]]),
        ([("a", ""), ("d", "a"), ("b", "a"), ("b", "d"), ("c", "")], [["a", "c"], ["d"], ["b"]]),
        ([("b", "a"), ("a", "")], [["a"], ["b"]]),
        ([("a", "b"), ("b", "a"), ("c", "")], [["c"]]),
        ([("a", "a")], []),
        ([], []),
    ],
)
def test_levels(edges: Any, expected: list[list[str]]):
    assert levels(*edges) == expected


def test_a_reference_is_a_dependency_like_any_other():
    subject = plan([step("s1", A), step("s2", A, {"x": [ref("s1")]}), step("s3", A, needs=["s2", "s1"])])
    assert schedule.levels(subject) == [["s1"], ["s2"], ["s3"]]
    assert schedule.dependencies(subject.steps[2]) == ["s2", "s1"]
    both = step("s2", A, {"x": ref("s1")}, needs=["s1"])
    assert schedule.dependencies(both) == ["s1"]


@given(st.integers(0, 10_000))
def test_a_level_is_one_more_than_its_highest_dependency(seed: int):
    chance = random.Random(seed)
    size = chance.randint(1, 30)
    graph = [(f"s{n}", [f"s{m}" for m in range(n) if chance.random() < 0.15]) for n in range(size)]
    chance.shuffle(graph)
    found = schedule.levels_of(graph)
    at = {name: number for number, level in enumerate(found) for name in level}
    order = {name: index for index, (name, _) in enumerate(graph)}
    assert sorted(at) == sorted(order)
    for name, needs in graph:
        assert at[name] == max((at[need] + 1 for need in needs), default=0)
    for level in found:
        assert [order[name] for name in level] == sorted(order[name] for name in level)


@pytest.mark.parametrize(
    ("tools", "at_once"),
    [
        ([A], False),
        ([A, B], True),
        ([A, A, A], True),
        ([A, W], False),
        ([W, W], False),
        ([A, X], False),
        ([A, tool("gone")], False),
    ],
)
def test_at_once_only_where_at_least_two_only_read(tools: list[Any], at_once: bool):
    level = [step(f"s{n}", one) for n, one in enumerate(tools)]
    assert schedule.is_concurrent(level, ALL) == at_once


def test_what_the_plan_says_of_its_effects_does_not_matter():
    def lying(one: Any, effect: str) -> Any:
        return one.model_copy(
            update={"tool_contract": one.tool_contract.model_copy(update={"effect": effect})}
        )

    assert not schedule.is_concurrent([lying(step("s1", W), "read"), step("s2", A)], ALL)
    assert schedule.is_concurrent([lying(step("s1", A), "write"), step("s2", A)], ALL)


def test_a_reason_step_makes_a_level_serial():
    reason = step("s1", A).model_copy(update={"kind": "reason"})
    assert not schedule.is_concurrent([reason, step("s2", A)], ALL)


@given(st.integers(0, 10_000))
def test_ancestors_are_what_can_be_reached(seed: int):
    chance = random.Random(seed)
    steps = [step(f"s{n}", A, needs=[f"s{m}" for m in range(n) if chance.random() < 0.2]) for n in range(12)]
    above: dict[str, set[str]] = {}
    for one in steps:
        above[one.step_id] = set(one.depends_on).union(*(above[need] for need in one.depends_on))
    found = Ancestors(plan(steps))
    for high in above:
        assert {low for low in above if found.come_before(low, high)} == above[high]


def test_levels_of_some_steps():
    subject = plan([step("s1", A), step("s2", A, needs=["s1"]), step("s3", A, needs=["s2"])])
    found = schedule.by_level(subject, lambda name: name != "s2")
    assert [[one.step_id for one in level] for level in found] == [["s1"], ["s3"]]
