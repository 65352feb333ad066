"""Asks the write host what became of effects of which nobody brought word, and voids the grants that it never used.

After that an executor that was frozen and thaws holds nothing any more, and "lost" becomes one of three truths: it never
began, it is done (with its receipt), or nobody can say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from duly.protocol.authority.settlement import Settlement
from duly.protocol.machine.effects import Dispatch
from duly.protocol.machine.pending import pending
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.limits import GRANT_TTL_SECONDS, SETTLE_AGAIN_SECONDS

from ..caller import Caller
from ..messages import CallsSettled, SettleCalls
from .again import again
from .clock import Clock
from .grants import Granted, ReceiptReader, Signer, lost

log = logging.getLogger("duly")


class Settler:
    """``node`` is the harness's own: effects run there and nowhere else."""

    def __init__(
        self, caller: Caller, signer: Signer, reader: ReceiptReader, clock: Clock, node: str
    ) -> None:
        self._caller = caller
        self._signer = signer
        self._reader = reader
        self._clock = clock
        self._node = node

    async def settle(self, granted: Granted, outcomes: Sequence[StepOutcome], wave: int) -> list[StepOutcome]:
        """The outcomes, with every ``lost`` one replaced by what the host knows of it.

        While the host says nothing, whoever holds a grant could still use it: nobody is told that an effect is lost
        before the host has answered or its grant has expired.
        """
        missing = [(one.step_id, one.attempt) for one in outcomes if one.outcome == "lost"]
        if not missing:
            return list(outcomes)
        expires_ms = max(grant.expires_ms for grant in granted.grants.values())
        granted_ms = min(grant.issued_ms for grant in granted.grants.values())
        found = await self._patiently(granted, missing, wave, granted_ms, expires_ms)
        return [found.get((one.step_id, one.attempt), one) for one in outcomes]

    async def settle_run(self, run: Run) -> list[StepOutcome]:
        """What the host knows of the effects that were under way when the harness of this run went away.

        It waits like ``settle``: until then the run does not go on.
        """
        outcomes: list[StepOutcome] = []
        for order in effects_under_way(run):
            granted = self._signer.recall(run, order)
            started = [run.steps[call.step_id].granted_ms for call in order.calls]
            missing = [(call.step_id, call.attempt) for call in order.calls if call.effect != "read"]
            expires_ms = max(started) + GRANT_TTL_SECONDS * 1_000
            found = await self._patiently(granted, missing, order.wave, min(started), expires_ms)
            outcomes += found.values()
        return outcomes

    async def _patiently(
        self,
        granted: Granted,
        missing: Collection[tuple[str, int]],
        wave: int,
        granted_ms: int,
        expires_ms: int,
    ) -> dict[tuple[str, int], StepOutcome]:
        """What the host says; nothing where it is silent until the grants have expired, and nobody can use them any more."""
        while True:
            try:
                return await self._ask(granted, missing, wave, granted_ms)
            except DulyError as error:
                log.warning("the write host could not say what became of %d calls: %s", len(missing), error)
                if self._clock.now_ms() > expires_ms:
                    return {}
            await asyncio.sleep(SETTLE_AGAIN_SECONDS)

    async def _ask(
        self, granted: Granted, missing: Collection[tuple[str, int]], wave: int, granted_ms: int
    ) -> dict[tuple[str, int], StepOutcome]:
        """What the host says of the missing calls, by step and attempt; ``lost`` where it does not know either."""
        nonces = {
            nonce: grant
            for nonce, grant in granted.grants.items()
            if (grant.step_id, grant.attempt) in missing
        }
        statement = Settlement(
            host="write", epoch=self._signer.epoch, granted_ms=granted_ms, nonces=list(nonces)
        ).sign(self._signer.private)
        settled, blobs = await again(
            lambda: self._caller.ask(
                "executor", SettleCalls(statement=statement), CallsSettled, node=self._node
            )
        )
        read = {
            (one.step_id, one.attempt): one
            for one in self._reader.outcomes(granted, settled.ran, blobs, wave)
        }
        found: dict[tuple[str, int], StepOutcome] = {}
        for nonce, grant in nonces.items():
            name = (grant.step_id, grant.attempt)
            found[name] = read[name]
            if settled.fates.get(nonce) == "void":
                found[name] = replace(
                    lost(grant, wave, "It never began."), outcome="not_started", code="tool.not_started"
                )
        return found


def effects_under_way(run: Run) -> list[Dispatch]:
    """The dispatches of a run that may have an effect and have not come back."""
    return [
        order
        for order in pending(run)
        if isinstance(order, Dispatch) and any(call.effect != "read" for call in order.calls)
    ]
