"""Providers with a language of their own go through the same transport: bounded, recorded, one request a call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from duly.hosts.models.asker import Asker
from duly.hosts.models.attempt import Attempt
from duly.hosts.models.settings import Setting
from duly.protocol.wire.errors import ModelError
from model_host_world import call_of
from scripted_model_server import Asked, Reply, ScriptedModelServer, drops, floods, raw, refuses

KEY = "key-of-the-provider"
ANTHROPIC = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": '{"answer": 4}'}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 11, "output_tokens": 5},
}
GOOGLE = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": '{"answer": 4}'}]}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16},
    "modelVersion": "gemini",
}
PROVIDERS = {
    "anthropic:claude-sonnet-4-5": ("anthropic", ANTHROPIC),
    "google:gemini-2.5-flash": ("google.genai", GOOGLE),
}


def asked(model: str, answer: Any) -> tuple[Attempt, Any, list[Asked]]:
    """One call: the attempt, its value or its error, and what the server was asked."""

    async def call(base_url: str) -> tuple[Attempt, Any]:
        asker, attempt = Asker(), Attempt(call_of(), answer_tokens=1_000)
        try:
            return attempt, await asker.ask(Setting(model, base_url, KEY, "here"), attempt)
        except ModelError as problem:
            return attempt, problem
        finally:
            await asker.close()

    with ScriptedModelServer(lambda request: answer) as server:
        attempt, outcome = asyncio.run(call(server.base_url.removesuffix("/v1")))
    return attempt, outcome, server.requests


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_value_from_another_language(model):
    module, body = PROVIDERS[model]
    pytest.importorskip(module, reason=f"the client of {model.partition(':')[0]} is not installed")
    attempt, value, requests = asked(model, raw(json.dumps(body).encode()))
    assert value == {"answer": 4}
    assert (attempt.tokens_in, attempt.tokens_out, attempt.mode) == (11, 5, "strict")
    assert any(KEY in value for value in requests[0].headers.values())
    assert KEY.encode() not in attempt.exchange.request
    assert attempt.exchange.request == requests[0].raw


FAILURES: dict[str, Reply] = {
    "model.rate_limited": refuses(429, retry_after=3),
    "model.refused_key": refuses(401),
    "model.unavailable": refuses(503),
    "model.lost": drops(),
    "model.answer_too_large": floods(5_000_000),
    "model.not_a_model_server": raw(b"<html>", content_type="text/html"),
}


@pytest.mark.parametrize("code", FAILURES)
@pytest.mark.parametrize("model", PROVIDERS)
def test_failures_have_the_same_codes_and_no_library_tries_again(model, code):
    pytest.importorskip(
        PROVIDERS[model][0], reason=f"the client of {model.partition(':')[0]} is not installed"
    )
    _, outcome, requests = asked(model, FAILURES[code])
    assert isinstance(outcome, ModelError) and outcome.code == code
    assert len(requests) == 1


def test_prices_are_known_for_a_providers_own_address_only():
    asker = Asker()
    own = Setting("openai:gpt-4o-mini", "", KEY, "here")
    assert asker.cost_of(own, 1_000_000, 0) > 0
    assert asker.cost_of(own, 1, 0) >= 1, "rounded up: a call is never free where a price is known"
    assert asker.cost_of(Setting("openai:gpt-4o-mini", "http://mine/v1", KEY, "here"), 1_000_000, 0) == 0
    assert asker.cost_of(Setting("openai:never-heard-of", "", KEY, "here"), 1_000_000, 0) == 0
    asyncio.run(asker.close())
