"""A model server that breaks on purpose and judges its clients: every fault ends well, and its verdict has no failure.

Its faults of streams and of offered tools cannot happen to duly, which neither streams nor offers a tool, nor asks for
several answers at once: they wait for a request that does, and every request here is looked at for that.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from duly.actors.model_session import Session, user
from duly.actors.prompt import Prompt
from duly.hosts.models.client import ModelHostClient
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.ids import digest_bytes
from model_host_world import SCHEMA, ModelHostWorld


def brought(name: str) -> Any:
    """A part of llmock. In CI one that is missing is a fault; elsewhere its tests skip."""
    if os.environ.get("CI") == "true":
        return importlib.import_module(name)
    return pytest.importorskip(name, reason="llmock is not installed")


scenarios, testing, verdict = (brought(f"llmock.{name}") for name in ("scenarios", "testing", "verdict"))
ASKED_FOR_MORE = {"stream", "stream_options", "tools", "tool_choice", "functions", "n"}
GOOD = json.dumps({"answer": 1})
PROMPT = Prompt("test", "v1", "You count.", digest_bytes("model.prompt", b"You count."))


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def asked(host: ModelHostWorld, *behaviours: Any, tokens: int = 20_000) -> tuple[Any, list[str], Any]:
    """One request of a planner, with its retries: the value or the error, the codes of all calls, the verdict."""
    with testing.LLMockServer() as server:
        for one in behaviours:
            server.state.scenarios.add(one)
        host.renew(server.base_url("openai"), "some-key-of-it")

        async def told(client: ModelHostClient) -> tuple[Any, list[str]]:
            session = Session(
                client, package=host.package, run_id=host.run_id, mandate=host.mandate(), tokens_max=tokens
            )
            try:
                outcome = await session.ask("reason", PROMPT, [user("How many?")], "count", SCHEMA)
            except ModelError as problem:
                outcome = problem.code
            assert sum(used.use.tokens for used in session.uses) <= tokens
            return outcome, [used.use.code for used in session.uses]

        outcome, codes = host.talk(told)
        records = server.state.journal.records()
        assert len(records) == len(codes)
        assert not any(one.body.get(name) for one in records for name in ASKED_FOR_MORE)
        assert not any(one.stream for one in records)
        return outcome, codes, verdict.judge(records)


reply = scenarios.Reply(text=GOOD)
FAULTS: dict[str, tuple[list[Any], Any, list[str]]] = {
    "nothing": ([reply], {"answer": 1}, [""]),
    "429 with Retry-After": (
        [scenarios.Fail(429, retry_after=1), reply],
        {"answer": 1},
        ["model.rate_limited", ""],
    ),
    "outage": ([scenarios.Fail(503), reply], {"answer": 1}, ["model.unavailable", ""]),
    "overloaded twice": (
        [scenarios.Fail(529, times=2), reply],
        {"answer": 1},
        ["model.unavailable", "model.unavailable", ""],
    ),
    "outage for good": (
        [scenarios.Fail(500, times=None)],
        "model.unavailable",
        ["model.unavailable"] * 4,
    ),
    "wrong key": ([scenarios.Fail(401)], "model.refused_key", ["model.refused_key"]),
    "no model": (
        [scenarios.Fail(404, code="model_not_found", message="The model does not exist")],
        "model.unknown_model",
        ["model.unknown_model"],
    ),
    "context overflow": (
        [scenarios.Fail(400, code="context_length_exceeded", message="maximum context length is 16 tokens")],
        "model.context_overflow",
        ["model.context_overflow"],
    ),
    "tool call": (
        [scenarios.Reply(tool_calls=(scenarios.ToolCall("get_weather", {"city": "Paris"}),))],
        "model.bad_answer",
        ["model.bad_answer"],
    ),
    "cut off": (
        [scenarios.Reply(text='{"answer": ', finish_reason="length")],
        "model.truncated",
        ["model.truncated"],
    ),
    "a while": ([scenarios.Delay(0.3), reply], {"answer": 1}, [""]),
    "a call in words": (
        [scenarios.Reply(text='<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>')],
        "model.bad_answer",
        ["model.bad_answer"],
    ),
    "a call as the value": (
        [scenarios.Reply(text='{"name": "get_weather", "arguments": {"city": "Paris"}}')],
        "model.bad_answer",
        ["model.bad_answer"],
    ),
    "faults that wait for a stream or a tool": (
        [
            scenarios.StreamFault("truncate"),
            scenarios.ToolFault("unknown_tool"),
            scenarios.ToolFault("malformed_arguments"),
            reply,
        ],
        {"answer": 1},
        [""],
    ),
    "words": ([scenarios.Reply(text="Forty-two.")], "model.bad_answer", ["model.bad_answer"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_ends_well_and_the_client_is_well_behaved(host, name):
    behaviours, outcome, codes = FAULTS[name]
    found, called, judged = asked(host, *behaviours)
    assert (found, called) == (outcome, codes)
    assert judged.passed, judged.render()
    assert judged.attempts == len(codes)
