"""Public plans through the whole machine: from the order to the verdict, with the record replayed at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from driver import Driver
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan import schedule
from suite_rows import Case, nestful, nestful_math, nestools, rows
from suite_runs import NUMBERS, CaseAnswers, driven


def started_before_its_inputs_were_there(driver: Driver, case: Case) -> list[str]:
    """Steps whose dispatch began while something they depend on had neither ended nor was in the same dispatch."""
    early, done = [], set()
    for order_index, (_, ids) in enumerate(driver.dispatches()):
        for name in ids:
            needs = schedule.dependencies(case.plan.step(name))
            early += [f"{order_index}:{name}" for need in needs if need not in done and need not in ids]
        done |= set(ids)
    return early


def completed(driver: Driver, case: Case) -> Run:
    run = driver.run
    assert run is not None
    assert (run.phase, run.verdict) == (Phase.COMPLETED, "pass"), (case.plan.plan_id, run.reason, run.message)
    assert started_before_its_inputs_were_there(driver, case) == []
    assert driver.kinds().count("step.started") == len(case.plan.steps)
    assert run.budget.spent["steps"] == len(case.plan.steps) and not run.budget.reserved
    return run


def test_nestools_500_plans_complete_with_their_levels_at_once(suites: Path):
    for row in rows(suites / "nestools.jsonl"):
        case = nestools(row)
        driver = driven(case, case.made_up)
        run = completed(driver, case)
        at_once = [ids for mode, ids in driver.dispatches() if mode == "concurrent"]
        assert at_once == [level for level in schedule.levels(case.plan) if len(level) > 1], row["id"]
        assert run.output(row["steps"][-1]["step_id"]).keys() == set(row["steps"][-1]["outputs"])


def test_every_argument_reaches_its_tool_with_its_references_resolved(suites: Path):
    for row in rows(suites / "nestools.jsonl")[:100]:
        case = nestools(row)
        seen: dict[str, Mapping[str, Any]] = {}

        def act(name: str, arguments: Mapping[str, Any], case: Case = case, seen: Any = seen) -> Any:
            seen[name] = arguments
            return case.made_up(name, arguments)

        completed(driven(case, act), case)
        for step in row["steps"]:
            assert seen[step["step_id"]].keys() == step["arguments"].keys()
            for name, raw in step["arguments"].items():
                if isinstance(raw, dict) and set(raw) == {"$ref"}:
                    target, _, part = raw["$ref"].partition(".")
                    output = case.made_up(target, seen[target])
                    assert seen[step["step_id"]][name] == (output[part] if part else output)


def test_nestful_136_plans_complete_and_6_are_refused(suites: Path):
    ends: dict[str, list[str]] = {"COMPLETED": [], "FAILED": []}
    for row in rows(suites / "nestful_v1.jsonl"):
        case = nestful(row)
        driver = driven(case, case.made_up)
        assert driver.run is not None
        ends[str(driver.run.phase)].append(row["id"])
        if driver.run.phase is Phase.COMPLETED:
            completed(driver, case)
        else:
            assert driver.run.reason == "plan.refused" and "plan.reference_in_text" in driver.run.message
            assert not driver.answers.called
    assert (len(ends["COMPLETED"]), len(ends["FAILED"])) == (136, 6)


def test_sixteen_broken_plans_run_nothing_and_say_why(suites: Path):
    found = rows(suites / "nestful_v1_invalid.jsonl")
    assert len(found) == 16
    for row in found:
        case = nestful(row)
        driver = driven(case, case.made_up)
        assert driver.run is not None
        assert (driver.run.phase, driver.run.reason) == (Phase.FAILED, "plan.refused"), row["id"]
        assert not driver.answers.called
        kinds = {"unknown_tool": "plan.tool_not_granted", "dangling_reference": "plan.dangling_reference"}
        for issue in row["issues"]:
            assert kinds[issue["kind"]] in driver.run.message


def test_ten_plans_over_numbers_reach_their_gold_answers(suites: Path):
    reached = 0
    for row in rows(suites / "nestful_v2_math.jsonl"):
        if not all(call["name"] in NUMBERS for call in row["output"]):
            continue
        case = nestful_math(row)

        def act(name: str, arguments: Mapping[str, Any], case: Case = case) -> Any:
            tool = case.plan.step(name).tool or ""
            return {"result": NUMBERS[tool.removeprefix("suite.")](*arguments.values())}

        run = completed(driven(case, act), case)
        assert run.output(case.plan.steps[-1].step_id)["result"] == pytest.approx(
            row["gold_answer"], rel=1e-12
        )
        reached += 1
    assert reached == 10


@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
def test_a_crash_in_mid_plan_ends_in_the_same_outputs(suites: Path, when: str):
    """Every thirtieth plan, at every event of its story."""
    for row in rows(suites / "nestools.jsonl")[::30]:
        case = nestools(row)
        calm = driven(case, case.made_up)
        for point in range(1, len(calm.events) + 1):
            driver = driven(case, case.made_up, **{when: point})
            assert driver.run is not None and calm.run is not None
            assert (driver.run.phase, driver.run.outputs) == (Phase.COMPLETED, calm.run.outputs)


def test_results_that_arrive_one_by_one_change_nothing(suites: Path):
    for row in rows(suites / "nestools.jsonl")[::10]:
        case = nestools(row)
        together, apart = driven(case, case.made_up), driven(case, case.made_up, one_by_one=True)
        assert together.run is not None and apart.run is not None
        assert together.run.outputs == apart.run.outputs
        assert together.dispatches() == apart.dispatches()


def test_one_failing_step_of_each_plan_loses_no_other_result(suites: Path):
    """The step that fails is another one in each plan; what does not depend on it is done, what does is not begun."""
    for index, row in enumerate(rows(suites / "nestools.jsonl")[::5]):
        case = nestools(row)
        victim = case.plan.steps[index % len(case.plan.steps)].step_id
        driver = driven(case, case.made_up, broken=victim)
        run = driver.run
        assert run is not None and run.phase is Phase.WAITING_INPUT
        assert run.steps[victim].status == "failed"
        level = next(n for n, names in enumerate(run.levels) if victim in names)
        for name in (name for names in run.levels[:level] for name in names):
            assert run.steps[name].status == "succeeded"
        if len(run.levels[level]) > 1:
            siblings = set(run.levels[level]) - {victim}
            assert {run.steps[name].status for name in siblings} == {"succeeded"}
        assert not any(
            run.steps[name].status == "succeeded" for names in run.levels[level + 1 :] for name in names
        )
        answers = driver.answers
        assert isinstance(answers, CaseAnswers)
        answers.broken = ""
        before = len(answers.called)
        assert driver.answer("retry").phase is Phase.COMPLETED
        again = [name for name, _, _ in answers.called[before:]]
        assert victim in again and len(again) == len(set(again))
