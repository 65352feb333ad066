"""Calls that one worker runs one after the other: a single call, or a chain of reads. Here the deadlines are kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from duly.protocol.authority.grant import Grant
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.ids import is_name
from duly.protocol.wire.limits import FINGERPRINTS_PER_RECEIPT_MAX

from .framing import Message
from .pool import PooledWorker, WorkerPool
from .receipts import Outcome


@dataclass(frozen=True, slots=True)
class SegmentCall:
    """A call as it goes to the worker; ``template`` where the worker has references to resolve.

    ``digest`` is that of the arguments, as far as they are resolved by now.
    """

    grant: Grant
    arguments: bytes
    digest: str
    template: bool


_TOOL_FAMILIES = ("tool", "plan", "package", "request", "wire")

Ended = Callable[[SegmentCall, Outcome], None]


class Segment:
    """Sends the calls, takes the answers in order, kills the worker where one is late.

    A call's time begins when the one before it has answered. ``ended`` is called once for each call; after a failure
    the rest is ``tool.not_started``.
    """

    def __init__(
        self,
        calls: Sequence[SegmentCall],
        outputs: Mapping[str, bytes],
        *,
        wanted: AbstractSet[str],
        ended: Ended,
        reads: bool,
    ) -> None:
        self._calls = calls
        self._outputs = outputs
        self._wanted = wanted
        self._ended = ended
        self.reads = reads
        self._next = 0
        self._good = True
        self._late = False
        self._lost = False
        self._cancelled = False
        self._started_ms = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._worker: PooledWorker | None = None
        self._pool: WorkerPool | None = None
        self._finished: asyncio.Future[None] | None = None

    async def run(self, worker: PooledWorker, pool: WorkerPool) -> bool:
        """Whether every call was good."""
        loop = asyncio.get_running_loop()
        self._worker, self._pool, self._finished = worker, pool, loop.create_future()
        numbers = [worker.link.expect(partial(self._answered, index)) for index in range(len(self._calls))]
        self._begin_next()
        try:
            self._send(worker, numbers)
            await self._finished
            if self._lost:
                if not worker.shared or worker.doomed:
                    # Its children are gone when its end is reported; nothing of a call outlives its outcome.
                    pool.kill(worker)
                    await worker.gone.wait()
                self._settle_lost()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for number in numbers:
                worker.link.forget(number)
            if self._cancelled and worker.shared and not worker.doomed:
                self._let_run_out(worker, pool, numbers[0])
        return self._good

    def cancel(self) -> None:
        """Ends the worker, or only stops waiting where others share it."""
        self._cancelled = True
        if self._worker is None or self._pool is None:
            return
        if self._worker.shared:
            self._lose()
        else:
            self._pool.kill(self._worker)

    def abandon(self, code: str, message: str) -> None:
        """Gives every call that has no outcome this one."""
        for call in self._calls[self._next :]:
            self._ended(call, Outcome("error", call.digest, _now_ms(), code=code, message=message))
        self._next = len(self._calls)
        self._good = False

    def _let_run_out(self, worker: PooledWorker, pool: WorkerPool, number: int) -> None:
        """A cancelled call beside others goes on until its deadline; only then its worker has to go."""
        timer = asyncio.get_running_loop().call_at(self._due, pool.kill, worker)
        worker.link.expect_as(number, lambda answer, output: timer.cancel())

    def _send(self, worker: PooledWorker, numbers: Sequence[int]) -> None:
        message = {
            "op": "calls",
            "calls": [_order(call, number) for call, number in zip(self._calls, numbers, strict=True)],
            "outputs": dict.fromkeys(self._outputs),
            "wanted": sorted(self._wanted),
        }
        blobs = [call.arguments for call in self._calls] + list(self._outputs.values())
        try:
            worker.link.send(message, blobs)
        except WireError as problem:
            self.abandon("tool.arguments_too_large", problem.message)
            self._finish()

    def _begin_next(self) -> None:
        if self._next == len(self._calls):
            self._finish()
            return
        loop = asyncio.get_running_loop()
        self._started_ms = _now_ms()
        self._due = loop.time() + self._calls[self._next].grant.deadline_ms / 1_000
        if self._timer is None:
            self._timer = loop.call_at(self._due, self._check_due)

    def _check_due(self) -> None:
        """One timer a segment: it looks again where the call that it was set for has answered since."""
        self._timer = None
        if self._finished is None or self._finished.done():
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._check_due)
            return
        self._late = True
        assert self._pool is not None and self._worker is not None
        self._pool.kill(self._worker)

    def _answered(self, index: int, answer: Message | None, output: bytes) -> None:
        if self._finished is None or self._finished.done():
            return
        if answer is None or index != self._next:  # gone, or out of order: not a worker to believe
            self._lose()
            return
        call = self._calls[self._next]
        self._next += 1
        outcome = _outcome_of(call, answer, output, self._started_ms)
        self._ended(call, outcome)
        if outcome.outcome != "ok":
            self._stop()
        else:
            self._begin_next()

    def _stop(self) -> None:
        self.abandon("tool.not_started", "An earlier step of this dispatch failed.")
        self._finish()

    def _lose(self) -> None:
        self._lost = True
        self._finish()

    def _finish(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)

    def _settle_lost(self) -> None:
        """The worker ended under a call. A read has failed; what an effect did before, nobody knows."""
        if self._late:
            code, message, transient = (
                "tool.timeout",
                "The call was not done at its deadline and was ended.",
                True,
            )
        elif self._cancelled:
            code, message, transient = "tool.cancelled", "The run was cancelled.", False
        else:
            code, message, transient = (
                "tool.worker_lost",
                "The process of the call ended before its answer.",
                True,
            )
        call = self._calls[self._next]
        self._next += 1
        duration_us = max(0, _now_ms() - self._started_ms) * 1_000
        self._ended(
            call,
            Outcome(
                "error" if self.reads else "unknown",
                call.digest,
                self._started_ms,
                code=code,
                message=message,
                transient=transient and self.reads,
                duration_us=duration_us,
            ),
        )
        self._stop()


def _order(call: SegmentCall, number: int) -> Message:
    grant = call.grant
    return {
        "id": number,
        "tool": grant.tool,
        "run_id": grant.run_id,
        "step_id": grant.step_id,
        "key": grant.idempotency_key,
        "rows_max": grant.rows_max,
        "template": call.template,
    }


def _outcome_of(call: SegmentCall, answer: Message, output: bytes, started_ms: int) -> Outcome:
    """The worker's answer, field by field: a worker has run package code, so nothing of it is taken as it comes."""
    good = answer.get("outcome") == "ok"
    return Outcome(
        "ok" if good else "error",
        call.digest,
        _whole(answer.get("started_ms"), started_ms),
        code="" if good else _code(answer.get("code")),
        message="" if good else str(answer.get("message", "")),
        transient=answer.get("transient") is True and not good,
        output=output if good else b"",
        truncated=answer.get("truncated") is True,
        fingerprints=_fingerprints(answer.get("fingerprints")),
        rows_scanned=_whole(answer.get("rows"), 0),
        duration_us=_whole(answer.get("duration_us"), 0),
    )


def _code(value: object) -> str:
    """A code that a tool may give: those about authority are the host's own to say."""
    text = str(value)
    family = text.partition(".")[0]
    return text if family in _TOOL_FAMILIES and is_name(text) else "tool.failed"


def _fingerprints(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > FINGERPRINTS_PER_RECEIPT_MAX:
        return {}
    return {
        name: digest
        for name, digest in value.items()
        if isinstance(name, str) and isinstance(digest, str) and is_name(name) and is_name(digest)
    }


def _whole(value: object, default: int) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else default


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
