"""A public plan through the driver: every suite tool is a read whose answer the test gives by step."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.machine.effects import Call
from duly.protocol.machine.stimuli import StepOutcome
from suite_rows import Case

Act = Callable[[str, Mapping[str, Any]], Any]
NUMBERS: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "sqrt": math.sqrt,
}


@dataclass
class CaseAnswers(Answers):
    """``act`` gives the output of a step for its resolved arguments; the step ``broken`` fails."""

    act: Act = lambda name, arguments: {}
    broken: str = ""

    def call(self, driver: Driver, call: Call, wave: int, outputs: dict[str, Any]) -> StepOutcome:
        def run(**arguments: Any) -> Any:
            if call.step_id == self.broken:
                raise CallFailure("tool.broken")
            return self.act(call.step_id, arguments)

        self.tools = {call.tool: run}
        return super().call(driver, call, wave, outputs)


def driven(case: Case, act: Act, *, broken: str = "", one_by_one: bool = False, **more: Any) -> Driver:
    """A case from submission to where it stops."""
    count = len(case.plan.steps)
    driver = Driver(
        CaseAnswers(act=act, broken=broken, one_by_one=one_by_one),
        case.descriptors,
        plan=case.plan,
        text=case.plan.objective or "A public plan.",
        settings={"budget": {"steps": 3 * count, "tool_calls": 3 * count, "wall_seconds": 600}},
        **more,
    )
    driver.submit()
    return driver
