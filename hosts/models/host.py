"""A model host without its socket: whose calls it makes, and what they may take. ``server`` puts it on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.protocol.authority.mandate import Mandate
from duly.protocol.plan import schema as schemas
from duly.protocol.plan.model_call import ModelCall
from duly.protocol.plan.model_faults import UnfitAnswer
from duly.protocol.wire import canon
from duly.protocol.wire.errors import AuthorityError, DulyError, ModelError, PlanError, WireError
from duly.protocol.wire.limits import (
    COST_DEFAULT,
    FRAME_BYTES_MAX,
    MODEL_ANSWER_TOKENS_MAX,
    MODEL_ANSWER_TOKENS_MIN,
    MODEL_CALLS_AT_ONCE_MAX,
    MODEL_TOKENS_DEFAULT,
)

from .. import secrets
from ..admission import CLOCK_SKEW_MS, by_id
from ..framing import Message
from .attempt import Attempt
from .config import ModelHostConfig
from .ended import EndedRuns
from .ledger import RunLedger
from .settings import Setting, Settings

if TYPE_CHECKING:
    from .asker import Asker

_PER_TOKENS = 1_000_000  # prices are linear enough; asked for so many, rounding does not matter


class ModelHost:
    """One role. Calls of one run come one after the other, a few runs at once."""

    def __init__(self, config: ModelHostConfig) -> None:
        self._config = config
        self._settings = Settings(config)
        self._ledger = RunLedger(Path(config.ledger))
        self._ledger.drop_expired(_now_ms())
        self._ended = EndedRuns()
        self._at_once = asyncio.Semaphore(MODEL_CALLS_AT_ONCE_MAX)
        self._turns: dict[str, asyncio.Lock] = {}
        self._calls: dict[str, set[asyncio.Task[Any]]] = {}
        self._asker: Asker | None = None
        self._warming: asyncio.Future[None] | None = None

    async def close(self) -> None:
        for run_id in list(self._calls):
            self.cancel(run_id)
        if self._asker is not None:
            await self._asker.close()

    def hello(self) -> Message:
        """Who this is."""
        return {"host": self._config.role, "pid": os.getpid()}

    def which(self, package: str) -> Message:
        """The model that a call for this package would go to, ``""`` for none. Where there is one, a call will follow:
        the client library is imported meanwhile, which takes most of a second."""
        named = self._settings.named(package)
        if named and self._warming is None and self._asker is None:
            self._warming = asyncio.get_running_loop().run_in_executor(None, _warm)
        return {"model": named}

    async def ask(self, message: Message) -> tuple[Message, list[bytes]]:
        """One call: what it took, its value or its error, and the exact bytes of the last request and answer."""
        call = ModelCall.from_data(
            message.get("call"), error=WireError, code="wire.bad_body", what="The call"
        )
        run_id = str(message.get("run_id"))
        attempt = Attempt(call)
        work = asyncio.create_task(
            self._made(attempt, str(message.get("package")), run_id, message.get("mandate"))
        )
        with self._listed(run_id, work):
            try:
                await asyncio.wait((work,))
            finally:
                work.cancel()  # of use only where nobody waits for this any more
            with contextlib.suppress(asyncio.CancelledError):
                await work
        return self._answer(attempt)

    def cancel(self, run_id: str, ended_until_ms: int = 0) -> int:
        """Ends the calls of a run, those that wait for their turn included; gives how many.

        With ``ended_until_ms`` the run itself has ended, and its mandate expires then: whoever has not heard of it yet, and
        tries a call of it again, is refused. Without, the run goes on and may ask anew.
        """
        if ended_until_ms > 0:
            self._ended.add(run_id, ended_until_ms, _now_ms())
        tasks = [task for task in self._calls.get(run_id, ()) if not task.done()]
        for task in tasks:
            task.cancel()
        return len(tasks)

    async def check(self, package: str) -> Message:
        """Makes one small call and tells the way in which the server can be asked for JSON."""
        from .checking import check

        name = self._settings.named(package)
        try:
            setting = self._settings.of(package)
            async with self._at_once:
                return {"model": setting.model, "mode": await check(self._loaded(), setting)}
        except DulyError as problem:
            return {"model": name, "mode": "", "error": problem.to_data()}

    async def _made(self, attempt: Attempt, package: str, run_id: str, mandate: object) -> None:
        try:
            async with self._turns.setdefault(run_id, asyncio.Lock()), self._at_once:
                await self._asked(attempt, package, run_id, mandate)
        except asyncio.CancelledError:
            attempt.error = ModelError("model.cancelled", "The call was cancelled.")
            raise
        except DulyError as problem:
            attempt.error = problem
        except Exception as bug:  # whoever asked waits for an answer, whatever is wrong here
            traceback.print_exception(bug)
            attempt.error = ModelError(
                "model.host_failed",
                f"The model host failed at this call ({type(bug).__name__}); its log says where.",
            )

    async def _asked(self, attempt: Attempt, package: str, run_id: str, mandate: object) -> None:
        signed = self._mandate(mandate, package, run_id)
        self._ended.check(run_id)
        setting = self._settings.of(package)
        attempt.model = setting.model
        attempt.begin()
        _check_schema(attempt.call.json_schema)
        asker = self._loaded()
        with self._booked(asker, setting, attempt, signed):
            try:
                attempt.value = await asker.ask(setting, attempt)
            except asyncio.CancelledError:
                attempt.uncounted("model.cancelled")
                raise
            except ModelError as problem:
                if not attempt.tokens_in:
                    attempt.uncounted(problem.code)
                raise

    def _mandate(self, envelope: object, package: str, run_id: str) -> Mandate:
        """The person's order behind this call. Raises ``AuthorityError``."""
        if type(envelope) is not bytes:
            raise AuthorityError("mandate.missing", "No mandate came with this call of a model.")
        mandate, _ = Mandate.open(envelope, by_id(secrets.read_public_keys(self._config.people_places)))
        now_ms = _now_ms()
        mandate.check(run_id=run_id, now_ms=now_ms)
        if mandate.issued_ms - CLOCK_SKEW_MS > now_ms:
            raise AuthorityError("mandate.from_the_future", "The mandate was issued in the future.")
        if mandate.package != package:
            raise AuthorityError(
                "mandate.other_package", "The mandate is for another snapshot of the package."
            )
        return mandate

    @contextlib.contextmanager
    def _booked(self, asker: Asker, setting: Setting, attempt: Attempt, mandate: Mandate) -> Iterator[None]:
        """Bounds the answer by what is left, books the call with all it may take, and settles it at its end."""
        limits = (
            mandate.budget.get("model_tokens", MODEL_TOKENS_DEFAULT),
            mandate.budget.get("cost", COST_DEFAULT),
        )
        spent = self._ledger.spent(mandate.run_id)
        prompt = attempt.call.prompt_tokens
        room = min(attempt.call.tokens_max, limits[0] - spent.tokens) - prompt
        per = asker.cost_of(setting, 0, _PER_TOKENS)
        if per:
            left = limits[1] - spent.cost - asker.cost_of(setting, prompt, 0)
            room = min(room, left * _PER_TOKENS // per)
        attempt.answer_tokens = min(room, MODEL_ANSWER_TOKENS_MAX)
        if attempt.answer_tokens < MODEL_ANSWER_TOKENS_MIN:
            raise ModelError(
                "model.budget",
                f"The prompt takes about {prompt} tokens, and too little is left for an answer: the call may take "
                f"{attempt.call.tokens_max}, the run has spent {spent.tokens} of {limits[0]} tokens and "
                f"{spent.cost} of {limits[1]} millionths.",
                hint="Give the run more with --budget model_tokens=… (and cost=…).",
            )
        tokens = prompt + attempt.answer_tokens
        cost = asker.cost_of(setting, prompt, attempt.answer_tokens)
        self._ledger.book(mandate.run_id, tokens, cost, left=limits, expires_ms=mandate.expires_ms)
        try:
            yield
        finally:
            attempt.cost = asker.cost_of(setting, attempt.tokens_in, attempt.tokens_out)
            self._ledger.settle(
                mandate.run_id,
                attempt.tokens_in + attempt.tokens_out - tokens,
                attempt.cost - cost,
                expires_ms=mandate.expires_ms,
            )

    def _loaded(self) -> Asker:
        """The part that needs the client library, imported when it is first called for."""
        if self._asker is None:
            try:
                from .asker import Asker
            except ImportError as problem:
                raise ModelError(
                    "model.extra_missing",
                    f"The client library for models is not installed ({problem.name or 'unknown module'}).",
                    hint="Install it: pip install 'duly[models]', and start the runtime again (`duly down`).",
                ) from None
            self._asker = Asker()
        return self._asker

    @contextlib.contextmanager
    def _listed(self, run_id: str, task: asyncio.Task[Any]) -> Iterator[None]:
        self._calls.setdefault(run_id, set()).add(task)
        try:
            yield
        finally:
            self._calls[run_id].discard(task)
            if not self._calls[run_id]:
                del self._calls[run_id]
                self._turns.pop(run_id, None)

    def _answer(self, attempt: Attempt) -> tuple[Message, list[bytes]]:
        exchange = attempt.exchange
        answer: Message = {"use": attempt.use().to_data()}
        if attempt.error is not None:
            answer["error"] = attempt.error.to_data()
            if isinstance(attempt.error, UnfitAnswer):
                answer["unfit"] = attempt.error.value
        else:
            answer["value"] = attempt.value
        if len(canon.encode(answer)) > FRAME_BYTES_MAX - 1_000:
            attempt.error = ModelError("model.answer_too_large", "The value does not fit into one message.")
            answer = {"use": attempt.use().to_data(), "error": attempt.error.to_data()}
        return answer, [exchange.request, exchange.response]


def _warm() -> None:
    with contextlib.suppress(ImportError):  # the call itself says what is missing
        importlib.import_module("duly.hosts.models.asker")


def _check_schema(schema: dict[str, Any]) -> None:
    try:
        schemas.compiled(schema)
    except PlanError as problem:
        raise ModelError(
            "model.schema_refused", f"The schema of this call is none: {problem.message}."
        ) from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
