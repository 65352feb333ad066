"""Two steps of one plan that come to make the same call of a tool that takes duly's key: the tool would act once."""

from __future__ import annotations

from typing import Any

from answers import Answers
from driver import Driver
from duly.protocol.machine.phases import Phase
from plans import DEGRADE, plan, ref, step, table, tool

READ = tool("read")
KEYED = tool("keyed", "write", idempotency="key")
ALL = table(READ, KEYED)


def written(values: dict[str, int]) -> Driver:
    """Two reads that give these values, and a write of each, one after the other."""
    steps: list[Any] = [step(f"r{n}", READ, {"of": name}) for n, name in enumerate(values)]
    steps += [
        step(f"w{n}", KEYED, {"key": ref(f"r{n}")}, reader=READ, on_failure=DEGRADE).model_copy(
            update={"verification": step("x", KEYED, {"of": name}, reader=READ).verification}
        )
        for n, name in enumerate(values)
    ]
    tools = {"t.read": lambda of: {"key": values[of]}, "t.keyed": lambda key: {"key": key}}
    driver = Driver(
        Answers(tools=tools), ALL, plan=plan(steps, allow_partial=True), settings={"tier": "long_autonomous"}
    )
    driver.submit()
    return driver


def test_the_second_of_two_equal_calls_is_no_second_effect_and_says_so():
    driver = written({"a": 5, "b": 5})
    assert driver.run is not None and driver.run.phase is Phase.PARTIAL
    assert [one for one in driver.answers.called if one[1] == "t.keyed"] == [("w0", "t.keyed", {"key": 5})]
    assert driver.run.steps["w1"].code == "step.duplicate_write"
    assert "w0" in driver.run.steps["w1"].message


def test_other_values_are_other_calls():
    driver = written({"a": 5, "b": 6})
    assert driver.run is not None and driver.run.phase is Phase.COMPLETED
    assert len([one for one in driver.answers.called if one[1] == "t.keyed"]) == 2
