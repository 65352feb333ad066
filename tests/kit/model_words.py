"""A plan in the words of a model: the form of ``model_plan``, as a good model would write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from duly.protocol.plan import refs
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan, ReadBack, Step
from duly.protocol.plan.schedule import dependencies


def plan_words(plan: Plan, descriptors: Mapping[str, Descriptor]) -> dict[str, Any]:
    """The value with which a model asks for this plan; ids have to be s1, s2, ... already."""
    steps = [_step(step, descriptors) for step in plan.steps]
    return {"steps": steps, "report_step": plan.report_step, "allow_partial": plan.allow_partial}


def _step(step: Step, descriptors: Mapping[str, Descriptor]) -> dict[str, Any]:
    descriptor = descriptors[str(step.tool)]
    referred = refs.steps_of(step.tool_contract.arguments)
    words: dict[str, Any] = {
        "id": step.step_id,
        "kind": "tool",
        "tool": step.tool,
        "objective": step.objective[:400],
        "arguments": argument_words(step.tool_contract.arguments, descriptor.input_schema),
        "after": [name for name in dependencies(step) if name not in referred],
        "checks": [],
    }
    if not descriptor.reads_only:
        back = step.verification.independent
        assert isinstance(back, ReadBack)
        reader = descriptors[back.read_back.full_name]
        words["read_back"] = {
            "tool": reader.full_name,
            "arguments": argument_words(back.arguments, reader.input_schema),
            "agree": [{"read": read, "written": written} for read, written in back.agree.items()],
        }
    return words


def argument_words(value: Any, schema: Mapping[str, Any]) -> Any:
    """Arguments in duly's own form, in the spelling of the strict form of their schema."""
    if isinstance(value, dict) and set(value) == {"$ref"}:
        ref = refs.parse(value["$ref"])
        return {"from_step": ref.step_id, "pointer": str(ref).partition("#")[2]}
    schema = _branch(value, schema)
    properties = schema.get("properties")
    if isinstance(value, dict) and (properties or schema.get("additionalProperties") is False):
        properties = properties or {}
        known = {name: argument_words(one, properties.get(name, {})) for name, one in value.items()}
        return {**dict.fromkeys(properties), **known}
    if isinstance(value, dict) and schema.get("type") == "object":
        entries = [{"name": name, "value": argument_words(one, {})} for name, one in value.items()]
        return {"entries": entries}
    if isinstance(value, list) and schema.get("type") == "array":
        return [argument_words(one, schema.get("items", {})) for one in value]
    if isinstance(value, dict | list):
        return {"json": json.dumps(value)}
    return value


def _branch(value: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a choice the branch for a list or a map; else the schema."""
    kind = {list: "array", dict: "object"}.get(type(value))
    return next((one for one in schema.get("anyOf", ()) if one.get("type") == kind), schema)
