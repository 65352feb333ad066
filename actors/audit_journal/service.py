"""The journal's service: every message is one group, acknowledged when it is on disk."""

from __future__ import annotations

import asyncio

from duly.protocol.wire.envelope import Envelope
from duly.protocol.wire.errors import WireError
from duly.storage.journal_queue import JournalQueue

from ..messages import Appended, AppendEvents, EpochTaken, TakeEpoch
from ..service import Reply, Service


def journal_service(queue: JournalQueue) -> Service:
    """The service over the queue of an open journal: groups that come together share a transaction and a signature."""

    async def append(body: AppendEvents, blobs: list[bytes], envelope: Envelope) -> Reply:
        if body.count != len(blobs):
            raise WireError("wire.blob_count", f"{body.count} events were announced and {len(blobs)} came.")
        return Reply(Appended(seqs=await asyncio.wrap_future(queue.submit(blobs))))

    async def take_epoch(body: TakeEpoch, blobs: list[bytes], envelope: Envelope) -> Reply:
        return Reply(EpochTaken(epoch=queue.take_epoch()))

    return Service("audit_journal", {AppendEvents: append, TakeEpoch: take_epoch})
