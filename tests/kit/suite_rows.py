"""The public suites' rows as duly's plans: typed references, descriptors (every suite tool a read), made-up outputs.

A row says which tool each step calls with which arguments. ``{"$ref": "s1.name"}`` (NesTools) and a text that is as a
whole ``$var1.name[0].part$`` (NESTFUL) become ``{"$ref": "s1#/name"}``. A text that only contains such a mark stays what
it is: duly has no text substitution and must refuse it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.protocol.plan import refs
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

SERVER = "suite"
COLLECTING = (
    "var_result"  # NESTFUL's last step, which no tool of a row describes: it returns what it is given
)
_WHOLE = re.compile(r"\$([A-Za-z]\w*)((?:\.[^.\[\]$]+|\[\d+\])*)\$")
_PART = re.compile(r"\.([^.\[\]$]+)|\[(\d+)\]")
_TYPES = {
    "str": "string",
    "string": "string",
    "file": "string",
    "float": "number",
    "number": "number",
    "int or float": "number",
    "int": "integer",
    "integer": "integer",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
}


@dataclass(frozen=True)
class Case:
    """One row: its plan, the granted descriptors by full name, and the row itself for what it expects."""

    plan: Plan
    descriptors: Mapping[str, Descriptor]
    row: Mapping[str, Any]

    def made_up(self, step_id: str, arguments: Mapping[str, Any]) -> Any:
        """An output of a step: of its declared types, or where those are open, with every part that the plan asks for.

        The collecting step returns its arguments.
        """
        step = self.plan.step(step_id)
        if step.tool == f"{SERVER}.{COLLECTING}":
            return dict(arguments)
        schema = step.output_contract.json_schema
        return example(schema, step_id) if schema else _asked_of(self.plan, step_id)


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a suite file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def nestools(row: Mapping[str, Any]) -> Case:
    """A NesTools row. Its types are plain words, so inputs and outputs are closed objects."""
    tools = [
        _descriptor(
            tool["api_name"], tool["api_description"], tool["parameters"], tool["required"], tool["responses"]
        )
        for tool in row["tools"]
    ]
    steps = [
        (step["step_id"], step["tool"], _map_refs(step["arguments"]), step["depends_on"])
        for step in row["steps"]
    ]
    return _case(row, row["id"], row["objective"], steps, tools, closed=True)


def nestful(row: Mapping[str, Any]) -> Case:
    """A NESTFUL v1 row. Its types are prose written by hand, and arguments do not keep to them: they stay open."""
    tools = [
        Descriptor(server=SERVER, name=tool["name"], description=tool["description"], effect="read")
        for tool in row["tools"]
    ]
    tools.append(Descriptor(server=SERVER, name=COLLECTING, effect="read"))
    steps = [
        (step["step_id"], step["tool"], _text_refs(step["arguments"]), step["depends_on"])
        for step in row["steps"]
    ]
    return _case(row, row["id"], row["objective"], steps, tools, closed=False)


def nestful_math(row: Mapping[str, Any]) -> Case:
    """A NESTFUL v2 row over numbers: calls with labels ``$var_1``, arguments that refer to ``$var_1.result$``."""
    number = {"type": "number"}  # the rows say "int" where their own answers need more
    called = {call["name"] for call in row["output"]}
    tools = [
        _descriptor(
            tool["name"],
            "",
            dict.fromkeys(tool["parameters"], number),
            list(tool["parameters"]),
            {"result": number},
        )
        for tool in row["tools"]
        if tool["name"] in called
    ]
    steps = [
        (call["label"].removeprefix("$"), call["name"], _text_refs(call["arguments"]), [])
        for call in row["output"]
    ]
    return _case(row, row["sample_id"], row["input"], steps, tools, closed=True)


def _asked_of(plan: Plan, step_id: str) -> Any:
    """The smallest value with everything that the references of a plan want of a step."""
    whole: dict[str, Any] = {}
    for step in plan.steps:
        for _, raw in refs.find(step.tool_contract.arguments):
            ref = refs.parse(raw["$ref"])
            if ref.step_id == step_id:
                inner = whole
                for part in ref.pointer:
                    inner = inner.setdefault(part, {})
    return _filled(whole, step_id)


def _filled(value: dict[str, Any], name: str) -> Any:
    """Maps whose keys are indexes as lists, maps without keys as texts."""
    if not value:
        return f"{name} é"
    if all(key.isdigit() for key in value):
        return [
            _filled(value.get(str(index), {}), f"{name}.{index}") for index in range(max(map(int, value)) + 1)
        ]
    return {key: _filled(item, f"{name}.{key}") for key, item in value.items()}


def example(schema: Mapping[str, Any], name: str) -> Any:
    """A value of a schema, the same each time, different for different names."""
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {key: example(part, f"{name}.{key}") for key, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [f"{name}.0", f"{name}.1"]
    values: dict[Any, Callable[[], Any]] = {
        "integer": lambda: len(name),
        "number": lambda: len(name) + 0.5,
        "boolean": lambda: len(name) % 2 == 0,
    }
    return values.get(kind, lambda: f"{name} é")()


def _case(
    row: Mapping[str, Any],
    name: str,
    objective: str,
    steps: Iterable[tuple[str, str, dict[str, Any], list[str]]],
    tools: Iterable[Descriptor],
    *,
    closed: bool,
) -> Case:
    descriptors = {tool.full_name: tool for tool in tools}
    made = [_step(*step, descriptors, closed) for step in steps]
    return Case(Plan(plan_id=name, objective=objective, steps=made, origin="person"), descriptors, row)


def _step(
    step_id: str,
    tool: str,
    arguments: dict[str, Any],
    depends_on: list[str],
    descriptors: Mapping[str, Descriptor],
    closed: bool,
) -> Step:
    none = Nothing(none="the suite has no acceptance rules")
    known = descriptors.get(f"{SERVER}.{tool}")
    reference = ToolRef(server=SERVER, name=tool, descriptor=known.digest() if known else "0" * 64)
    return Step(
        step_id=step_id,
        objective=f"what {tool} gives",
        inputs=Inputs(),
        tool_contract=ToolContract(tool=reference, arguments=arguments, effect="read", timeout_seconds=10),
        output_contract=OutputContract(
            json_schema=known.output_schema if known and closed else {}, artifact=f"{step_id}.output"
        ),
        verification=Verification(acceptance=none, tolerance=none, independent=none),
        on_failure=[Escalate()],
        depends_on=depends_on,
    )


def _descriptor(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    required: list[str],
    responses: Mapping[str, Any],
) -> Descriptor:
    given = {
        "type": "object",
        "properties": _properties(parameters),
        "required": required,
        "additionalProperties": False,
    }
    gives = {"type": "object", "properties": _properties(responses), "additionalProperties": False}
    return Descriptor(
        server=SERVER,
        name=name,
        description=description,
        input_schema=given,
        output_schema=gives,
        effect="read",
    )


def _properties(fields: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {name: _TYPES.get(str(field.get("type")).lower()) for name, field in fields.items()}
    return {name: {"type": kind} if kind else {} for name, kind in kinds.items()}


def _map_refs(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$ref"}:
            step, _, name = value["$ref"].partition(".")
            return _reference(step, [name] if name else [])
        return {_key(key): _map_refs(item) for key, item in value.items()}
    return [_map_refs(item) for item in value] if isinstance(value, list) else value


def _text_refs(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _text_refs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_text_refs(item) for item in value]
    whole = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    if whole is None:
        return value
    return _reference(whole[1], [name or index for name, index in _PART.findall(whole[2])])


def _reference(step: str, parts: list[str]) -> dict[str, str]:
    pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
    return {"$ref": f"{step}#{pointer}"}


def _key(key: str) -> str:
    return "$" + key if key.startswith("$") else key
