"""Dispatches: signs the grants of a level, spreads reads over the executors, and brings the outcomes back.

What has effects goes to the harness's own node: there is one sink, and one ledger of used grants that guards it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from duly.protocol.machine import gates
from duly.protocol.machine.effects import Call, Dispatch
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome, StepsReturned, Stimulus
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.limits import ACTOR_TRIES_MAX

from ..caller import Caller
from ..messages import CallsRan, Done, KeepPackage, RunCalls
from .again import AWAY, once
from .clock import Clock
from .grants import Granted, ReceiptReader, Signer, Wanted, lost
from .settler import Settler

Post = Callable[[str, Callable[[int, str], Stimulus]], object]


class Place(TypedDict):
    """Which executor: its number among those of a node, or of all."""

    index: int
    node: str


class Dispatcher:
    """``node`` is the harness's own; ``snapshot`` gives the files of a package, for a node that lacks it."""

    def __init__(
        self,
        caller: Caller,
        signer: Signer,
        reader: ReceiptReader,
        clock: Clock,
        node: str,
        settler: Settler,
        snapshot: Callable[[str], Mapping[str, bytes]],
    ) -> None:
        self._caller = caller
        self._signer = signer
        self._reader = reader
        self._clock = clock
        self._node = node
        self._snapshot = snapshot
        self._settler = settler
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
            wave=order.wave,
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
        if writes:
            outcomes = await self._settler.settle(granted, outcomes, order.wave)
        post(run.run_id, lambda now, fresh: StepsReturned(now_ms=now, fresh=fresh, outcomes=outcomes))

    async def _ask(
        self, run: Run, body: RunCalls, granted: Granted, index: int, wave: int
    ) -> list[StepOutcome]:
        async def ask() -> list[StepOutcome]:
            ran, blobs = await self._run(run, body, granted, index)
            return self._reader.outcomes(granted, ran, blobs, wave)

        try:
            return await once(ask)
        except DulyError as error:
            # A fault of ours leaves open what happened, as a loss does.
            if error.code in (*AWAY, "runtime.internal"):
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

    async def _run(
        self, run: Run, body: RunCalls, granted: Granted, index: int
    ) -> tuple[CallsRan, list[bytes]]:
        """What an executor brought back. One whose node lacks the package has run nothing: it gets it, and the calls again."""
        place: Place = {"index": index, "node": self._node if body.host == "write" else ""}
        for _ in range(ACTOR_TRIES_MAX - 1):
            try:
                return await self._caller.ask(
                    "executor", body, CallsRan, blobs=granted.arguments, run_id=run.run_id, **place
                )
            except DulyError as error:
                if error.code != "storage.package_missing":
                    raise
            files = self._snapshot(run.mandate.package)
            keep = KeepPackage(package=run.mandate.package, names=list(files))
            await self._caller.ask("executor", keep, Done, blobs=list(files.values()), **place)
        return await self._caller.ask(
            "executor", body, CallsRan, blobs=granted.arguments, run_id=run.run_id, **place
        )

    def _approvals(self, run: Run, calls: Sequence[Call]) -> list[bytes]:
        found = []
        for call in calls:
            envelope = gates.covering(run, run.step(call.step_id), call.arguments, self._clock.now_ms())
            if envelope is not None and envelope not in found:
                found.append(envelope)
        return found
