"""Servers differ in how they can be asked for JSON: each is asked in the firmest way it takes, and that is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duly.hosts.models.answers import heeds
from model_host_world import SCHEMA, ModelHostWorld, call_of
from scripted_model_server import Asked, ScriptedModelServer, raw, refuses, says

GOOD = {"answer": 1}
OTHER = {"type": "object", "properties": {"other": {"type": "integer"}}}


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def way_of(asked: Asked) -> str:
    """How a request asks for JSON."""
    return {"json_schema": "strict", "json_object": "json", None: "text"}[
        asked.body.get("response_format", {}).get("type")
    ]


def server_that_takes(*ways: str, status: int = 400, words: str = "unknown field") -> ScriptedModelServer:
    return ScriptedModelServer(lambda asked: GOOD if way_of(asked) in ways else refuses(status, words))


@pytest.mark.parametrize(
    ("ways", "asked"),
    [
        (("strict",), ["strict"]),
        (("json", "text"), ["strict", "json"]),
        (("text",), ["strict", "json", "text"]),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_the_firmest_way_that_the_server_takes(host, ways, asked, status):
    with server_that_takes(*ways, status=status) as server:
        host.renew(server.base_url)
        answer = host.ask()
    assert answer.value == GOOD
    assert [way_of(one) for one in server.requests] == asked
    assert answer.use.mode == asked[-1]
    assert [one["mode"] for one in answer.use.parameters.get("refused", [])] == asked[:-1]
    assert answer.request == server.requests[-1].raw
    shown = '"required":["answer"]' in server.requests[-1].texts
    assert shown == (asked[-1] != "strict"), "the schema stands in the prompt where nothing else tells it"


def test_what_one_schema_could_not_do_another_may(host):
    def answer(asked: Asked) -> Any:
        deep = asked.schema is not None and "answer" in asked.schema["properties"]
        return refuses(400, "grammar too complex") if deep else {"other": 1, **GOOD}

    with ScriptedModelServer(answer) as server:
        host.renew(server.base_url)
        loose = {**SCHEMA, "additionalProperties": True}
        answers = host.ask_all([call_of(schema=loose), call_of(schema=OTHER), call_of(schema=loose)])
    assert [one.use.mode for one in answers] == ["json", "strict", "json"]
    assert [way_of(one) for one in server.requests] == ["strict", "json", "strict", "json"]


def test_a_way_that_failed_for_two_schemas_is_left_alone(host):
    with server_that_takes("json") as server:
        host.renew(server.base_url)
        schemas = [{**SCHEMA, "title": title} for title in "abc"]
        host.ask_all([call_of(schema=schema) for schema in schemas])
    assert [way_of(one) for one in server.requests] == ["strict", "json", "strict", "json", "json"]


def test_a_server_that_says_it_with_a_500(host):
    with server_that_takes(
        "json", status=500, words="body.response_format.type: not 'json_schema'"
    ) as server:
        host.renew(server.base_url)
        assert host.ask().use.mode == "json"


def test_a_server_that_says_in_plain_text_what_it_cannot_read(host):
    words = b"Failed to deserialize the JSON body: response_format.type: unknown variant `json_schema`"

    def answer(asked: Asked) -> Any:
        strict = way_of(asked) == "strict"
        return raw(words, status=422, content_type="text/plain") if strict else GOOD

    with ScriptedModelServer(answer) as server:
        host.renew(server.base_url)
        assert host.ask().use.mode == "json"


@pytest.mark.parametrize(("status", "ends"), [(501, "model.schema_refused"), (400, "model.schema_refused")])
def test_a_server_without_any_way_to_give_json(host, status, ends):
    with server_that_takes(status=status, words="response_format is not supported") as server:
        host.renew(server.base_url)
        assert host.ask().error.code == ends
    assert len(server.requests) == 3


def test_an_outage_is_no_refusal(host):
    with server_that_takes("json", status=500, words="out of memory") as server:
        host.renew(server.base_url)
        assert host.ask().error.code == "model.unavailable"
    assert len(server.requests) == 1


def test_a_server_that_pays_no_heed_gets_the_schema_into_the_prompt_next_time(host):
    with ScriptedModelServer(lambda asked: "Hello!" if way_of(asked) == "strict" else GOOD) as server:
        host.renew(server.base_url)
        first, second = host.ask_all([call_of(), call_of()])
    assert (first.error.code, second.value) == ("model.bad_answer", GOOD)
    assert '"required":["answer"]' in server.requests[1].texts


@pytest.mark.parametrize(
    ("text", "heeded"), [('{"answer": "x"}', True), ("{}", False), ("[1]", False), ("hello", False)]
)
def test_what_shows_that_a_server_has_heard_of_the_schema(text, heeded):
    assert heeds(text, SCHEMA) is heeded


LIMITS = {
    "This model's maximum context length is 4096 tokens. However, you requested 5031 tokens (31 in the messages, "
    "5000 in the completion).": 4096 - 31 - 1,
    "'max_tokens' is too large: 5000. This model's maximum context length is 2048 tokens and your request has 48 input "
    "tokens (5000 > 2048 - 48).": 2048 - 48 - 1,
    "max_tokens is too large: 5000. This model supports at most 1024 completion tokens": 1024,
    "max_tokens: 5000 > 900, which is the maximum allowed number of output tokens": 900,
    "`max_tokens` must be less than or equal to `512`": 512,
}


@pytest.mark.parametrize("words", LIMITS)
def test_an_answer_may_be_as_long_as_the_server_says(host, words):
    with ScriptedModelServer([refuses(400, words), GOOD]) as server:
        host.renew(server.base_url)
        answer = host.ask(call_of(tokens=6_000))
    assert answer.value == GOOD
    assert server.requests[1].body["max_tokens"] == LIMITS[words]
    assert (answer.use.mode, answer.use.parameters["max_tokens"]) == ("strict", LIMITS[words])


def test_words_that_a_model_does_not_know_are_left_out(host):
    script = [
        refuses(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        refuses(400, "Unsupported value: 'temperature' does not support 0, only the default (1) value."),
        GOOD,
        GOOD,
    ]
    with ScriptedModelServer(script) as server:
        host.renew(server.base_url)
        first, second = host.ask_all([call_of(), call_of()])
    assert (first.value, second.value, len(server.requests)) == (GOOD, GOOD, 4)
    assert "temperature" not in second.use.parameters
    last = server.requests[-1].body
    assert "temperature" not in last and "max_tokens" not in last and last["max_completion_tokens"] > 0
    assert way_of(server.requests[-1]) == "strict"


def test_a_server_that_refuses_for_ever_is_not_asked_for_ever(host):
    with ScriptedModelServer(lambda asked: refuses(400, "Unsupported value: 'temperature'")) as server:
        host.renew(server.base_url)
        assert host.ask().error.code == "model.schema_refused"
    assert len(server.requests) <= 6


@pytest.mark.parametrize(
    ("ways", "mode"), [(("strict",), "strict"), (("json",), "json"), (("text",), "text")]
)
def test_check_says_what_the_server_can_do(host, ways, mode):
    def answer(asked: Asked) -> Any:
        return {"bird": "heron"} if way_of(asked) in ways else refuses(400)

    with ScriptedModelServer(answer) as server:
        model = host.renew(server.base_url)
        told = host.talk(lambda client: client.check(host.package))
    assert told == {"model": model, "mode": mode}
    assert "heron" not in server.requests[0].texts, "nothing but the schema leads to the answer"


def test_check_notices_a_server_that_pays_no_heed(host):
    def answer(asked: Asked) -> Any:
        return {"bird": "heron"} if "heron" in asked.texts else says("Hello!")

    with ScriptedModelServer(answer) as server:
        host.renew(server.base_url)
        assert host.talk(lambda client: client.check(host.package))["mode"] == "json"


def test_check_of_a_wrong_key(host):
    with ScriptedModelServer([], key="right-key-of-it") as server:
        model = host.renew(server.base_url, "wrong-key-of-it")
        told = host.talk(lambda client: client.check(host.package))
    assert (told["model"], told["mode"], told["error"]["code"]) == (model, "", "model.refused_key")
