"""A key goes to the model's server and nowhere else: not into a record, an error, a process listing or a file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.hosts.models.mask import MARK, Mask
from duly.protocol.wire import canon
from key_forms import echo_of, forms_in, forms_of
from model_host_world import ModelHostWorld, call_of
from scripted_model_server import ScriptedModelServer, raw, refuses, says

KEY = "sk-CANARY/0+9=key~of.mine"


def holds_key(data: bytes) -> list[bytes]:
    return forms_in(data, KEY)


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    """Its key comes from the supervisor, as in a real installation; the tests' own files hold no key."""
    with (
        ScriptedModelServer(lambda asked: next(_script)) as server,
        ModelHostWorld(model="openai:scripted", base_url=server.base_url, api_key=KEY) as world,
    ):
        world.server = server
        yield world


_script: Iterator[object] = iter(())


def played(*answers: object) -> None:
    global _script
    _script = iter(answers)


ECHOES = {
    "error": lambda text: refuses(401, f"Incorrect API key provided: {text}"),
    "error as text": lambda text: raw(text.encode(), status=400, content_type="text/plain"),
    "outage": lambda text: refuses(503, text),
    "overflow": lambda text: refuses(400, f"context length: {text}"),
    "no JSON": lambda text: says(text),
    "value": lambda text: says({"answer": text}),
    "page": lambda text: raw(f"<p>{text}".encode(), content_type="text/html"),
    "escaped": lambda text: raw(
        says({"answer": text}).body.replace(b"CANARY", b"\\u0043\\u0041NARY"),
    ),
    "redirect": lambda text: raw(text.encode(), status=307),
}


@pytest.mark.parametrize("name", ECHOES)
def test_a_key_that_a_server_sends_back_is_taken_out(host, name):
    text = echo_of(KEY)
    assert len(holds_key(text.encode())) == len(forms_of(KEY))
    played(*[ECHOES[name](text)] * 6)
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    answer = host.ask(call_of(schema=schema))
    told = answer.error.to_data() if answer.error is not None else answer.value
    seen = [
        answer.request,
        answer.response,
        canon.encode(told),
        json.dumps(told).encode(),
        str(told).encode(),
    ]
    assert [holds_key(one) for one in [*seen, str(answer.use).encode()]] == [[]] * 6
    assert host.server.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_the_key_is_in_no_file_no_listing_and_no_environment(host):
    played(refuses(500, KEY), refuses(401, KEY), {"answer": 1})
    for _ in range(3):
        host.ask()
    files = [path for path in host.home.rglob("*") if path.is_file()]
    assert any(path.name == "spent" for path in files)
    seen = [path.read_bytes() for path in files]
    for entry in ("cmdline", "environ"):
        seen.append(Path(f"/proc/{host.process.pid}/{entry}").read_bytes())
    assert [holds_key(one) for one in seen] == [[]] * len(seen)


def test_a_redirect_is_not_followed(host):
    with ScriptedModelServer([]) as thief:
        played(raw(b"", status=307))
        before = len(host.server.requests)
        assert host.ask().error.code == "model.not_a_model_server"
        assert (len(host.server.requests), thief.requests) == (before + 1, [])


def test_the_key_of_a_prompt_is_not_recorded_either(host):
    played({"answer": 1})
    assert holds_key(host.ask(call_of(f"My key is {KEY}.")).request) == []


KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=60)


@given(KEYS, st.binary(max_size=9), st.binary(max_size=9))
def test_no_form_of_a_key_survives(key, before, after):
    mask = Mask(key)
    data = key.encode()
    for form in (
        data,
        base64.b64encode(before + data + after),
        data.hex().encode(),
        quote(key, safe="").encode(),
    ):
        clean = mask.bytes(before + form + after)
        assert MARK.encode() in clean
        assert data not in clean
    assert key not in mask.text(f"x{key}y")
    assert key not in str(mask.value({key: [key, {"a": key}]}))


@given(st.binary(max_size=200))
def test_what_holds_no_key_is_left_as_it_is(data):
    assert Mask("a-key-that-is-not-there").bytes(data) == data
    assert Mask("none").bytes(data) == data
