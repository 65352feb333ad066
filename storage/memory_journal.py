"""The journal in memory; see `memory`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.log.checkpoint import Checkpoint, VerifierKey, verify
from duly.protocol.log.merkle import HASH_BYTES, consistency_proof, inclusion_proof, node_place
from duly.protocol.wire.errors import LogError, StorageError

from .journal_reader import checked_entry
from .journal_schema import Entry, Head, RunSummary, number, split_record
from .journal_stage import Signer, Staged, Tip, drafts_of, stage


class MemoryJournal:
    """A journal in memory. Without a key it makes one."""

    def __init__(self, log_key: Ed25519PrivateKey | None = None, origin: str = "duly/memory") -> None:
        self._signer = Signer(log_key or Ed25519PrivateKey.generate(), origin)
        self._head = Head()
        self._tip = Tip()
        self._epoch = 0
        self._records: list[bytes] = []
        self._runs: dict[str, RunSummary] = {}
        self._run_seqs: dict[str, list[int]] = {}
        self._anomalies: dict[int, int] = {}
        self._closed = False

    @property
    def verifier(self) -> VerifierKey:
        return self._signer.verifier

    @property
    def size(self) -> int:
        return self.head().size

    def append(self, events: Iterable[Mapping[str, Any] | bytes]) -> list[int]:
        self._check()
        drafts = drafts_of(events, self._epoch)
        if not drafts:
            return []
        first = self._head.size
        self.commit([stage(drafts, self._tip)])
        return list(range(first, self._head.size))

    @property
    def tip(self) -> Tip:
        return self._tip

    def commit(self, groups: Sequence[Staged]) -> None:
        self._check()
        for group in groups:
            self._records.extend(record for _, record in group.records)
            self._anomalies.update((number(key), number(value)) for key, value in group.anomalies)
            for run_id, added in group.additions.items():
                self._runs[run_id] = added.onto(run_id, self._runs.get(run_id))
                self._run_seqs.setdefault(run_id, []).extend(added.seqs)
        self._tip = groups[-1].tip
        self._head = self._signer.head(self._tip)

    def take_epoch(self) -> int:
        self._check()
        self._epoch += 1
        return self._epoch

    def head(self) -> Head:
        self._check()
        return self._head

    def epoch(self) -> int:
        self._check()
        return self._epoch

    def checkpoint(self) -> Checkpoint | None:
        head = self.head()
        return verify(head.note, (self.verifier,)) if head.size else None

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        end = self.size if stop is None else min(stop, self.size)
        return self.entries(range(start, end))

    def entries(self, seqs: Iterable[int]) -> Iterator[Entry]:
        self._check()
        for seq in list(seqs):
            yield checked_entry(seq, self._records[seq] if seq < len(self._records) else None)

    def read_run(self, run_id: str) -> Iterator[Entry]:
        return self.entries(self.run_seqs(run_id))

    def run_seqs(self, run_id: str) -> list[int]:
        self._check()
        return list(self._run_seqs.get(run_id, ()))

    def run(self, run_id: str) -> RunSummary | None:
        self._check()
        return self._runs.get(run_id)

    def runs(self, limit: int | None = None) -> list[RunSummary]:
        self._check()
        newest = sorted(self._runs.values(), key=lambda summary: -summary.first_seq)
        return newest[:limit]

    def anomalies(self) -> dict[int, int]:
        self._check()
        return dict(self._anomalies)

    def inclusion_proof(self, seq: int, size: int) -> list[bytes]:
        self._check()
        return inclusion_proof(seq, size, self._node)

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        self._check()
        return consistency_proof(old_size, new_size, self._node)

    def close(self) -> None:
        self._closed = True

    def _node(self, level: int, index: int) -> bytes:
        leaf, position = node_place(level, index)
        if leaf >= len(self._records):
            raise LogError(
                "log.node_missing", f"Node {index} of level {level} is missing.", place=f"entry {leaf}"
            )
        return split_record(leaf, self._records[leaf])[0][position * HASH_BYTES :][:HASH_BYTES]

    def _check(self) -> None:
        if self._closed:
            raise StorageError("storage.closed", "This store was closed.", place="memory")
