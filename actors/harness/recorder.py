"""Events become durable here: artifacts first, then the journal entries that name them, then the world hears of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from duly.protocol.machine.events import Event
from duly.protocol.wire import canon
from duly.protocol.wire.ids import Digest, salted_digest

from ..caller import Caller
from ..messages import Appended, AppendEvents


class ArtifactPort(Protocol):
    def salt_for(self, run_id: str) -> bytes: ...

    def put_many(self, run_id: str, values: Mapping[int, bytes]) -> Mapping[int, Digest]: ...

    def get(self, run_id: str, digest: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one decision, not yet recorded."""

    run_id: str
    epoch: int
    cause: str
    now_ms: int
    events: Sequence[Event]


class Recorder:
    def __init__(self, caller: Caller, artifacts: ArtifactPort) -> None:
        self._caller = caller
        self._artifacts = artifacts
        self._salts: dict[str, bytes] = {}

    def seal(self, run_id: str) -> Callable[[bytes], str]:
        """Gives the salted digest under which bytes of a run are kept. Equal objects are hashed once."""
        salt = self._salts.get(run_id)
        if salt is None:
            salt = self._salts[run_id] = self._artifacts.salt_for(run_id)
        known: dict[int, tuple[bytes, str]] = {}

        def digest(data: bytes) -> str:
            found = known.get(id(data))
            if found is None:
                # The bytes are kept beside the digest: a freed object's id may be given to another one.
                found = known[id(data)] = (data, salted_digest(salt, data))
            return found[1]

        return digest

    def forget(self, run_id: str) -> None:
        self._salts.pop(run_id, None)

    async def record(self, batches: Sequence[Batch]) -> list[int]:
        """Stores the artifacts and journals the events of several decisions in one group; returns their numbers.

        Crash before the artifacts are stored: nothing happened. Crash between artifacts and journal: bytes that nobody
        names. Crash after the journal's answer: the events happened, and a restart finds what is left to do.
        """
        leaves: list[bytes] = []
        for batch in batches:
            values = {data: None for event in batch.events for data in event.attached.values()}
            if values:
                self._artifacts.put_many(batch.run_id, dict(enumerate(values)))
            leaves += [_leaf(batch, event) for event in batch.events]
        if not leaves:
            return []
        appended, _ = await self._caller.ask(
            "audit_journal", AppendEvents(count=len(leaves)), Appended, blobs=leaves
        )
        return appended.seqs


def _leaf(batch: Batch, event: Event) -> bytes:
    return canon.encode(
        {
            "v": 1,
            "time_ms": batch.now_ms,
            "run_id": batch.run_id,
            "kind": event.kind,
            "epoch": batch.epoch,
            "cause": batch.cause,
            "facts": dict(event.facts),
            "artifacts": dict(event.artifacts),
        }
    )
