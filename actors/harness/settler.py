"""Asks the write host what became of effects of which nobody brought word, and voids the grants that it never used.

After that an executor that was frozen and thaws holds nothing any more, and "lost" becomes one of three truths: it never
began, it is done (with its receipt), or nobody can say.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from duly.protocol.authority.settlement import Settlement
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.wire.errors import DulyError

from ..caller import Caller
from ..messages import CallsSettled, SettleCalls
from .again import again
from .grants import Granted, ReceiptReader, Signer

log = logging.getLogger("duly")


class Settler:
    """``node`` is the harness's own: effects run there and nowhere else."""

    def __init__(self, caller: Caller, signer: Signer, reader: ReceiptReader, node: str) -> None:
        self._caller = caller
        self._signer = signer
        self._reader = reader
        self._node = node

    async def settle(self, granted: Granted, outcomes: Sequence[StepOutcome], wave: int) -> list[StepOutcome]:
        """The outcomes, with every ``lost`` one replaced by what the host knows of it."""
        nonces = {(grant.step_id, grant.attempt): nonce for nonce, grant in granted.grants.items()}
        missing = [nonces[one.step_id, one.attempt] for one in outcomes if one.outcome == "lost"]
        if not missing:
            return list(outcomes)
        statement = Settlement(host="write", epoch=self._signer.epoch, nonces=missing).sign(
            self._signer.private
        )
        try:
            settled, blobs = await again(
                lambda: self._caller.ask(
                    "executor", SettleCalls(statement=statement), CallsSettled, node=self._node
                )
            )
            known = self._reader.outcomes(granted, settled.ran, blobs, wave)
        except DulyError as error:
            log.warning("the write host could not say what became of %d calls: %s", len(missing), error)
            return list(outcomes)
        found = {(one.step_id, one.attempt): one for one in known if one.outcome != "lost"}
        return [
            self._one(one, settled.fates.get(nonces[one.step_id, one.attempt], ""), found) for one in outcomes
        ]

    def _one(self, outcome: StepOutcome, fate: str, found: dict[tuple[str, int], StepOutcome]) -> StepOutcome:
        if outcome.outcome != "lost":
            return outcome
        if fate == "void":
            return replace(outcome, outcome="not_started", code="tool.not_started")
        return found.get((outcome.step_id, outcome.attempt), outcome)
