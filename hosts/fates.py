"""What became of effects, for a harness that lost their results: kept in memory, the last few of them.

The ledger knows durably which grants were used; this knows, as long as the host lives, how their calls ended.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from duly.protocol.wire.limits import FATES_KEPT

from .framing import Message


class Fates:
    """Results of effects by nonce, and the ends of those that run."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Event] = {}
        self._results: OrderedDict[str, tuple[Message, list[bytes]]] = OrderedDict()

    def began(self, nonces: Iterable[str], ended: asyncio.Event) -> None:
        for nonce in nonces:
            self._running[nonce] = ended

    def ended(self, nonces: Iterable[str]) -> None:
        for nonce in nonces:
            self._running.pop(nonce, None)

    def keep(self, message: Message, blobs: list[bytes]) -> None:
        """Results that were sent, whether or not anybody received them."""
        for nonce in message["nonces"]:
            self._results[nonce] = (message, blobs)
        while len(self._results) > FATES_KEPT:
            self._results.popitem(last=False)

    async def of(self, nonce: str) -> tuple[Message, list[bytes]] | None:
        """The results that hold this nonce's, once its call has ended; ``None`` where nothing is known of it."""
        running = self._running.get(nonce)
        if running is not None:
            await running.wait()
        return self._results.get(nonce)
