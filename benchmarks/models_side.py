"""One schema-constrained call of a model in three ways: duly's, a bare HTTP request, and the client library by itself.

duly's goes as a run's goes: a ``Session`` over the socket of the planner's model host, a process of its own, which checks
the person's mandate, books the call in its ledger, calls, holds the answer against the schema and settles. The bare
request sends the same bytes over a connection that stays open and reads the JSON out of the answer. The library is the
one that the model host uses, called in this process with the same texts and schema.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import planner_prompt
from instant_model import NAME, InstantModel
from own_runtime import OwnRuntime
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelRequestPart, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from duly.actors.model_session import Session, user
from duly.actors.prompt import Prompt, load
from duly.cli import mandate, person
from duly.cli.mandate import Order
from duly.hosts.models.client import ModelHostClient
from duly.protocol.plan.model_call import Purpose
from duly.protocol.plan.request import new_request

WARMING_CALLS = 10
TOKENS = 1_000_000_000  # of the mandate: a budget is checked at each call, and never the end of this
PLAN_TOOLS = 20
_REASON: dict[str, Any] = {"id": "s1", "kind": "reason", "objective": "Look.", "reads": []}
ANSWERS: dict[str, Any] = {
    "count": {"answer": 1},
    "draft": {
        "steps": [{**_REASON, "gives": [{"name": "seen", "type": "string"}]}],
        "report_step": None,
        "allow_partial": False,
    },
}
Way = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked: the texts, and the schema by its name, which tells the server what to answer."""

    purpose: Purpose
    prompt: Prompt
    message: str
    name: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of every call by way, and the size of the body (the library's own is about as long)."""

    seconds: dict[str, list[float]]
    body_bytes: int


def small() -> Asked:
    """A reason step over nothing: some hundreds of bytes, one number back."""
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return Asked("reason", load("planner", "reason"), "How many are there?", "count", schema)


def draft() -> Asked:
    """The draft of a plan over ``PLAN_TOOLS`` tools."""
    call = planner_prompt.draft_of(PLAN_TOOLS).call
    message = planner_prompt.message_of(call)
    return Asked("plan", load("planner", "plan"), message, "draft", call.json_schema)


def timed(runtime: OwnRuntime, model: InstantModel, asked: Asked, calls: int) -> Timed:
    """So many calls in each way, taken alternately, after some that warm."""
    return asyncio.run(_timed(runtime, model, asked, calls))


async def _timed(runtime: OwnRuntime, model: InstantModel, asked: Asked, calls: int) -> Timed:
    host = ModelHostClient(str(runtime.home.socket_path("model-planner")))
    line = http.client.HTTPConnection("127.0.0.1", model.port, timeout=60)
    ours = _Duly(runtime, host, asked)
    expected = ANSWERS[asked.name]
    try:
        await ours()  # the first call of a host imports its client library
        ways: dict[str, Way] = {
            "raw": _raw(line, ours.body),
            "library": _library(model.base_url, asked),
            "duly": ours,
        }
        rows: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(WARMING_CALLS + calls):
            for name, way in ways.items():
                began = time.perf_counter()
                value = await way()
                took = time.perf_counter() - began
                if value != expected:
                    raise RuntimeError(f"the model said something else: {value}")
                if number >= WARMING_CALLS:
                    rows[name].append(took)
    finally:
        line.close()
        await host.close()
    return Timed(rows, len(ours.body))


class _Duly:
    """A call through duly; ``body`` holds what its host sent last."""

    def __init__(self, runtime: OwnRuntime, host: ModelHostClient, asked: Asked) -> None:
        order = Order(planning="always", budget={"model_tokens": TOKENS})
        request = new_request("Measure what a call of a model costs.")
        signed = mandate.draft(runtime.package, request, order, None)
        self._mandate = signed.sign(person.key_of(runtime.home)())
        self._run_id = signed.run_id
        self._package = runtime.package.digest
        self._host = host
        self._asked = asked
        self.body = b""

    async def __call__(self) -> Any:
        session = Session(
            self._host, package=self._package, run_id=self._run_id, mandate=self._mandate, tokens_max=100_000
        )
        one = self._asked
        value = await session.ask(one.purpose, one.prompt, [user(one.message)], one.name, one.schema)
        self.body = session.uses[0].request
        return value


def _raw(line: http.client.HTTPConnection, body: bytes) -> Way:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}

    async def call() -> Any:
        line.request("POST", "/v1/chat/completions", body, headers)
        answer = json.loads(line.getresponse().read())
        return json.loads(answer["choices"][0]["message"]["content"])

    return call


def _library(base_url: str, asked: Asked) -> Way:
    profile = OpenAIModelProfile(supports_json_schema_output=True, json_schema_transformer=None)
    provider = OpenAIProvider(base_url=base_url, api_key="none")
    model = OpenAIChatModel(NAME.partition(":")[2], provider=provider, profile=profile)
    wanted = OutputObjectDefinition(json_schema=asked.schema, name=asked.name, strict=True)
    parameters = ModelRequestParameters(output_mode="native", output_object=wanted)
    settings = ModelSettings(max_tokens=16_384, temperature=0)

    async def call() -> Any:
        texts: list[ModelRequestPart] = [SystemPromptPart(asked.prompt.text), UserPromptPart(asked.message)]
        response = await model_request(
            model,
            [ModelRequest(parts=texts)],
            model_settings=settings,
            model_request_parameters=parameters,
        )
        return json.loads("".join(one.content for one in response.parts if isinstance(one, TextPart)))

    return call
