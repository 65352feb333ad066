"""One dispatch: several granted calls that came together, run side by side or one after the other.

Serial calls of the same worker travel to it as one *segment*: it runs them in order, resolves their references from
each other's outputs and answers each as soon as it is done, so a chain of cheap reads costs no round trip a step. The
host resolves the same references again for the receipts. An effect is never part of a segment: its arguments are
resolved here first, because mandate and approval are judged over exactly these bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.authority.grant import Grant, arguments_digest_of
from duly.protocol.plan import refs
from duly.protocol.wire import canon
from duly.protocol.wire.errors import AuthorityError, DulyError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, SEGMENT_STEPS_MAX

from .admission import Admission, Warrant
from .known_tools import KnownTool, KnownTools
from .pool import WorkerKind, WorkerPool
from .receipts import Outcome, ReceiptGroup
from .segment import Segment, SegmentCall
from .tools.context import said


@dataclass(slots=True)
class Call:
    """A granted call: the argument bytes as they came, the tool, and why it may not run, where it may not."""

    grant: Grant
    arguments: bytes
    tool: KnownTool | None
    refusal: DulyError | None = None
    needs: tuple[str, ...] = ()  # the steps that a template refers to

    @property
    def reads(self) -> bool:
        return self.tool is not None and self.tool.descriptor.effect == "read"

    @property
    def shares(self) -> bool:
        """Whether it may run beside others in one process. An effect may not: a kill would hit its neighbours."""
        return self.reads and self.tool is not None and self.tool.descriptor.concurrent


class Dispatch:
    """Runs calls and hands every outcome to the receipts; each call gets exactly one."""

    def __init__(
        self,
        calls: Sequence[Call],
        warrant: Warrant,
        *,
        admission: Admission,
        known: KnownTools,
        pool: WorkerPool,
        receipts: ReceiptGroup,
    ) -> None:
        self._calls = calls
        self._warrant = warrant
        self._admission = admission
        self._known = known
        self._pool = pool
        self._receipts = receipts
        self._segments: set[Segment] = set()
        self._wanted = {step for call in calls for step in call.needs}
        self._outputs: dict[str, Any] = {}
        self._output_bytes: dict[str, bytes] = {}
        self._done: set[str] = set()
        self._cancelled = False

    @property
    def run_ids(self) -> set[str]:
        return {call.grant.run_id for call in self._calls}

    async def run(self, *, serial: bool) -> None:
        """Returns when every call has its outcome."""
        try:
            if serial:
                await self._run_serial()
            else:
                await asyncio.gather(*(self._run_alone(call) for call in self._calls))
        finally:
            self._receipts.flush()

    def cancel(self, *, force: bool) -> None:
        """Nothing more starts; running reads are killed. A running effect is left to its end unless forced."""
        self._cancelled = True
        for segment in list(self._segments):
            if segment.reads or force:
                segment.cancel()

    async def _run_alone(self, call: Call) -> None:
        if call.refusal is None and call.grant.template:
            call.refusal = AuthorityError("grant.template_alone", "References need the serial mode.")
        await self._run_segment([call], shared=call.shares)

    async def _run_serial(self) -> None:
        at = 0
        while at < len(self._calls):
            segment = self._segment_at(at)
            if not await self._run_segment(segment, shared=False):
                break
            at += len(segment)
        for call in self._calls:
            self._finish(
                call.grant, _refused(call, "tool.not_started", "An earlier step of this dispatch failed.")
            )

    def _segment_at(self, start: int) -> list[Call]:
        first = self._calls[start]
        if first.refusal is not None or not first.reads:
            return [first]
        end = start + 1
        while end < len(self._calls) and end - start < SEGMENT_STEPS_MAX:
            call = self._calls[end]
            if call.refusal is not None or _kind(call) != _kind(first) or not call.reads:
                break
            end += 1
        return list(self._calls[start:end])

    async def _run_segment(self, calls: list[Call], *, shared: bool) -> bool:
        """Whether every call of the segment was good."""
        first = calls[0]
        try:
            if first.refusal is not None:
                raise first.refusal
            assert first.tool is not None
            template = arguments = first.arguments
            if not first.reads:
                arguments = self._resolved(first)
                self._justify(first, arguments, template)
            segment = self._made(calls, arguments)
            opening = self._known.opening(first.grant.package, first.tool.descriptor.server)
            async with self._pool.borrow(
                _kind(first), opening=opening, preload=first.tool.preload, shared=shared
            ) as worker:
                if self._cancelled:
                    segment.abandon("tool.cancelled", "The run was cancelled before this call began.")
                    return False
                if not first.reads:
                    self._admission.recheck(first.grant, _now_ms())
                self._segments.add(segment)
                try:
                    return await segment.run(worker, self._pool)
                finally:
                    self._segments.discard(segment)
        except DulyError as problem:
            self._finish(first.grant, _refused(first, problem.code, said(problem)))
            return False

    def _made(self, calls: list[Call], first_arguments: bytes) -> Segment:
        inside = {call.grant.step_id for call in calls}
        needed = {step for call in calls for step in call.needs}
        earlier = {step: self._output_bytes[step] for step in needed - inside if step in self._output_bytes}
        parts = [
            SegmentCall(call.grant, call.arguments, call.grant.arguments, call.grant.template)
            for call in calls
        ]
        if not calls[0].reads:
            digest = arguments_digest_of(first_arguments)
            parts = [SegmentCall(calls[0].grant, first_arguments, digest, False)]
        return Segment(parts, earlier, wanted=self._wanted & inside, ended=self._ended, reads=calls[0].reads)

    def _ended(self, call: SegmentCall, outcome: Outcome) -> None:
        """An answer of a worker, or what stands for one."""
        grant = call.grant
        if outcome.outcome == "ok" and grant.step_id in self._wanted:
            self._output_bytes[grant.step_id] = outcome.output
            self._outputs[grant.step_id] = _decoded(outcome.output)
        if call.template and outcome.code != "tool.not_started":
            try:
                outcome.arguments = _digest_resolved(call.arguments, self._outputs)
            except DulyError as problem:
                outcome.outcome, outcome.code, outcome.message = "error", problem.code, said(problem)
                outcome.output = b""
        self._finish(grant, outcome)

    def _finish(self, grant: Grant, outcome: Outcome) -> None:
        if grant.nonce not in self._done:
            self._done.add(grant.nonce)
            self._receipts.add(grant, outcome)

    def _resolved(self, call: Call) -> bytes:
        if not call.grant.template:
            return call.arguments
        return canon.encode(refs.resolve(_decoded(call.arguments), self._outputs))

    def _justify(self, call: Call, arguments: bytes, template: bytes) -> None:
        assert call.tool is not None
        digest = arguments_digest_of(arguments)
        stated = self._warrant.templates.get(call.grant.nonce, digest)
        self._admission.justify(
            call.grant,
            call.tool,
            digest,
            arguments_digest_of(template) if call.grant.template else stated,
            self._warrant,
            _now_ms(),
        )


def _kind(call: Call) -> WorkerKind:
    assert call.tool is not None
    return WorkerKind(call.grant.package, call.tool.descriptor.server)


def _refused(call: Call, code: str, message: str) -> Outcome:
    return Outcome("error", call.grant.arguments, _now_ms(), code=code, message=message)


def _digest_resolved(template: bytes, outputs: dict[str, Any]) -> str:
    return arguments_digest_of(canon.encode(refs.resolve(_decoded(template), outputs)))


def _decoded(data: bytes) -> Any:
    return canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
