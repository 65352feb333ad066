"""The form in which a language model writes a plan: a JSON Schema whose tools, ids and arguments are enumerated.

    {"steps": [step, …], "report_step": id or null, "allow_partial": true or false}

    a tool step    {"id", "kind": "tool", "tool", "objective", "arguments" or null, "after": [id, …], "checks": [rule, …]}
                   a tool that does more than read also has "read_back": {"tool", "arguments", "agree": [{"read", "written"}, …]}
    a reason step  {"id", "kind": "reason", "objective", "reads": [id, …], "gives": [{"name", "type"}, …]}

That is all a model decides. Descriptors, effects, timeouts, schemas of outputs, sources, scope and what happens on
failure are filled in by rule (``model_steps``). Where the tools' schemas are too big together, arguments are written as
entries (``model_schema``) under one shape for all tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..wire.limits import (
    MODEL_LIST_ITEMS_MAX,
    MODEL_NAME_CHARS_MAX,
    MODEL_PLAN_CHECKS_MAX,
    MODEL_PLAN_STEPS_MAX,
)
from .descriptor import Descriptor
from .model_schema import NULL, Schema, closed, defined, definitions, either, fits, strict, text, whole

SCHEMA_NAME = "plan"
OBJECTIVE_CHARS_MAX = 400
FIELD_TYPES = ("string", "number", "integer", "boolean", "strings")


@dataclass(frozen=True, slots=True)
class PlanForm:
    """The schema, how many steps it lets a plan have, and whether arguments are written as entries."""

    json_schema: Schema
    steps_max: int
    generic: bool


def plan_form(descriptors: Mapping[str, Descriptor], *, steps_max: int) -> PlanForm:
    """The form for these granted tools. ``steps_max`` is at least 1 and bounded by ``MODEL_PLAN_STEPS_MAX``."""
    steps_max = max(1, min(steps_max, MODEL_PLAN_STEPS_MAX))
    exact = _schema(descriptors, steps_max, generic=False)
    if fits(exact):
        return PlanForm(exact, steps_max, generic=False)
    return PlanForm(_schema(descriptors, steps_max, generic=True), steps_max, generic=True)


def step_ids(steps_max: int) -> list[str]:
    return [f"s{number}" for number in range(1, steps_max + 1)]


def _schema(descriptors: Mapping[str, Descriptor], steps_max: int, *, generic: bool) -> Schema:
    names = sorted(descriptors)
    places = {name: f"arguments_{index}" for index, name in enumerate(names, 1)}
    readers = [name for name in names if descriptors[name].reads_only]
    known = definitions(references=True, step_ids=step_ids(steps_max))
    known |= _parts(steps_max)
    known["reference"] = closed({"from_step": defined("id"), "pointer": text(MODEL_NAME_CHARS_MAX)})
    if not generic:
        known |= {
            places[name]: strict(descriptors[name].input_schema, references=True) for name in descriptors
        }
    arguments = dict.fromkeys(names, "object") if generic else places
    if readers:
        known["read_back"] = either(*_read_backs(readers, arguments, generic))
    kinds = [
        _tool_step(group, defined(arguments[group[0]]), writes=writes, readable=bool(readers))
        for writes in (False, True)
        for group in _groups([n for n in names if descriptors[n].reads_only is not writes], generic)
    ]
    steps = {
        "type": "array",
        "items": either(*kinds, _reason_step()),
        "minItems": 1,
        "maxItems": steps_max,
    }
    plan = closed(
        {"steps": steps, "report_step": either(defined("id"), NULL), "allow_partial": {"type": "boolean"}}
    )
    return whole(plan, known)


def _groups(names: list[str], generic: bool) -> list[list[str]]:
    """Tools that share one shape of a step: all of them where arguments are entries, else each by itself."""
    return ([names] if names else []) if generic else [[name] for name in names]


def _parts(steps_max: int) -> dict[str, Schema]:
    """Definitions that every step shares."""
    ids: Schema = {"type": "string", "enum": step_ids(steps_max)}
    some: Schema = {"type": "array", "items": defined("id"), "maxItems": steps_max}
    rules: Schema = {"type": "array", "items": either(*_rules()), "maxItems": MODEL_PLAN_CHECKS_MAX}
    return {"id": ids, "ids": some, "checks": rules, "pointer": text(MODEL_NAME_CHARS_MAX)}


def _rules() -> Iterable[Schema]:
    path, number = {"path": defined("pointer")}, {"type": "number"}
    bounds = {"min": either(number, NULL), "max": either(number, NULL)}
    count = {"min": {"type": "integer"}, "max": either({"type": "integer"}, NULL)}
    yield closed({"rule": _only("not_null"), **path})
    yield closed({"rule": _only("range"), **path, **bounds})
    yield closed({"rule": _only("count"), **path, **count})
    yield closed({"rule": _only("unique"), **path, "field": either(text(MODEL_NAME_CHARS_MAX), NULL)})
    yield closed({"rule": _only("agrees"), **path, "other": defined("pointer")})


def _only(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def _read_backs(readers: list[str], arguments: Mapping[str, str], generic: bool) -> Iterable[Schema]:
    pair = closed({"read": defined("pointer"), "written": defined("pointer")})
    agree: Schema = {"type": "array", "items": pair, "minItems": 1, "maxItems": MODEL_LIST_ITEMS_MAX}
    for group in _groups(readers, generic):
        yield closed({"tool": _only(*group), "arguments": defined(arguments[group[0]]), "agree": agree})


def _tool_step(tools: list[str], arguments: Schema, *, writes: bool, readable: bool) -> Schema:
    properties = {
        "id": defined("id"),
        "kind": _only("tool"),
        "tool": _only(*tools),
        "objective": text(OBJECTIVE_CHARS_MAX),
        "arguments": either(arguments, NULL),
        "after": defined("ids"),
        "checks": defined("checks"),
    }
    if writes:
        properties["read_back"] = defined("read_back") if readable else NULL
    return closed(properties)


def _reason_step() -> Schema:
    field = closed({"name": text(64), "type": _only(*FIELD_TYPES)})
    return closed(
        {
            "id": defined("id"),
            "kind": _only("reason"),
            "objective": text(OBJECTIVE_CHARS_MAX),
            "reads": defined("ids"),
            "gives": {"type": "array", "items": field, "minItems": 1, "maxItems": 20},
        }
    )
