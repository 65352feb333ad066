"""A run that continues another one: its trusted results count where nothing has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.machine import effects
from duly.protocol.machine.calls import literal_key
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.stimuli import KeptResult
from duly.protocol.plan.plan import Step
from duly.protocol.wire import canon
from plans import plan, ref, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")
ALL = table(A, B, W)
READ = step("s1", A, {"key": 1})
WRITE = step("s2", W, {"key": 2}, reader=B, needs=["s1"])
MARKS = {"source": "1"}


def kept(one: Step, output: Any = None, marks: Mapping[str, str] = MARKS) -> KeptResult:
    data = canon.encode({"key": 1} if output is None else output)
    return KeptResult(key=literal_key(one), output=data, receipt=b"receipt", fingerprints=marks)


def run_of(*steps: Step, results: list[KeptResult], now: Mapping[str, str] = MARKS, **more: Any) -> Driver:
    driver = Driver(
        Answers(tools={name: lambda **k: k for name in ALL}),
        ALL,
        plan=plan(steps),
        settings={"tier": "bounded_autonomous", **more},
        submitted={"from_run": "r0", "kept": results, "fingerprints": now},
    )
    driver.submit()
    return driver


def test_a_result_of_an_unchanged_source_is_used_again():
    driver = run_of(READ, step("s2", B, {"key": ref("s1")}), results=[kept(READ, {"key": 7})])
    run = driver.run
    assert run is not None and run.phase is Phase.COMPLETED and run.from_run == "r0"
    assert run.steps["s1"].status == "reused" and run.steps["s1"].output and run.steps["s1"].receipt
    assert [one[0] for one in driver.answers.called] == ["s2"] and run.output("s2") == {"key": 7}
    assert driver.facts("results.imported")[0]["from_run"] == "r0"


@pytest.mark.parametrize(
    ("marks", "now"), [(MARKS, {"source": "2"}), (MARKS, {}), ({}, MARKS), ({}, {})], ids=str
)
def test_a_read_of_a_changed_or_unknown_source_is_done_again(marks: Any, now: Any):
    driver = run_of(READ, results=[kept(READ, marks=marks)], now=now)
    assert [one[0] for one in driver.answers.called] == ["s1"]


def test_an_effect_that_happened_never_happens_again():
    driver = run_of(READ, WRITE, results=[kept(READ), kept(WRITE, {"key": 2}, {})])
    run = driver.run
    assert run is not None and run.phase is Phase.COMPLETED and not driver.answers.called
    judge = next(order for order in driver.performed if isinstance(order, effects.Judge))
    assert [read["step_id"] for read in judge.reads] == ["s2"]  # it is read back like any other


def test_another_call_is_another_call():
    driver = run_of(step("s1", A, {"key": 2}), step("s2", B, {"key": 1}), results=[kept(READ)])
    assert len(driver.answers.called) == 2


def test_a_plan_that_is_drafted_uses_them_too_with_the_sources_as_they_are_then():
    for now, called in ((MARKS, 0), ({"source": "2"}, 1)):
        answers = Answers(
            tools={name: lambda **k: k for name in ALL},
            draft=lambda run, order: plan([READ], origin="playbook"),
            fingerprints=now,
        )
        driver = Driver(answers, ALL, submitted={"from_run": "r0", "kept": [kept(READ)]})
        assert driver.submit().phase is Phase.COMPLETED and len(answers.called) == called


def test_hundreds_fit_into_the_record_and_replay():
    results = [kept(step("s1", A, {"key": n}), {"key": n}) for n in range(450)]
    driver = run_of(step("s1", A, {"key": 449}), results=results)
    run = driver.checked()
    assert len(run.kept) == 450 and not driver.answers.called
    assert [facts["kept"] for facts in driver.facts("results.imported")] == [200, 200, 50]


def test_more_than_a_plan_can_use_are_refused():
    driver = Driver(Answers(), ALL, submitted={"from_run": "r0", "kept": [kept(READ)] * 2_001})
    driver.give(driver.submission())
    assert driver.run is None and driver.refusals[-1].code == "run.too_many_results"


@pytest.mark.parametrize("named", ["r9", None])
def test_the_mandate_names_the_run_whose_results_are_used(named: str | None):
    driver = Driver(
        Answers(), ALL, settings={"from_run": named}, submitted={"from_run": "r0", "kept": [kept(READ)]}
    )
    driver.give(driver.submission())
    assert driver.run is None and driver.refusals[-1].code == "mandate.other_from_run"


def test_a_crash_right_after_the_submission_loses_none():
    driver = Driver(
        Answers(tools={name: lambda **k: k for name in ALL}),
        ALL,
        plan=plan([READ]),
        submitted={"from_run": "r0", "kept": [kept(READ)], "fingerprints": MARKS},
    )
    driver.give(driver.submission())
    driver.resume()
    assert driver.go_on().phase is Phase.COMPLETED and not driver.answers.called
