"""The agent package that the benchmarks run, and the plans over it: reads that do nothing, and reads that wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import (
    Escalate,
    Inputs,
    Nothing,
    OutputContract,
    Plan,
    Step,
    ToolContract,
    ToolRef,
    Verification,
)

TOOLS = '''"""Two reads: one that does nothing, one that waits."""

import time

import duly


@duly.tool(effect="read", concurrent=True)
def add_one(value: int) -> dict[str, int]:
    """The number after a number."""
    return {"value": value + 1}


@duly.tool(effect="read", concurrent=True)
def wait(milliseconds: int) -> dict[str, int]:
    """Waits, and says how long."""
    time.sleep(milliseconds / 1000)
    return {"waited": milliseconds}
'''
MANIFEST = """
[package]
name = "bench"
version = "1"
data = "bench"

[[agents]]
name = "runner"
version = "1"
mission = "Runs what is measured."
tools = ["nothing.add_one", "nothing.wait"]

[agents.budget]
steps = 2_000
tool_calls = 4_000
wall_seconds = 600

[tools.nothing]
kind = "python"
functions = ["add_one", "wait"]
"""
FILES: Mapping[str, bytes] = {"agent.toml": MANIFEST.encode(), "tools.py": TOOLS.encode()}
OBJECTIVE = "Measure what a step costs."
_NONE = Nothing(none="a measurement needs none")


def chain(descriptors: Mapping[str, Descriptor], count: int) -> Plan:
    """``count`` reads, each of which takes the number that the one before it gave."""
    tool = descriptors["nothing.add_one"]
    arguments: list[dict[str, Any]] = [{"value": 0}]
    arguments += [{"value": {"$ref": f"s{number}#/value"}} for number in range(1, count)]
    return _plan([_step(f"s{number}", tool, given, "value") for number, given in enumerate(arguments, 1)])


def level(descriptors: Mapping[str, Descriptor], count: int, milliseconds: int) -> Plan:
    """``count`` reads that wait, none of which needs another."""
    tool = descriptors["nothing.wait"]
    return _plan(
        [
            _step(f"s{number}", tool, {"milliseconds": milliseconds}, "waited")
            for number in range(1, count + 1)
        ]
    )


def _plan(steps: list[Step]) -> Plan:
    return Plan(plan_id="plan", objective=OBJECTIVE, steps=steps, origin="person")


def _step(step_id: str, tool: Descriptor, arguments: dict[str, Any], gives: str) -> Step:
    return Step(
        step_id=step_id,
        objective="what a step costs",
        inputs=Inputs(),
        tool_contract=ToolContract(
            tool=ToolRef(server=tool.server, name=tool.name, descriptor=tool.digest()),
            arguments=arguments,
            effect=tool.effect,
            timeout_seconds=10,
        ),
        output_contract=OutputContract(
            json_schema={"type": "object", "properties": {gives: {"type": "integer"}}, "required": [gives]},
            artifact=step_id,
        ),
        verification=Verification(acceptance=_NONE, tolerance=_NONE, independent=_NONE),
        on_failure=[Escalate()],
    )
