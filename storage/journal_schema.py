"""What the journal's databases hold, and the small records in them.

    entries       seq (8 bytes)          hashes that this leaf completed (levels 0, 1, …; 32 bytes each) ‖ the leaf
    checkpoints   size (8 bytes)         latest clock reading (8 bytes) ‖ the signed note over the first ``size`` entries
    runs          run id ‖ 0             RunSummary
                  run id ‖ 0 ‖ seq       seqs (8 bytes each) of one run in one group; the key has the first of them
    run_starts    seq of a first entry   run id
    anomalies     seq (8 bytes)          milliseconds by which this entry's clock lies before an earlier one's
    meta          schema, origin, epoch

A commit costs a few pages for each tree that it touches, so what changes together stands together. Numbers are
big-endian, so LMDB's order is theirs. The newest checkpoint is the head. Everything but the leaves, the checkpoints and
the epoch can be derived from the leaves; `fsck` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from duly.protocol.log.checkpoint import read_unverified
from duly.protocol.log.leaf import pack, unpack
from duly.protocol.log.merkle import EMPTY_ROOT, HASH_BYTES, nodes_completed_by
from duly.protocol.wire.limits import RUN_KINDS_MAX

FORMAT = "duly.journal"
VERSION = 1

ENTRIES = "entries"
CHECKPOINTS = "checkpoints"
RUNS = "runs"
RUN_STARTS = "run_starts"
ANOMALIES = "anomalies"
DATABASES = (ENTRIES, CHECKPOINTS, RUNS, RUN_STARTS, ANOMALIES)

ORIGIN_KEY = b"origin"
EPOCH_KEY = b"epoch"


def number_key(number: int) -> bytes:
    """The key (or value) of a number: 8 bytes, big-endian."""
    return number.to_bytes(8, "big")


def number(key: bytes) -> int:
    return int.from_bytes(key, "big")


def run_key(run_id: str) -> bytes:
    """The key of a run's summary, and the beginning of the keys of its groups. Ids are ASCII without NUL."""
    return run_id.encode("ascii", "replace") + b"\0"


def split_record(seq: int, record: bytes) -> tuple[bytes, bytes]:
    """(node hashes joined, leaf bytes) of an entry's record."""
    at = nodes_completed_by(seq) * HASH_BYTES
    return record[:at], record[at:]


def pack_seqs(seqs: Iterable[int]) -> bytes:
    return b"".join(map(number_key, seqs))


def unpack_seqs(data: bytes) -> list[int]:
    return [number(data[at : at + 8]) for at in range(0, len(data), 8)]


class Entry(NamedTuple):
    """One entry of the journal: its number, its bytes, the event in them."""

    seq: int
    data: bytes
    event: dict[str, Any]

    @classmethod
    def of(cls, seq: int, data: bytes) -> Entry:
        return cls(seq, data, unpack(data))


class Head(NamedTuple):
    """How far the journal reaches: number of entries, root, the latest clock reading of any entry, the signed note.

    Read from disk it is a claim; ``JournalReader.checkpoint`` verifies it.
    """

    size: int = 0
    root: bytes = EMPTY_ROOT
    time_ms: int = 0
    note: bytes = b""

    def pack(self) -> bytes:
        return number_key(self.time_ms) + self.note

    @classmethod
    def unpack(cls, record: bytes) -> Head:
        claim = read_unverified(record[8:])
        return cls(claim.size, claim.root, number(record[:8]), record[8:])


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What the index knows about a run without reading its entries.

    ``latest`` maps each kind of event to the seq of its newest one, so the newest facts are one read away.
    """

    run_id: str
    first_seq: int
    last_seq: int
    entries: int
    first_time_ms: int
    last_time_ms: int
    last_kind: str
    latest: Mapping[str, int]

    def pack(self) -> bytes:
        return pack(
            (
                self.first_seq,
                self.last_seq,
                self.entries,
                self.first_time_ms,
                self.last_time_ms,
                self.last_kind,
                self.latest,
            )
        )

    @classmethod
    def unpack(cls, run_id: str, data: bytes) -> RunSummary:
        return cls(run_id, *unpack(data))


@dataclass(slots=True)
class RunAdditions:
    """What one group adds to one run."""

    seqs: list[int]
    first_time_ms: int
    last_time_ms: int
    last_kind: str
    latest: dict[str, int]

    def onto(self, run_id: str, old: RunSummary | None) -> RunSummary:
        """The summary after these entries. Kinds beyond the limit are not told apart from here on."""
        first_seq, first_time_ms, count = self.seqs[0], self.first_time_ms, 0
        latest = self.latest
        if old is not None:
            first_seq, first_time_ms, count = old.first_seq, old.first_time_ms, old.entries
            latest = {**old.latest, **latest}
        if len(latest) > RUN_KINDS_MAX:
            latest = dict(list(latest.items())[:RUN_KINDS_MAX])
        last_seq = self.seqs[-1]
        return RunSummary(
            run_id,
            first_seq,
            last_seq,
            count + len(self.seqs),
            first_time_ms,
            self.last_time_ms,
            self.last_kind,
            latest,
        )
