"""57 measured workflow graphs on a clock: how long each schedule takes, what a crash in mid-graph repeats, and that the
results are always the same."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from duly.protocol.machine.phases import Phase
from duly.protocol.plan import schedule
from suite_workflows import ClockedDriver, Graph, Worked, clocked, graphs, marks

SCHEDULES = ("levels", "overlap")
WRITE_EVERY = 7
# Some tests take graphs up to this size, and so many crashes of each; DULY_SUITES_CRASHES=5 takes all graphs too.
CRASHES = int(os.environ.get("DULY_SUITES_CRASHES", "1"))
STEPS_MAX = 110 if CRASHES == 1 else 1_000


@cache
def _read(folder: Path, write_every: int = 0) -> list[Graph]:
    found = graphs(folder, write_every=write_every)
    assert len(found) == 57
    return found


def _some(folder: Path, write_every: int = 0) -> list[Graph]:
    return [one for one in _read(folder, write_every) if len(one.plan.steps) <= STEPS_MAX]


def _calm(folder: Path, name: str, how: str, workers: int = 0, write_every: int = 0) -> ClockedDriver:
    """A run without a crash, once for all tests."""
    return _run(folder, name, how, workers, write_every)


@cache
def _run(folder: Path, name: str, how: str, workers: int, write_every: int) -> ClockedDriver:
    graph = next(one for one in _read(folder, write_every) if one.name == name)
    driver = clocked(graph, schedule=how, workers=workers)
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED, driver.story()
    return driver


def sound(driver: ClockedDriver) -> Mapping[str, str]:
    """Every step worked once, after everything it waits for; what each gave."""
    assert driver.run is not None and driver.run.plan is not None
    ends = {one.step_id: one.end_ms for one in driver.worked}
    assert len(driver.worked) == len(driver.run.plan.steps)
    for one in driver.worked:
        needs = schedule.dependencies(driver.run.step(one.step_id))
        assert all(ends[name] <= one.start_ms for name in needs), one
    return marks(driver.run)


def test_levels_take_as_long_as_their_longest_tasks(suites: Path):
    for graph in _read(suites):
        driver = _calm(suites, graph.name, "levels")
        longest = [max(graph.runtime[name] for name in level) for level in schedule.levels(graph.plan)]
        assert driver.makespan_ms == sum(longest), graph.name
        sound(driver)


def test_overlap_takes_as_long_as_the_critical_path(suites: Path):
    """With a worker for every read nothing waits for anything but its inputs; the suite says how long that takes."""
    for graph in _read(suites):
        driver = _calm(suites, graph.name, "overlap")
        depth = graph.row["expected"]["depth"]
        wanted = graph.row["expected"]["critical_path_s"] * 1_000
        assert abs(driver.makespan_ms - wanted) <= depth + 1, graph.name  # each runtime is rounded
        sound(driver)


@pytest.mark.parametrize("workers", [0, 4, 1])
def test_overlap_is_never_slower_and_gives_the_same(suites: Path, workers: int):
    faster = 0
    for graph in _some(suites) if workers else _read(suites):
        calm, eager = (_calm(suites, graph.name, how, workers) for how in SCHEDULES)
        assert eager.makespan_ms <= calm.makespan_ms, graph.name
        assert sound(eager) == sound(calm), graph.name
        total = sum(graph.runtime.values())
        assert eager.makespan_ms >= (total / workers if workers else 0)
        assert all(at_once(eager.worked, one) <= workers or not workers for one in eager.worked)
        faster += eager.makespan_ms < calm.makespan_ms
    assert faster == 0 if workers == 1 else faster > 10


def at_once(worked: list[Worked], one: Worked) -> int:
    """How many calls were at work when this one began."""
    return sum(other.start_ms <= one.start_ms < other.end_ms for other in worked)


@pytest.mark.parametrize("how", SCHEDULES)
def test_a_write_never_overlaps_anything(suites: Path, how: str):
    """Every seventh task writes: alone, in the order of the levels, once."""
    writes = 0
    for graph in _some(suites, WRITE_EVERY):
        driver = _calm(suites, graph.name, how, 0, WRITE_EVERY)
        assert sound(driver) == sound(_calm(suites, graph.name, "levels", 0, WRITE_EVERY))
        order = [name for level in schedule.levels(graph.plan) for name in level]
        wrote = [one for one in driver.worked if one.writes]
        assert [one.step_id for one in wrote] == sorted((one.step_id for one in wrote), key=order.index)
        for one in wrote:
            others = (other for other in driver.worked if other is not one)
            assert all(other.end_ms <= one.start_ms or one.end_ms <= other.start_ms for other in others)
        assert set(driver.answers.effects.values()) <= {1}  # type: ignore[attr-defined]
        writes += len(wrote)
    assert writes > 200


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize("write_every", [0, WRITE_EVERY], ids=["reads", "writes"])
def test_a_crash_in_mid_graph_repeats_nothing_that_was_recorded(suites: Path, how: str, write_every: int):
    """At places by chance, before and after a transaction: what has its result is not started again, and in the end
    every result is what it would have been."""
    chance = random.Random(f"{how}/{write_every}")
    crashes = 0
    for graph in _some(suites, write_every):
        calm = _calm(suites, graph.name, how, 0, write_every)
        for _ in range(CRASHES):
            side = chance.choice(("crash_before", "crash_after"))
            place = chance.randint(1, len(calm.events))
            crashes += survived(graph, calm, how, {side: place})
    assert crashes > 20 * CRASHES


def survived(graph: Graph, calm: ClockedDriver, how: str, crash: dict[str, Any]) -> bool:
    """Whether a run with this crash came back in the middle of its work; fails where it came back wrong."""
    driver = clocked(graph, schedule=how, workers=4, **crash)
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED, driver.story()
    assert calm.run is not None
    assert marks(driver.run) == marks(calm.run), (graph.name, crash)
    assert set(driver.answers.effects.values()) <= {1}  # type: ignore[attr-defined]
    kinds = driver.kinds()
    if "run.resumed" not in kinds:
        return False
    at = kinds.index("run.resumed")
    done = {one.facts["step_id"] for one in driver.events[:at] if one.kind == "step.succeeded"}
    again = [one.facts["step_id"] for one in driver.events[at:] if one.kind == "step.started"]
    assert not done & set(again), (graph.name, crash)
    assert len(again) == len(set(again)) and done | set(again) == set(driver.run.steps)
    return True
