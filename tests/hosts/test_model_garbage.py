"""Completions with anything in any place: a value that is valid, or an error with a code of its own; never a crash."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.hosts.models.answers import value_of
from duly.hosts.models.exchange import Exchange
from duly.hosts.models.mask import Mask
from duly.hosts.models.refusals import error_of, lesson_of
from duly.hosts.models.settings import Setting
from duly.protocol.plan import schema as schemas
from duly.protocol.wire.errors import ModelError
from model_host_world import SCHEMA, ModelHostWorld, call_of
from scripted_model_server import ScriptedModelServer, raw, says

ODD = (None, "", "x", 0, -1, 1 << 70, 1.5, True, [], {}, [None], {"a": 1}, "\ud800")
SETTING = Setting("openai:m", "http://h/v1", "", "here")


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from _places(item, (*at, name))


def _with(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    if not place:
        return odd
    changed = copy.deepcopy(value)
    inner = changed
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = odd
    return changed


def test_a_completion_with_something_odd_in_any_place(host):
    body = json.loads(says({"answer": 1}).body)
    odd = [_with(body, place, one) for place in _places(body) for one in ODD]
    replies = iter([raw(json.dumps(one).encode()) for one in odd])
    ends = set()
    with ScriptedModelServer(lambda asked: next(replies)) as server:
        for _ in range(0, len(odd), 40):
            host.renew(server.base_url)
            order = host.mandate(budget={"model_tokens": 1 << 60})
            for answer in host.ask_all([call_of()] * min(40, len(odd) - len(server.requests)), mandate=order):
                ends.add("value" if answer.error is None else answer.error.code)
                assert answer.error is not None or answer.value == {"answer": 1}
                assert answer.use.tokens_in <= 10_000_000 and answer.use.tokens_out <= 10_000_000
    assert len(server.requests) == len(odd) > 200
    assert ends <= {
        "value",
        "model.bad_answer",
        "model.not_a_model_server",
        "model.refusal",
        "model.truncated",
    }


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=2), st.booleans())
def test_any_text_is_a_valid_value_or_a_model_error(text, calls, cut):
    try:
        value = value_of(text, calls, SCHEMA, cut=cut)
    except ModelError as problem:
        assert problem.code in ("model.bad_answer", "model.truncated")
    else:
        assert schemas.faults_of(value, SCHEMA, "", "x") == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, st.text("{}[]\"'`\\ \nab", max_size=40), st.text("{}[]\"'`\\ \nab", max_size=40))
def test_any_json_with_anything_around_it_ends(value, before, after):
    loose: dict[str, Any] = {}
    try:
        found = value_of(before + json.dumps(value) + after, [], loose, cut=False)
    except ModelError as problem:
        assert problem.code == "model.bad_answer"
    else:
        json.dumps(found)


@given(
    st.integers(100, 599),
    st.binary(max_size=400) | JSON.map(lambda value: json.dumps(value).encode()),
    st.text(max_size=30),
)
def test_any_refusal_becomes_an_error_that_can_be_told(status, body, pause):
    exchange = Exchange(Mask(""), b"", True, status, {"retry-after": pause}, body)
    lesson_of(exchange, "strict", 1_000)
    error = error_of(exchange, SETTING)
    assert error.code.startswith("model.")
    assert len(str(error)) < 1_000 and all(line.isprintable() for line in error.story)


def test_many_brackets_take_no_time():
    for text in ("[" * 500_000, "{" * 500_000, '{"a":' * 100_000, "```\n" * 100_000, "<think>" * 100_000):
        with pytest.raises(ModelError):
            value_of(text, [text], SCHEMA, cut=False)
