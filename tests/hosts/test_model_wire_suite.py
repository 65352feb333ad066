"""What two real servers answered, replayed over HTTP: each exchange ends in a value or in an error that says why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.protocol.plan import schema as schemas
from duly.protocol.plan.model_call import ModelMessage
from model_host_world import ModelHostWorld, call_of
from scripted_model_server import Asked, Reply, ScriptedModelServer, raw

ANYTHING: dict[str, Any] = {"type": "object"}
ROLES = ("system", "user", "assistant")


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def _exchanges(suites: Path) -> list[dict[str, Any]]:
    return [
        one for path in sorted((suites / "llm_wire").glob("*.json")) for one in json.loads(path.read_text())
    ]


def _ended(host: ModelHostWorld, exchange: dict[str, Any]) -> str:
    """How a call ends that the server answers with these recorded bytes, whatever it is asked."""
    wanted = exchange["request"].get("response_format", {}).get("json_schema", {}).get("schema", ANYTHING)
    call = call_of(schema=wanted, tokens=20_000)
    messages = [
        ModelMessage(role=one["role"] if one["role"] in ROLES else "user", text=one["content"])
        for one in exchange["request"]["messages"]
    ]
    body = exchange["body"] if isinstance(exchange["body"], str) else json.dumps(exchange["body"])
    reply = raw(body.encode(), status=exchange["status"], content_type=exchange["content_type"])
    with ScriptedModelServer(lambda asked: reply) as server:
        host.renew(server.base_url)
        answer = host.ask(call.model_copy(update={"messages": messages}))
    assert len(server.requests) <= 4
    assert answer.use.tokens <= 20_000
    assert host.spent()[0] == answer.use.tokens
    if answer.error is None:
        assert schemas.faults_of(answer.value, wanted, "", "x") == []
        return "value"
    assert answer.error.code == answer.use.code
    assert answer.value is None and answer.error.message.endswith((".", ")"))
    return answer.error.code


def test_each_recorded_exchange_ends_in_a_value_or_a_clear_error(host, suites):
    exchanges = _exchanges(suites)
    assert len(exchanges) == 51
    ends = {f"{one['server']} {one['case']}": _ended(host, one) for one in exchanges}
    assert set(ends.values()) <= {
        "value",
        "model.truncated",
        "model.bad_answer",
        "model.context_overflow",
        "model.schema_refused",
        "model.unavailable",
        "model.not_a_model_server",
    }
    by_case = {case: {end for name, end in ends.items() if name.endswith(f" {case}")} for case in CASES}
    assert by_case == CASES
    counted = Counter(ends.values())
    assert counted["value"] >= 10 and counted["model.truncated"] >= 3


# What the servers' answers mean for a caller that wanted JSON. One of them knows no schema and says so with a 500, which
# these replays give to every way of asking.
CASES: dict[str, set[str]] = {
    "ctx_overflow": {"model.context_overflow"},
    "stream": {"model.not_a_model_server"},
    "bad_schema": {"model.schema_refused"},
    "bad_role": {"model.truncated", "model.unavailable"},
    "truncated_schema": {"model.truncated", "model.unavailable"},
    "tools_auto": {"model.bad_answer", "value"},
    **{f"plan_schema_{number}": {"value", "model.unavailable"} for number in range(5)},
    **{f"plan_json_object_{number}": {"value"} for number in range(2)},
    "critic": {"value", "model.unavailable"},
    "critic_wrong": {"value", "model.unavailable"},
}


def test_the_server_that_knows_no_schema_is_asked_in_json_mode(host, suites):
    recorded = {one["case"]: one for one in _exchanges(suites) if one["server"] == "llama-cpp-python-smollm2"}

    def answer(asked: Asked) -> Reply:
        strict = asked.body["response_format"]["type"] == "json_schema"
        one = recorded["plan_schema_0" if strict else "plan_json_object_0"]
        return raw(one["body"].encode(), status=one["status"], content_type=one["content_type"])

    with ScriptedModelServer(answer) as server:
        host.renew(server.base_url)
        given = host.ask(call_of(schema=ANYTHING))
    assert given.error is None
    assert (given.use.mode, len(server.requests)) == ("json", 2)
