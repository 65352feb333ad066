"""Arguments, reason steps, turns of a direct run and reviews: each under its schema, or refused with its faults."""

from __future__ import annotations

import asyncio

import jsonschema_rs
import pytest

from duly.actors.planner.model.arguments import extract_arguments
from duly.actors.planner.model.direct import Answer, ToolWish, Turn, next_turn, turn_schema
from duly.actors.planner.model.reason import reason
from duly.actors.verifier.critic import CriticWord, criticise
from duly.protocol.judgement.checks import Check
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.request import new_request
from duly.protocol.wire.errors import ModelError, PlanError
from duly.protocol.wire.limits import MODEL_ATTEMPTS_MAX, MODEL_CORRECTIONS_MAX
from plans import plan, step, table, tool
from scripted_model import blocks, faults_told, scripted

TAKES = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "count": {"type": "integer", "minimum": 1},
        "note": {"type": "string"},
    },
    "required": ["name", "count"],
    "additionalProperties": False,
}
WRITE = tool("send", "write", input_schema=TAKES)
READ = tool(
    "find", input_schema={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
)
AGENT = AgentSpec(name="a", version="1", tools=["t.send", "t.find"])
REQUEST = new_request("Send five to ada.")
STEP = step("s2", WRITE, open_arguments=True)
GOOD = {"arguments": {"name": "ada", "count": 5, "note": None}}


def arguments(*script, descriptor=WRITE, inputs=None):
    asked, model = scripted(*script)
    made = extract_arguments(asked, step=STEP, descriptor=descriptor, request=REQUEST, inputs=inputs or {})
    return made, model


def test_arguments_come_under_the_tools_schema():
    made, model = arguments(GOOD, inputs={"s1.found": {"name": "ada"}})
    assert asyncio.run(made) == {"name": "ada", "count": 5}
    jsonschema_rs.validator_for(model.calls[0].json_schema).validate(GOOD)
    given = blocks(model.prompts()[0])
    assert given["inputs"] == {"s1.found": {"value": {"name": "ada"}}}
    assert given["step"] == {"objective": STEP.objective, "tool": "t.send"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"arguments": {"name": "Ada", "count": 5}},
        {"arguments": {"name": "ada", "count": "5"}},
        {"arguments": {"name": "ada", "count": 0}},
        {"arguments": {"name": "ada"}},
        {"arguments": {"name": "ada", "count": 5, "to": "eve"}},
        {"arguments": None},
        {"arguments": [1]},
        {"arguments": {"$ref": "s1#/x"}},
        {"arguments": {"name": {"$ref": "s1#/name"}, "count": 5}},
        {"arguments": {"name": "ada", "count": 10**30}},
        {},
        None,
        "text",
    ],
)
def test_wrong_arguments_are_told_and_repaired_or_refused(wrong):
    made, model = arguments(wrong, GOOD)
    assert asyncio.run(made) == {"name": "ada", "count": 5}
    assert faults_told(model.prompts()[1])
    made, model = arguments(*[wrong] * MODEL_ATTEMPTS_MAX)
    with pytest.raises(PlanError) as caught:
        asyncio.run(made)
    assert caught.value.code == "plan.arguments" and caught.value.faults
    assert model.script == []


def both_kinds(prompt: str) -> bool:
    """Whether faults under the schema and those of what the value stands for were told, and the value with them."""
    (attempt,) = blocks(prompt)["earlier_attempts"]
    codes = {fault["code"] for fault in attempt["faults"]}
    return "model.bad_answer" in codes and len(codes) > 1 and attempt["answer"] != {"value": None}


def test_faults_under_the_schema_and_beyond_it_are_told_at_once():
    made, model = arguments({"arguments": {"name": "Ada", "count": "5"}}, GOOD)
    asyncio.run(made)
    assert both_kinds(model.prompts()[1])
    assert {fault["path"] for fault in faults_told(model.prompts()[1])} == {
        "arguments/name",  # a pattern, which the schema of a call cannot say
        "arguments/count",
        "arguments",  # the note that is missing
    }
    call = {"turn": {**CALL["turn"], "arguments": {"name": "Ada", "count": "5"}}}
    made, model = turn(call, SAID)
    asyncio.run(made)
    assert both_kinds(model.prompts()[1])


def test_open_schemas_take_entries_and_keys_that_look_like_tags_are_escaped():
    descriptor = tool("open", input_schema={"type": "object"})
    entries = [
        {"name": "$ref", "value": "s1#/x"},
        {"name": "a", "value": {"json": '{"b": [1, {"$int": "7"}]}'}},
    ]
    made, model = arguments({"arguments": {"entries": entries}}, descriptor=descriptor)
    assert asyncio.run(made) == {"$$ref": "s1#/x", "a": {"b": [1, {"$$int": "7"}]}}
    assert "object" in model.calls[0].json_schema["$defs"]


def test_a_failing_model_is_not_an_argument():
    made, _ = arguments(ModelError("model.unknown_model", "There is no such model."))
    with pytest.raises(ModelError, match=r"model\.unknown_model"):
        asyncio.run(made)


GIVES = {
    "type": "object",
    "properties": {"subject": {"type": "string"}, "parts": {"type": "array", "items": {"type": "string"}}},
    "required": ["subject", "parts"],
    "additionalProperties": False,
}


def answer(*script, gives=GIVES, inputs=None):
    asked, model = scripted(*script)
    one = step("s3", READ, schema=gives)
    return reason(asked, step=one, inputs=inputs or {"s1.rows": {"n": 1}}), model


def test_a_reason_step_answers_from_its_inputs_alone():
    made, model = answer({"answer": {"subject": "UA", "parts": ["a"]}})
    assert asyncio.run(made) == {"subject": "UA", "parts": ["a"]}
    assert list(blocks(model.prompts()[0])) == ["step", "inputs"]
    assert "Send five" not in model.prompts()[0]


@pytest.mark.parametrize(
    "wrong", [{"answer": {"subject": 1, "parts": []}}, {"answer": None}, {}, 3, {"subject": "x"}]
)
def test_an_answer_outside_of_the_schema_is_told_then_refused(wrong):
    made, model = answer(wrong, {"answer": {"subject": "UA", "parts": []}})
    assert asyncio.run(made)["subject"] == "UA"
    assert faults_told(model.prompts()[1])
    made, _ = answer(*[wrong] * MODEL_ATTEMPTS_MAX)
    with pytest.raises(ModelError, match=r"model\.bad_answer"):
        asyncio.run(made)


def test_a_reason_step_may_give_what_is_no_object():
    made, model = answer({"answer": 7}, gives={"type": "integer", "minimum": 3})
    assert asyncio.run(made) == 7
    assert model.calls[0].json_schema["properties"] == {"answer": {"type": "integer"}}


def turn(*script, turns=(), last=False, agent=AGENT):
    asked, model = scripted(*script)
    made = next_turn(
        asked, request=REQUEST, agent=agent, descriptors=table(WRITE, READ), turns=turns, last=last
    )
    return made, model


CALL = {
    "turn": {
        "kind": "call",
        "tool": "t.send",
        "arguments": {"name": "ada", "count": 5, "note": None},
        "why": "w",
    }
}
SAID = {"turn": {"kind": "answer", "text": "Done."}}


def test_a_turn_is_an_answer_or_a_call():
    made, model = turn(CALL)
    assert asyncio.run(made) == ToolWish("t.send", {"name": "ada", "count": 5}, "w")
    validator = jsonschema_rs.validator_for(model.calls[0].json_schema)
    assert validator.is_valid(CALL) and validator.is_valid(SAID)
    done = [Turn("t.send", {"name": "ada", "count": 5}, "ok", {"sent": {"$int": "1"}})]
    made, model = turn(SAID, turns=done)
    assert asyncio.run(made) == Answer("Done.")
    assert blocks(model.prompts()[0])["calls"][0]["outcome"] == "ok"


def test_the_last_turn_takes_an_answer_only():
    made, model = turn(CALL, SAID, last=True)
    assert asyncio.run(made) == Answer("Done.")
    validator = jsonschema_rs.validator_for(model.calls[0].json_schema)
    assert validator.is_valid(SAID) and not validator.is_valid(CALL)
    assert "tools" not in blocks(model.prompts()[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"turn": {**CALL["turn"], "tool": "t.drop"}},
        {"turn": {**CALL["turn"], "arguments": {"name": "ada", "count": "5"}}},
        {"turn": {**CALL["turn"], "arguments": None}},
        {"turn": {"kind": "answer", "text": " "}},
        {"turn": {"kind": "answer"}},
        {"turn": {"kind": "shell"}},
        {"turn": None},
        {},
        7,
    ],
)
def test_a_turn_that_is_none_is_told_then_refused(wrong):
    made, model = turn(wrong, SAID)
    assert asyncio.run(made) == Answer("Done.")
    assert faults_told(model.prompts()[1])
    made, _ = turn(*[wrong] * MODEL_ATTEMPTS_MAX)
    with pytest.raises(ModelError, match=r"model\.bad_answer") as caught:
        asyncio.run(made)
    assert caught.value.faults


def test_only_granted_tools_are_enumerated():
    narrow = AGENT.model_copy(update={"tools": ["t.find"]})
    made, model = turn(CALL, SAID, agent=narrow)
    assert asyncio.run(made) == Answer("Done.")
    assert not jsonschema_rs.validator_for(model.calls[0].json_schema).is_valid(CALL)
    assert faults_told(model.prompts()[1])[0]["code"] == "plan.tool_not_granted"


def test_many_tools_share_one_shape_of_a_call():
    properties = {f"part_{n}": {"type": "string"} for n in range(20)}
    many = {f"t.tool{n}": tool(f"tool{n}", input_schema={"properties": properties}) for n in range(200)}
    assert len(turn_schema(many)["properties"]["turn"]["anyOf"]) == 2


CHECKS = [Check(check_id="c", kind="rule", step_id="s1", outcome="pass")]


def review(*script):
    asked, model = scripted(*script)
    made = criticise(
        asked, objective="Find out.", plan=plan([step("s1", READ)]), outputs={"s1": {"n": 1}}, checks=CHECKS
    )
    return made, model


def test_a_review_is_a_word_and_corrections():
    made, model = review({"outcome": "fail", "corrections": [" Name the month. ", ""]})
    assert asyncio.run(made) == CriticWord("fail", ["Name the month."])
    assert list(blocks(model.prompts()[0])) == ["objective", "plan", "outputs", "checks"]
    made, _ = review({"outcome": "pass", "corrections": ["none needed"]})
    assert asyncio.run(made) == CriticWord("pass")
    most = ["x" * 500] * MODEL_CORRECTIONS_MAX
    made, _ = review({"outcome": "fail", "corrections": most})
    assert asyncio.run(made) == CriticWord("fail", most)


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        {},
        [],
        "pass",
        {"outcome": "pass"},
        {"outcome": "PASS", "corrections": []},
        {"outcome": True, "corrections": []},
        {"outcome": "pass", "corrections": [], "note": "x"},
        {"outcome": "pass", "corrections": "none"},
        {"outcome": "fail", "corrections": [1]},
        {"outcome": ["pass"], "corrections": []},
        {"outcome": "fail", "corrections": ["x"] * (MODEL_CORRECTIONS_MAX + 1)},
        {"outcome": "fail", "corrections": ["x" * 501]},
    ],
)
def test_garbage_is_an_error_and_never_a_pass(garbage):
    made, _ = review(garbage)
    with pytest.raises(ModelError, match=r"model\.bad_answer") as caught:
        asyncio.run(made)
    assert caught.value.faults
