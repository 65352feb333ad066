"""Scientific workflow graphs, 57 of them, up to some hundred steps: levels as measured, and a restart in mid-graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from duly.protocol.machine.phases import Phase
from duly.protocol.plan import schedule
from plans import plan, step, table, tool
from suite_rows import Case, rows
from suite_runs import driven

WORK = tool("work")


def graphs(suites: Path) -> list[dict[str, Any]]:
    found = rows(suites / "wfinstances.jsonl")
    assert len(found) == 57
    return found


def case_of(row: Mapping[str, Any]) -> Case:
    """Every task is a call of one tool that only reads; its inputs are what it waits for."""
    steps = [
        step(
            _name(index),
            WORK,
            {"task": one["step_id"]},
            needs=[_ids(row)[need] for need in one["depends_on"]],
        )
        for index, one in enumerate(row["steps"])
    ]
    return Case(plan(steps, plan_id=row["id"]), table(WORK), row)


def _name(index: int) -> str:
    return f"t{index}"  # the graphs' own names have characters that no id has


def _ids(row: Mapping[str, Any]) -> dict[str, str]:
    return {one["step_id"]: _name(index) for index, one in enumerate(row["steps"])}


def act(name: str, arguments: Mapping[str, Any]) -> Any:
    return {"done": arguments["task"]}


def test_levels_are_as_measured(suites: Path):
    for row in graphs(suites):
        case = case_of(row)
        levels = schedule.levels(case.plan)
        expected = row["expected"]
        assert len(case.plan.steps) == expected["tasks"], row["id"]
        assert sum(len(one.depends_on) for one in case.plan.steps) == expected["edges"], row["id"]
        assert len(levels) == expected["depth"], row["id"]
        assert max(map(len, levels)) == expected["max_width"], row["id"]


def test_every_graph_completes_level_by_level(suites: Path):
    for row in graphs(suites):
        case = case_of(row)
        driver = driven(case, act)
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED, row["id"]
        wide = [level for level in schedule.levels(case.plan) if len(level) > 1]
        assert [ids for mode, ids in driver.dispatches() if mode == "concurrent"] == wide
        assert driver.kinds().count("step.started") == len(case.plan.steps)


def test_a_run_is_never_longer_than_its_levels_and_never_shorter_than_its_critical_path(suites: Path):
    """By the measured runtimes: a level takes as long as its longest task."""
    for row in graphs(suites):
        case = case_of(row)
        runtime = {_name(index): one["runtime_s"] for index, one in enumerate(row["steps"])}
        by_levels = sum(max(runtime[name] for name in level) for level in schedule.levels(case.plan))
        slack = 1e-6 * by_levels + 0.05
        assert row["expected"]["critical_path_s"] <= by_levels + slack
        assert by_levels <= row["expected"]["total_runtime_s"] + slack


@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
def test_a_restart_in_mid_graph_runs_nothing_that_is_done(suites: Path, when: str):
    for row in graphs(suites)[::4]:
        case = case_of(row)
        calm = driven(case, act)
        driver = driven(case, act, **{when: len(calm.events) // 2})
        assert driver.run is not None and driver.run.phase is Phase.COMPLETED, row["id"]
        resumed = driver.kinds().index("run.resumed")
        done = {one.facts["step_id"] for one in driver.events[:resumed] if one.kind == "step.succeeded"}
        again = {one.facts["step_id"] for one in driver.events[resumed:] if one.kind == "step.started"}
        assert not done & again
        assert done | again == set(driver.run.steps)
