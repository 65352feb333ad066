"""A group of events on its way into a journal: checked, numbered and hashed, then signed, and not yet seen by anybody.

The same for the journal on disk and for the one in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.log.checkpoint import Checkpoint, VerifierKey, sign
from duly.protocol.log.leaf import Draft, draft, leaf_bytes
from duly.protocol.log.merkle import Frontier, append, leaf_hash
from duly.protocol.wire.errors import LogError
from duly.protocol.wire.limits import JOURNAL_GROUP_EVENTS_MAX

from .journal_schema import Head, RunAdditions, number_key


class Tip(NamedTuple):
    """Where the next entry goes: the tree so far and the latest clock reading of any entry in it."""

    frontier: Frontier = Frontier()
    time_ms: int = 0


class Staged(NamedTuple):
    """A group that is ready to be signed and written: nobody has seen any of it."""

    records: list[tuple[bytes, bytes]]
    additions: dict[str, RunAdditions]
    anomalies: list[tuple[bytes, bytes]]
    tip: Tip


class Signer:
    """The log's key and name, as they are needed once a commit."""

    def __init__(self, key: Ed25519PrivateKey, origin: str) -> None:
        self._key = key
        self.verifier = VerifierKey.of(origin, key)
        self._key_id = self.verifier.key_id

    def head(self, tip: Tip) -> Head:
        """The head of a journal that ends at ``tip``, with its signed checkpoint."""
        size, root = tip.frontier.size, tip.frontier.root()
        note = sign(Checkpoint(self.verifier.name, size, root), self._key, self._key_id)
        return Head(size, root, tip.time_ms, note)


def drafts_of(events: Iterable[Mapping[str, Any] | bytes], epoch: int) -> list[Draft]:
    """The drafts of a group, every one of the newest ``epoch``.

    Raises ``LogError``: ``log.event``, ``log.leaf_too_large``, ``log.group_too_large``, ``log.stale_epoch``,
    ``log.epoch_not_taken``; ``WireError`` for bytes that are not canonical.
    """
    drafts = [draft(event) for event in events]
    if len(drafts) > JOURNAL_GROUP_EVENTS_MAX:
        raise LogError("log.group_too_large", f"A group has at most {JOURNAL_GROUP_EVENTS_MAX} events.")
    for item in drafts:
        if item.epoch != epoch:
            raise _wrong_epoch(item, epoch)
    return drafts


def stage(drafts: Sequence[Draft], tip: Tip) -> Staged:
    """The group behind ``tip``: its numbers and records, what it adds to runs, and the tip after it."""
    seq, latest_ms = tip.frontier.size, tip.time_ms
    keys: list[bytes] = []
    leaves: list[bytes] = []
    additions: dict[str, RunAdditions] = {}
    anomalies: list[tuple[bytes, bytes]] = []
    for run_id, kind, _, time_ms, data, after_seq in drafts:
        key = seq.to_bytes(8, "big")
        keys.append(key)
        leaves.append(leaf_bytes(data, after_seq, seq))
        if time_ms < latest_ms:
            anomalies.append((key, number_key(latest_ms - time_ms)))
        else:
            latest_ms = time_ms
        if run_id:
            added = additions.get(run_id)
            if added is None:
                additions[run_id] = RunAdditions([seq], time_ms, time_ms, kind, {kind: seq})
            else:
                added.seqs.append(seq)
                added.last_time_ms = time_ms
                added.last_kind = kind
                added.latest[kind] = seq
        seq += 1
    frontier, completed = append(tip.frontier, map(leaf_hash, leaves))
    records = list(zip(keys, map(add, completed, leaves), strict=True))
    return Staged(records, additions, anomalies, Tip(frontier, latest_ms))


def _wrong_epoch(item: Draft, epoch: int) -> LogError:
    if item.epoch < epoch:
        return LogError(
            "log.stale_epoch",
            f"An event ({item.kind}) of epoch {item.epoch} comes after epoch {epoch} was taken.",
            hint="Another harness has taken over; this one must stop.",
        )
    return LogError(
        "log.epoch_not_taken",
        f"An event ({item.kind}) names epoch {item.epoch}, but this journal has given out {epoch}.",
        hint="Take an epoch first; a journal restored from a backup needs its harness started anew.",
    )
