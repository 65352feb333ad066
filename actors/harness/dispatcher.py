"""Dispatches: signs the grants of a level, spreads reads over the executors, and brings the outcomes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from duly.protocol.machine import gates
from duly.protocol.machine.effects import Call, Dispatch
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome, StepsReturned, Stimulus
from duly.protocol.wire.errors import DulyError

from ..caller import Caller
from ..messages import CallsRan, RunCalls
from .clock import Clock
from .grants import Granted, ReceiptReader, Signer, Wanted, lost

Post = Callable[[str, Callable[[int, str], Stimulus]], object]


class Dispatcher:
    def __init__(self, caller: Caller, signer: Signer, reader: ReceiptReader, clock: Clock) -> None:
        self._caller = caller
        self._signer = signer
        self._reader = reader
        self._clock = clock
        self._next = 0

    async def run(self, run: Run, order: Dispatch, post: Post) -> None:
        """One message an executor; each executor's results are posted when they come."""
        shares = self._shares(order)
        await asyncio.gather(*(self._share(run, order, share, index, post) for index, share in shares))

    def _shares(self, order: Dispatch) -> list[tuple[int, Sequence[Call]]]:
        """Reads of a concurrent level are dealt out to the executors in turn; a serial dispatch goes to one."""
        executors = max(1, self._caller.count("executor"))
        first = self._next % executors
        self._next += 1
        if order.mode == "serial":
            return [(first, order.calls)]
        hands = [(i, order.calls[(i - first) % executors :: executors]) for i in range(executors)]
        return [(index, hand) for index, hand in hands if hand]

    async def _share(self, run: Run, order: Dispatch, calls: Sequence[Call], index: int, post: Post) -> None:
        writes = any(call.effect != "read" for call in calls)
        left = run.budget.left("rows_scanned")
        granted = self._signer.grant(
            run.run_id,
            run.mandate.package,
            order.plan_digest,
            "write" if writes else "read",
            [Wanted.of(call) for call in calls],
            rows_max=max(0, left) if left is not None else 0,
        )
        body = RunCalls(
            mode=order.mode,
            host="write" if writes else "read",
            grants=granted.envelope,
            mandate=run.mandate_envelope if writes else b"",
            approvals=self._approvals(run, calls) if writes else [],
            calls=granted.calls,
        )
        outcomes = await self._ask(run, body, granted, index, order.wave)
        post(run.run_id, lambda now, fresh: StepsReturned(now_ms=now, fresh=fresh, outcomes=outcomes))

    async def _ask(
        self, run: Run, body: RunCalls, granted: Granted, index: int, wave: int
    ) -> list[StepOutcome]:
        try:
            ran, blobs = await self._caller.ask(
                "executor", body, CallsRan, blobs=granted.arguments, run_id=run.run_id, index=index
            )
            return self._reader.outcomes(granted, ran, blobs, wave)
        except DulyError as error:
            if error.code in ("runtime.actor_lost", "runtime.host_lost"):
                return [lost(grant, wave, error.message) for grant in granted.grants.values()]
            return [
                StepOutcome(
                    step_id=grant.step_id,
                    attempt=grant.attempt,
                    wave=wave,
                    outcome="error",
                    code=error.code,
                    message=error.message,
                )
                for grant in granted.grants.values()
            ]

    def _approvals(self, run: Run, calls: Sequence[Call]) -> list[bytes]:
        found = []
        for call in calls:
            envelope = gates.covering(run, run.step(call.step_id), call.arguments, self._clock.now_ms())
            if envelope is not None and envelope not in found:
                found.append(envelope)
        return found
