"""Dispatches: signs the grants of a level, spreads reads over the executors, and brings the outcomes back.

What has effects, and what reads their sinks, goes to the harness's own node: there is one sink, and one ledger of used
grants that guards it. Other reads go to every node that has the package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypedDict

from duly.protocol.machine import gates
from duly.protocol.machine.effects import Call, Dispatch
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome, StepsReturned, Stimulus
from duly.protocol.wire.errors import DulyError

from ..caller import Caller
from ..messages import CallsRan, RunCalls
from .again import AWAY, once
from .clock import Clock
from .grants import Granted, ReceiptReader, Signer, Wanted, lost
from .settler import Settler
from .spread import Spread

Post = Callable[[str, Callable[[int, str], Stimulus]], object]


class Place(TypedDict):
    """Which executor: its number among those of a node."""

    index: int
    node: str


class Dispatcher:
    """``node`` is the harness's own; ``spread`` knows the nodes that have a package."""

    def __init__(
        self,
        caller: Caller,
        signer: Signer,
        reader: ReceiptReader,
        clock: Clock,
        node: str,
        settler: Settler,
        spread: Spread,
    ) -> None:
        self._caller = caller
        self._signer = signer
        self._reader = reader
        self._clock = clock
        self._node = node
        self._spread = spread
        self._settler = settler
        self._next = 0

    async def run(self, run: Run, order: Dispatch, post: Post) -> None:
        """One message an executor; each executor's results are posted when they come."""
        shares = self._shares(run, order)
        await asyncio.gather(*(self._share(run, order, share, place, post) for place, share in shares))

    def _shares(self, run: Run, order: Dispatch) -> list[tuple[Place, Sequence[Call]]]:
        """Reads of a concurrent level are dealt out to the executors in turn; a serial dispatch goes to one."""
        here, free = self._places([self._node]), self._places(self._spread.nodes(run.mandate.package))
        turn = self._next
        self._next += 1
        sinks = {one.resource for one in run.descriptors.values() if one.resource and not one.reads_only}
        stays = [
            call.effect != "read" or run.descriptors[call.tool].resource in sinks for call in order.calls
        ]
        if order.mode == "serial":
            places = here if any(stays) else free
            return [(places[turn % len(places)], order.calls)]
        hands: dict[tuple[str, int], tuple[Place, list[Call]]] = {}
        for number, (call, stay) in enumerate(zip(order.calls, stays, strict=True)):
            places = here if stay else free
            place = places[(turn + number) % len(places)]
            hands.setdefault((place["node"], place["index"]), (place, []))[1].append(call)
        return list(hands.values())

    def _places(self, nodes: Sequence[str]) -> list[Place]:
        """The executors of some nodes; neighbours are of different nodes, so that two reads go to two of them."""
        counts = {node: max(1, self._caller.count("executor", node)) for node in nodes}
        return [
            {"index": index, "node": node}
            for index in range(max(counts.values()))
            for node in nodes
            if index < counts[node]
        ]

    async def _share(
        self, run: Run, order: Dispatch, calls: Sequence[Call], place: Place, post: Post
    ) -> None:
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
        outcomes = await self._ask(run, body, granted, place, order.wave)
        if writes:
            outcomes = await self._settler.settle(granted, outcomes, order.wave)
        post(run.run_id, lambda now, fresh: StepsReturned(now_ms=now, fresh=fresh, outcomes=outcomes))

    async def _ask(
        self, run: Run, body: RunCalls, granted: Granted, place: Place, wave: int
    ) -> list[StepOutcome]:
        async def ask() -> list[StepOutcome]:
            ran, blobs = await self._run(run, body, granted, place)
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
        self, run: Run, body: RunCalls, granted: Granted, place: Place
    ) -> tuple[CallsRan, list[bytes]]:
        """What an executor brought back. One whose node has lost the package has run nothing: another node does."""
        package = run.mandate.package
        try:
            return await self._caller.ask(
                "executor", body, CallsRan, blobs=granted.arguments, run_id=run.run_id, **place
            )
        except DulyError as error:
            if error.code != "storage.package_missing" or place["node"] == self._node:
                raise
        self._spread.forget(package, place["node"])
        return await self._caller.ask(
            "executor", body, CallsRan, blobs=granted.arguments, run_id=run.run_id, node=self._node
        )

    def _approvals(self, run: Run, calls: Sequence[Call]) -> list[bytes]:
        found = []
        for call in calls:
            envelope = gates.covering(run, run.step(call.step_id), call.arguments, self._clock.now_ms())
            if envelope is not None and envelope not in found:
                found.append(envelope)
        return found
