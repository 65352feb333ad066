"""One call of a model over real HTTP: its value, what it took, the exact bytes, and the ways in which servers fail."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from duly.protocol.plan.model_faults import TRANSIENT, UnfitAnswer, pause_seconds
from duly.protocol.wire.limits import MODEL_ANSWER_BYTES_MAX
from model_host_world import SCHEMA, ModelHostWorld, call_of
from scripted_model_server import (
    Reply,
    ScriptedModelServer,
    calls,
    completion,
    cuts,
    drips,
    drops,
    floods,
    holds,
    raw,
    refuses,
    says,
)

KEY = "canary-key-0123456789"


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


@pytest.fixture
def script() -> list:
    """What the server answers, in order."""
    return []


@pytest.fixture
def server(script: list) -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer(lambda asked: script.pop(0) if script else refuses(400, "no more")) as server:
        yield server


@pytest.fixture
def world(host: ModelHostWorld, server: ScriptedModelServer) -> ModelHostWorld:
    host.renew(server.base_url, KEY)
    return host


def test_a_value_with_its_use_and_the_exact_bytes(world, server, script):
    script.append({"answer": 42})
    answer = world.ask()
    assert (answer.error, answer.value) == (None, {"answer": 42})
    assert (answer.use.model, answer.use.mode, answer.use.code) == (answer.use.model, "strict", "")
    assert (answer.use.tokens_in, answer.use.tokens_out, answer.use.cost) == (20, 10, 0)
    assert answer.request == server.requests[0].raw
    assert answer.response == says({"answer": 42}).body
    sent = server.requests[0]
    assert sent.schema == SCHEMA
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert "tools" not in sent.body
    assert sent.body["max_tokens"] == answer.use.parameters["max_tokens"]
    assert world.spent() == (30, 0)


FAILURES = {
    "429": ([refuses(429, retry_after=7)], "model.rate_limited"),
    "500": ([refuses(500)], "model.unavailable"),
    "overloaded": ([refuses(529)], "model.unavailable"),
    "dropped": ([drops()], "model.lost"),
    "cut": ([cuts({"answer": 1})], "model.lost"),
    "large": ([floods(50_000_000)], "model.answer_too_large"),
    "large without a length": ([floods(50_000_000, chunked=True)], "model.answer_too_large"),
    "wrong key": ([refuses(401)], "model.refused_key"),
    "no quota": ([refuses(429, code="insufficient_quota")], "model.refused_key"),
    "no model": (
        [refuses(404, "The model 'x' does not exist", code="model_not_found")],
        "model.unknown_model",
    ),
    "HTML": ([raw(b"<html>hello</html>", content_type="text/html")], "model.not_a_model_server"),
    "no path": ([raw(b"<h1>404</h1>", status=404, content_type="text/html")], "model.not_a_model_server"),
    "no such page in JSON": ([raw(b'{"detail": "Not Found"}', status=404)], "model.not_a_model_server"),
    "no model in few words": (
        [raw(b'{"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}', status=404)],
        "model.unknown_model",
    ),
    "no deployment": (
        [refuses(404, "The API deployment for this resource does not exist.", code="DeploymentNotFound")],
        "model.unknown_model",
    ),
    "a page for a POST": (
        [raw(b"<!DOCTYPE HTML><p>Unsupported method ('POST').</p>", status=501, content_type="text/html")],
        "model.not_a_model_server",
    ),
    "a page of a bad request": (
        [raw(b"<html><h1>400 Bad Request</h1></html>", status=400, content_type="text/html")],
        "model.not_a_model_server",
    ),
    "words of a bad request": (
        [raw(b"Bad Request", status=400, content_type="text/plain")],
        "model.not_a_model_server",
    ),
    "nothing but a bad request": ([raw(b"", status=422)], "model.not_a_model_server"),
    "not allowed": ([raw(b"Method Not Allowed", status=405)], "model.not_a_model_server"),
    "a page about a schema": (
        [raw(b" <html>Invalid schema of the form</html>", status=422)],
        "model.not_a_model_server",
    ),
    "not implemented": ([raw(b'{"error": "no such thing"}', status=501)], "model.not_a_model_server"),
    "a gateway's page": ([raw(b"<html>Bad Gateway</html>", status=502)], "model.unavailable"),
    "a gateway's limit": ([raw(b"<html>Too Many Requests</html>", status=429)], "model.rate_limited"),
    "a gateway's bound": ([raw(b"<html>Too Large</html>", status=413)], "model.context_overflow"),
    "a gateway's lock": ([raw(b"<html>Unauthorized</html>", status=401)], "model.refused_key"),
    "redirect": ([raw(b"", status=302)], "model.not_a_model_server"),
    "other JSON": ([raw(b'{"status": "up"}')], "model.not_a_model_server"),
    "empty": ([raw(b"")], "model.not_a_model_server"),
    "no choices": ([raw(b'{"id": "1", "object": "chat.completion", "choices": []}')], "model.bad_answer"),
    "choices of nothing": ([raw(b'{"choices": null}')], "model.bad_answer"),
    "overflow": (
        [refuses(400, "request (9030 tokens) exceeds the available context size (4096 tokens)")],
        "model.context_overflow",
    ),
    "truncated": ([says('{"answer": 4', finish="length")], "model.truncated"),
    "no JSON": ([says("forty-two")], "model.bad_answer"),
    "empty text": ([says("")], "model.bad_answer"),
    "wrong type": ([says({"answer": "42"})], "model.bad_answer"),
    "tool call": ([calls("sql_query", {"sql": "select 1"})], "model.bad_answer"),
    "call as text": ([says('<tool_call>{"name": "sql", "arguments": {}}</tool_call>')], "model.bad_answer"),
    "deep": ([says("[" * 100_000)], "model.bad_answer"),
    "NaN": ([says('{"answer": NaN}')], "model.bad_answer"),
    "twice": ([says('{"answer": 1, "answer": 2}')], "model.bad_answer"),
    "huge integer": ([says('{"answer": 1' + "0" * 40 + "}")], "model.bad_answer"),
    "filtered": ([says("", finish="content_filter")], "model.refusal"),
    "refusal": (
        [raw(completion({"content": None, "refusal": "I cannot help with that."}))],
        "model.refusal",
    ),
    "refused in every way": ([refuses(400), refuses(422), refuses(400)], "model.schema_refused"),
    "error with status 200": (
        [raw(b'{"error": {"code": 429, "message": "slow down"}}')],
        "model.rate_limited",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_each_failure_has_its_code(world, server, script, name):
    answers, code = FAILURES[name]
    script += answers
    answer = world.ask()
    assert answer.error is not None and answer.error.code == code
    assert (answer.value, answer.use.code) == (None, code)
    assert not script, "every answer of the script was needed"
    assert len(server.requests) == len(answers)
    assert answer.request == server.requests[-1].raw
    assert len(answer.response) <= 1_000_000


def test_a_server_that_asks_for_a_pause_is_quoted(world, script):
    script += [
        refuses(429, retry_after=7),
        refuses(503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        refuses(503),
    ]
    limited, past, silent = (world.ask().error for _ in range(3))
    assert [pause_seconds(error) for error in (limited, past, silent)] == [7, 0, None]
    assert {limited.code, past.code} <= TRANSIENT


def test_faults_name_every_place(world, script):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    script.append({"a": "1", "b": "2"})
    answer = world.ask(call_of(schema=schema))
    assert sorted(fault.path for fault in answer.error.faults) == ["/a", "/b"]


def test_a_value_that_breaks_the_schema_comes_with_all_of_its_faults_and_is_no_answer(world, script):
    wrong = {"answer": "42", "more": [1, {"a": None}]}
    script.append(f"Here it is: {json.dumps(wrong)}")
    answer = world.ask()
    assert answer.value is None
    assert (answer.error.code, answer.error.value) == ("model.bad_answer", wrong)
    assert len(answer.error.faults) == 2


def test_faults_are_bounded(world, script):
    schema = {"type": "array", "items": {"type": "integer"}}
    script.append(["x"] * 60)
    error = world.ask(call_of(schema=schema)).error
    assert [fault.path for fault in error.faults] == [f"/{number}" for number in range(50)]
    assert error.value == ["x"] * 60


@pytest.mark.parametrize(
    "text", ['{"answer": 1' + "0" * 40 + "}", '{"answer": "\\ud800"}', "[" * 31 + "{}" + "]" * 31]
)
def test_a_value_that_no_message_can_hold_is_left_out(world, script, text):
    script.append(text)
    error = world.ask().error
    assert error.code == "model.bad_answer" and len(error.faults) == 1
    assert not isinstance(error, UnfitAnswer)


def test_a_value_that_breaks_the_schema_holds_no_key(world, script):
    script.append({"answer": f"Bearer {KEY}", KEY: 1})
    answer = world.ask()
    assert isinstance(answer.error, UnfitAnswer)
    assert KEY not in repr((answer.error.value, answer.error.to_data()))


@pytest.mark.parametrize("reply", [drips(), holds()], ids=["drips for ever", "never begins"])
def test_an_answer_without_an_end_is_ended(world, script, reply):
    script.append(reply)
    answer = world.ask(call_of(seconds=1))
    assert answer.error.code == "model.timeout"
    assert answer.use.duration_ms < 5_000
    assert world.spent()[0] == answer.use.tokens > 0


def test_a_flood_without_a_length_is_left_when_it_is_too_much(world, server, script):
    """Nothing says how much will come: the host has to count, and goes away long before the end."""
    script.append(floods(1 << 30, chunked=True))
    answer = world.ask()
    assert answer.error.code == "model.answer_too_large"
    assert len(answer.response) == MODEL_ANSWER_BYTES_MAX
    assert server.gone.acquire(timeout=10)
    assert server.sent < 50_000_000
    assert world.spent()[0] == answer.use.tokens > 0


def test_a_small_answer_may_come_in_chunks(world, script):
    body = says({"answer": 5}).body
    script.append(Reply(body=body, manner="chunked"))
    assert world.ask().value == {"answer": 5}


def test_nobody_there(world):
    world.renew("http://127.0.0.1:1/v1")
    answer = world.ask()
    assert answer.error.code == "model.unreachable"
    assert answer.use.tokens == 0 and world.spent() == (0, 0)


def test_a_server_without_tls_gets_no_key(world, server):
    world.renew(server.base_url.replace("http:", "https:"), KEY)
    assert world.ask().error.code == "model.unreachable"
    assert server.requests == []


def test_all_requests_of_a_call_share_its_time(world, server, script):
    script += [refuses(400), holds()]
    answer = world.ask(call_of(seconds=1))
    assert (answer.error.code, answer.use.mode, len(server.requests)) == ("model.timeout", "json", 2)
    assert answer.use.duration_ms < 3_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Sure!\n```json\n{"answer": 7}\n```\nAnything else?', 7),
        ('I think {"answer": 8} is right.', 8),
        ('<think>{"answer": 1}? no</think>{"answer": 9}', 9),
        (' \n{"answer": 10}\n', 10),
        ('{"thought": 1} {"answer": 11}', 11),
    ],
)
def test_the_value_is_found_in_what_stands_around_it(world, script, text, value):
    script.append(text)
    assert world.ask().value == {"answer": value}


def test_the_first_of_several_choices_counts(world, script):
    body = json.loads(says({"answer": 1}).body)
    body["choices"].append({**body["choices"][0], "index": 1})
    body["choices"][1]["message"] = {"role": "assistant", "content": '{"answer": 2}'}
    script.append(raw(json.dumps(body).encode()))
    assert world.ask().value == {"answer": 1}


def test_a_value_made_by_a_tool_call_that_fits_is_taken(world, script):
    script.append(calls("count", {"answer": 3}))
    assert world.ask().value == {"answer": 3}


def test_texts_of_the_value_are_in_normal_form(world, script):
    script.append(says('{"word": "Cafe\\u0301", "zero": -0.0}'))
    schema = {"type": "object", "required": ["word"]}
    assert world.ask(call_of(schema=schema)).value == {"word": "Caf\u00e9", "zero": 0.0}


def test_a_server_that_counts_nothing_is_counted_for(world, script):
    script.append(raw(completion({"content": '{"answer": 1}'}, usage=None)))
    use = world.ask(call_of("word " * 300)).use
    assert use.tokens_in >= 500 and use.tokens_out > 0
