"""What a report says of parts of a change, from its statements and from the decomposition behind them."""

from __future__ import annotations

from typing import Any

from driver import Driver, run_plan
from duly.protocol.views.contributions import SEGMENTS_SHOWN_MAX, Part, contributions
from plans import plan, ref, step, table, tool

DECOMPOSE, SAY = tool("decompose"), tool("say")


def segment(number: int) -> dict[str, Any]:
    value = -10.0 + number
    return {
        "segment": f"p{number}",
        "label": f"Part {number}",
        "contribution": value,
        "low": value - 1,
        "high": value + 1,
    }


def statement(number: int, **values: Any) -> dict[str, Any]:
    at = f"d#/segments/{number}"
    given = {**segment(number), "plural": "parts", **values}
    return {
        "kind": "observation",
        "template": "x",
        "text": "x",
        "level": "association",
        "values": {
            name: {"value": value, "unit": "points", "source": f"{at}/{name}"}
            for name, value in given.items()
        },
    }


def told(statements: list[dict[str, Any]], output: Any) -> Driver:
    report = {"kind": "report", "status": "complete", "reason": None, "statements": statements, "choices": []}
    steps = [step("d", DECOMPOSE), step("r", SAY, {"of": ref("d", "")})]
    tools = {DECOMPOSE.full_name: lambda **_: output, SAY.full_name: lambda **_: report}
    return run_plan(plan(steps, report_step="r"), table(DECOMPOSE, SAY), tools)


def decomposition(count: int) -> dict[str, Any]:
    segments = [segment(number) for number in range(count)]
    return {"kind": "decomposition", "dimension_plural": "pieces", "change": -30.0, "segments": segments}


def test_the_decomposition_goes_on_behind_the_stated_parts():
    driver = told([statement(0), statement(1)], decomposition(SEGMENTS_SHOWN_MAX + 2))
    (found,) = contributions(driver.run)
    assert (found.step_id, found.dimension, found.change, found.unit) == ("d", "pieces", -30.0, "points")
    assert found.parts[0] == Part("p0", "Part 0", -10.0, -11.0, -9.0)
    assert len(found.parts) == SEGMENTS_SHOWN_MAX and found.more == 2 and found.rest == 0.0 + 1.0


def test_statements_alone_where_the_output_is_something_else():
    driver = told([statement(0), statement(1)], {"kind": "other", "segments": "none"})
    (found,) = contributions(driver.run)
    assert [part.segment for part in found.parts] == ["p0", "p1"]
    assert (found.dimension, found.change, found.more) == ("parts", None, 0)


def test_statements_without_an_interval_are_no_contributions():
    assert contributions(told([statement(0, low=None)], decomposition(2)).run) == []
    assert contributions(told([statement(0, contribution="much")], decomposition(2)).run) == []
    assert contributions(told([statement(0, high=1e300)], decomposition(2)).run) == []
    assert contributions(told([], decomposition(2)).run) == []


def test_a_run_without_a_report_has_none():
    driver = run_plan(
        plan([step("d", DECOMPOSE)]), table(DECOMPOSE), {DECOMPOSE.full_name: lambda **_: {"a": 1}}
    )
    assert contributions(driver.run) == []
