"""A model server that breaks on purpose and judges its clients: every fault ends well, and its verdict has no failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from duly.actors.model_session import Session, user
from duly.actors.prompt import Prompt
from duly.hosts.models.client import ModelHostClient
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.ids import digest_bytes
from model_host_world import SCHEMA, ModelHostWorld

llmock = pytest.importorskip("llmock", reason="llmock is not installed")
scenarios = pytest.importorskip("llmock.scenarios")
testing = pytest.importorskip("llmock.testing")
verdict = pytest.importorskip("llmock.verdict")

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
        return outcome, codes, verdict.judge(server.state.journal.records())


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
    "words": ([scenarios.Reply(text="Forty-two.")], "model.bad_answer", ["model.bad_answer"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_ends_well_and_the_client_is_well_behaved(host, name):
    behaviours, outcome, codes = FAULTS[name]
    found, called, judged = asked(host, *behaviours)
    assert (found, called) == (outcome, codes)
    assert judged.passed, judged.render()
    assert judged.attempts == len(codes)
