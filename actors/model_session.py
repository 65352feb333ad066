"""One piece of work with a model: calls, retries and tokens, each counted, whoever is asked.

The model host makes single calls and never repeats one. Repeating is here: failures that pass (``model_faults``), a few
times, with a growing pause or the one that the server asks for, each try against the tokens that are left.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from duly.protocol.plan.model_call import ModelCall, ModelMessage, ModelUse, Purpose, Used
from duly.protocol.plan.model_faults import TRANSIENT, pause_seconds
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError, ModelError, RuntimeFault, WireError
from duly.protocol.wire.limits import (
    MODEL_BACKOFF_SECONDS,
    MODEL_RETRIES_MAX,
    MODEL_RETRY_AFTER_SECONDS_MAX,
    MODEL_SECONDS_MAX,
)

from .model_lost import CODES, lost_error, lost_use
from .model_replay import recorded_failure
from .prompt import Prompt

_ONCE = frozenset(("model.timeout",))  # a second try may be lucky; a third would only take as long again
Sleep = Callable[[float], Awaitable[None]]


class Answered(Protocol):
    """What came of one call: what it took, the exact bytes, and a value or an error."""

    @property
    def use(self) -> ModelUse: ...
    @property
    def request(self) -> bytes: ...
    @property
    def response(self) -> bytes: ...
    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> ModelError | None: ...


class Asks(Protocol):
    """Whoever makes calls: the client of a model host, a recording, a script."""

    async def ask(self, package: str, run_id: str, call: ModelCall, mandate: bytes) -> Answered:
        """One call. Raises ``RuntimeFault`` where nobody is there to make it."""


class Session:
    """Calls of one order of the harness. ``tokens_max`` is what all of them together may take.

    ``uses`` lists every call that was made, in order, those whose host went away included. ``seed`` makes the pauses between tries repeatable.
    """

    def __init__(
        self,
        asks: Asks,
        *,
        package: str,
        run_id: str,
        mandate: bytes,
        tokens_max: int,
        sleep: Sleep = asyncio.sleep,
        seed: int = 0,
    ) -> None:
        self.uses: list[Used] = []
        self._asks = asks
        self._package = package
        self._run_id = run_id
        self._mandate = mandate
        self._tokens_max = tokens_max
        self._sleep = sleep
        self._random = random.Random(seed)

    @property
    def tokens_left(self) -> int:
        """Never below zero, whatever a server says that it took."""
        return max(0, self._tokens_max - sum(used.use.tokens for used in self.uses))

    async def ask(
        self,
        purpose: Purpose,
        prompt: Prompt,
        messages: Sequence[ModelMessage],
        schema_name: str,
        schema: dict[str, Any],
    ) -> Any:
        """The model's value, untrusted. The prompt goes first, as the system's message, before ``messages``.

        Raises ``ModelError``: ``model.budget`` where no tokens are left, else the code of the last try.
        """
        asked = partial(
            ModelCall,
            purpose=purpose,
            prompt=prompt.full_name,
            prompt_digest=prompt.digest,
            messages=[ModelMessage(role="system", text=prompt.text), *messages],
            schema_name=schema_name,
            json_schema=schema,
            seconds_max=MODEL_SECONDS_MAX,
        )
        tries = 0
        while True:
            value, error = await self._once(asked)
            if error is None:
                return value
            tries += 1
            pause = self._pause(error, tries)
            if pause is None:
                raise error
            await self._sleep(pause)

    async def _once(self, asked: Callable[..., ModelCall]) -> tuple[Any, ModelError | None]:
        """One call for what is left, noted, a lost one too: its value or its error. Raises ``ModelError``
        ``model.budget`` where nothing is left."""
        left = self.tokens_left
        if left < 1:
            raise ModelError(
                "model.budget",
                "The tokens for this call are spent.",
                hint="Give the run more with --budget model_tokens=N.",
            )
        call = asked(tokens_max=left)
        began = time.monotonic()
        try:
            answer = await self._asks.ask(self._package, self._run_id, call, self._mandate)
        except RuntimeFault as fault:
            if fault.code not in CODES:
                raise
            error = lost_error(fault)
            use = lost_use(call, error.code, int((time.monotonic() - began) * 1_000))
            self.uses.append(Used(use, call.digest(), b"", b"", recorded_failure(error)))
            return None, error
        value = _recorded(answer.value) if answer.error is None else recorded_failure(answer.error)
        self.uses.append(Used(answer.use, call.digest(), answer.request, answer.response, value))
        return answer.value, answer.error

    def _pause(self, error: DulyError, tries: int) -> float | None:
        """Seconds until the next try; ``None`` where there is to be none."""
        tries_max = 1 if error.code in _ONCE else MODEL_RETRIES_MAX
        if error.code not in TRANSIENT or tries > tries_max:
            return None
        asked = pause_seconds(error)
        if asked is not None and asked > MODEL_RETRY_AFTER_SECONDS_MAX:
            return None
        backoff = MODEL_BACKOFF_SECONDS * float(1 << (tries - 1)) * (1 + self._random.random())
        return max(backoff, float(asked or 0))


def _recorded(value: Any) -> bytes:
    """The value as a record keeps it; nothing where it has no canonical form, which whoever asked finds wrong itself."""
    try:
        return canon.encode(value)
    except WireError:
        return b""


def user(text: str) -> ModelMessage:
    """A message of the person's side: marked data (``views/slices``)."""
    return ModelMessage(role="user", text=text)
