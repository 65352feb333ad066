"""A model that says what a script tells it, call by call, and keeps every call that it got."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from duly.actors.model_session import Session
from duly.hosts.models.answers import value_of
from duly.protocol.plan.model_call import ModelCall, ModelUse
from duly.protocol.wire.errors import DulyError, ModelError, RuntimeFault

TOKENS = 100  # what every scripted call takes
_BLOCK = re.compile(r'<data name="([a-z_]+)">\n(.*)\n</data>')


@dataclass(frozen=True)
class ScriptedAnswer:
    """What the client of a model host gives."""

    use: ModelUse
    request: bytes
    response: bytes
    value: Any = None
    error: ModelError | None = None


@dataclass
class ScriptedModel:
    """Gives the next of ``script`` to each call: a value, an error, or a function of the call that gives one of them.

    A value is judged as the model host judges it, under the schema of the call.
    """

    script: list[Any]
    tokens: int = TOKENS
    calls: list[ModelCall] = field(default_factory=list)

    async def ask(self, package: str, run_id: str, call: ModelCall, mandate: bytes) -> ScriptedAnswer:
        assert self.script, "the script is over, and the model is asked again"
        self.calls.append(call)
        word = self.script.pop(0)
        said = word(call) if callable(word) else word
        if isinstance(said, RuntimeFault):
            raise said
        written = "" if isinstance(said, DulyError) else json.dumps(said)
        value = None
        if written:
            try:
                value = value_of(written, (), call.json_schema, cut=False)
            except ModelError as problem:
                said = problem
        failed = isinstance(said, DulyError)
        use = ModelUse(
            purpose=call.purpose,
            prompt=call.prompt,
            prompt_digest=call.prompt_digest,
            model="scripted:one",
            mode="strict",
            tokens_in=self.tokens,
            code=said.code if failed else "",
        )
        request = json.dumps([message.text for message in call.messages]).encode()
        if failed:
            return ScriptedAnswer(use, request, written.encode(), error=said)
        return ScriptedAnswer(use, request, written.encode(), value=value)

    def prompts(self) -> list[str]:
        """What the model was given in each call, beside the prompt file."""
        return ["\n".join(message.text for message in call.messages[1:]) for call in self.calls]


@dataclass
class Pauses:
    """Stands for sleeping: remembers how long, and takes no time."""

    seconds: list[float] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[Any]] | None = None  # what happens in each pause

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.meanwhile is not None:
            await self.meanwhile()


def session(model: ScriptedModel, *, tokens_max: int = 100_000, sleep: Any = None) -> Session:
    return Session(
        model,
        package="0" * 64,
        run_id="r1",
        mandate=b"",
        tokens_max=tokens_max,
        sleep=sleep or Pauses(),
        seed=7,
    )


def scripted(*script: Any) -> tuple[Session, ScriptedModel]:
    """A session with a model that gives these, one a call."""
    model = ScriptedModel(list(script))
    return session(model), model


def blocks(text: str) -> dict[str, Any]:
    """The marked data of a prompt by name, as whoever reads the marks line by line finds it.

    Fails where anything stands outside of the marks, or where a name stands twice.
    """
    found: dict[str, Any] = {}
    lines = text.split("\n")
    assert len(lines) % 3 == 0, text[:500]
    for index in range(0, len(lines), 3):
        match = _BLOCK.fullmatch("\n".join(lines[index : index + 3]))
        assert match is not None, lines[index : index + 3]
        assert match[1] not in found
        found[match[1]] = json.loads(match[2])
    return found


def faults_told(text: str) -> list[dict[str, str]]:
    """Every fault of earlier attempts that a prompt tells."""
    return [fault for one in blocks(text).get("earlier_attempts", []) for fault in one["faults"]]
