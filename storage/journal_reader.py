"""Reading the journal: from the process that writes it, or beside it with nothing but the log's public key.

Every entry that is handed out was hashed and compared with the tree; whether the tree is the one that was signed is
compared at opening and at ``checkpoint()``. The whole of it is `fsck`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from duly.protocol.log.checkpoint import Checkpoint, VerifierKey, verify
from duly.protocol.log.merkle import (
    HASH_BYTES,
    Frontier,
    ReadNode,
    consistency_proof,
    frontier_of,
    inclusion_proof,
    leaf_hash,
    node_place,
)
from duly.protocol.wire.errors import LogError
from duly.protocol.wire.limits import READ_PAGE_BYTES_MAX, READ_PAGE_ENTRIES_MAX

from . import journal_schema as schema
from .journal_schema import Entry, Head, RunSummary, number, number_key, split_record
from .lmdb_env import META, Database, Environment, Transaction


class JournalView:
    """What can be read of a journal. Trusts the given keys and nothing on disk."""

    def __init__(self, env: Environment, keys: Sequence[VerifierKey]) -> None:
        self._env = env
        self._keys = tuple(keys)

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.head().size

    def head(self) -> Head:
        """Size, root, latest clock reading and note, as stored."""
        return self._env.read(self._head)

    def epoch(self) -> int:
        """The newest epoch that was taken; 0 before the first."""
        return self._env.read(self.epoch_in)

    def epoch_in(self, transaction: Transaction) -> int:
        """The newest epoch, as a transaction sees it."""
        return number(transaction.get(schema.EPOCH_KEY, b"", db=self._db(META)))

    def frontier(self, size: int) -> Frontier:
        """The frontier of the first ``size`` entries, from the stored nodes. Raises ``log.node_missing``."""
        return self._env.read(lambda transaction: frontier_of(size, self._node_reader(transaction)))

    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint, its signature verified and its root compared with the tree; None for an empty journal.

        Raises ``LogError``: ``log.checkpoint_differs``, ``log.node_missing``, ``log.entry_unsigned`` (entries behind
        the newest checkpoint), or what ``verify`` raises.
        """

        def work(transaction: Transaction) -> tuple[Head, bytes, int]:
            head = self._head(transaction)
            entries = transaction.cursor(db=self._db(schema.ENTRIES))
            stored = number(entries.key()) + 1 if entries.last() else 0
            return head, frontier_of(head.size, self._node_reader(transaction)).root(), stored

        head, root, stored = self._env.read(work)
        if root != head.root:
            place = f"size {head.size}"
            raise LogError(
                "log.checkpoint_differs", "The newest checkpoint is not about this tree.", place=place
            )
        if stored != head.size:
            place = f"entry {min(stored, head.size)}"
            raise LogError(
                "log.entry_unsigned", "The newest checkpoint does not cover the last entries.", place=place
            )
        return verify(head.note, self._keys) if head.size else None

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Entries ``start`` … ``stop``-1 (to the end by default), each compared with the tree.

        Read in pages, each in a transaction of its own; the end is fixed when the reading begins.
        """
        end = min(self.size if stop is None else stop, self.size)
        while start < end:
            page = self._env.read(lambda transaction, first=start: self._page(transaction, range(first, end)))  # type: ignore[misc]
            yield from page
            start = page[-1].seq + 1

    def entries(self, seqs: Iterable[int]) -> Iterator[Entry]:
        """The entries with these numbers, in the order given, each compared with the tree."""
        wanted = list(seqs)
        while wanted:
            page = self._env.read(lambda transaction, seqs=wanted: self._page(transaction, seqs))  # type: ignore[misc]
            yield from page
            wanted = wanted[len(page) :]

    def read_run(self, run_id: str) -> Iterator[Entry]:
        """A run's entries in order; none for a run that is not known."""
        return self.entries(self.run_seqs(run_id))

    def run_seqs(self, run_id: str) -> list[int]:
        """The numbers of a run's entries, ascending."""
        prefix = schema.run_key(run_id)

        def work(transaction: Transaction) -> list[int]:
            seqs: list[int] = []
            cursor = transaction.cursor(db=self._db(schema.RUNS))
            found = cursor.set_range(prefix + b"\0")
            while found and cursor.key().startswith(prefix):
                seqs.extend(schema.unpack_seqs(cursor.value()))
                found = cursor.next()
            return seqs

        return self._env.read(work)

    def run(self, run_id: str) -> RunSummary | None:
        """A run's summary, or None for a run that is not known."""
        data = self._env.read(
            lambda transaction: transaction.get(schema.run_key(run_id), db=self._db(schema.RUNS))
        )
        return None if data is None else RunSummary.unpack(run_id, data)

    def runs(self, limit: int | None = None) -> list[RunSummary]:
        """The summaries of the newest ``limit`` runs (of all by default), the last started first."""
        summaries: list[RunSummary] = []
        before: bytes | None = None
        while limit is None or len(summaries) < limit:
            count = (
                READ_PAGE_ENTRIES_MAX if limit is None else min(limit - len(summaries), READ_PAGE_ENTRIES_MAX)
            )
            page, before = self._env.read(
                lambda transaction, start=before, count=count: self._runs_page(transaction, start, count)  # type: ignore[misc]
            )
            summaries.extend(page)
            if before is None:
                break
        return summaries

    def anomalies(self) -> dict[int, int]:
        """Entries whose clock lies before an earlier entry's: seq -> by how many milliseconds."""

        def work(transaction: Transaction) -> dict[int, int]:
            cursor = transaction.cursor(db=self._db(schema.ANOMALIES))
            return {number(key): number(value) for key, value in cursor}

        return self._env.read(work)

    def inclusion_proof(self, seq: int, size: int) -> list[bytes]:
        """The hashes that show entry ``seq`` in the tree of the first ``size`` entries."""
        return self._env.read(lambda transaction: inclusion_proof(seq, size, self._node_reader(transaction)))

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """The hashes that show the first ``old_size`` entries unchanged in the first ``new_size``."""
        return self._env.read(
            lambda transaction: consistency_proof(old_size, new_size, self._node_reader(transaction))
        )

    def close(self) -> None:
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _db(self, name: str) -> Database:
        return self._env.database(name)

    def _head(self, transaction: Transaction) -> Head:
        record = self._head_record(transaction)
        return Head() if record is None else Head.unpack(record)

    def _head_record(self, transaction: Transaction) -> bytes | None:
        cursor = transaction.cursor(db=self._db(schema.CHECKPOINTS))
        return cursor.value() if cursor.last() else None

    def _node_reader(self, transaction: Transaction) -> ReadNode:
        def read_node(level: int, index: int) -> bytes:
            leaf, position = node_place(level, index)
            record = transaction.get(number_key(leaf), b"", db=self._db(schema.ENTRIES))
            node = split_record(leaf, record)[0][position * HASH_BYTES : (position + 1) * HASH_BYTES]
            if len(node) != HASH_BYTES:
                raise LogError(
                    "log.node_missing", f"Node {index} of level {level} is missing.", place=f"entry {leaf}"
                )
            return node

        return read_node

    def _page(self, transaction: Transaction, seqs: Sequence[int]) -> list[Entry]:
        """The first entries of ``seqs`` that fit into a page; at least one."""
        page: list[Entry] = []
        left = READ_PAGE_BYTES_MAX
        for seq in seqs[:READ_PAGE_ENTRIES_MAX]:
            page.append(checked_entry(seq, transaction.get(number_key(seq), db=self._db(schema.ENTRIES))))
            left -= len(page[-1].data)
            if left <= 0:
                break
        return page

    def _runs_page(
        self, transaction: Transaction, before: bytes | None, count: int
    ) -> tuple[list[RunSummary], bytes | None]:
        """Up to ``count`` summaries of runs that started before the key ``before``, and the key to go on from."""
        page: list[RunSummary] = []
        cursor = transaction.cursor(db=self._db(schema.RUN_STARTS))
        found = cursor.last() if before is None else cursor.set_range(before) and cursor.prev()
        while found:
            run_id = cursor.value()
            data = transaction.get(run_id + b"\0", db=self._db(schema.RUNS))
            if data is None:
                raise LogError(
                    "log.index", "The run index names a run that it does not hold.", place=run_id.decode()
                )
            page.append(RunSummary.unpack(run_id.decode("ascii"), data))
            if len(page) == count:
                return page, cursor.key()
            found = cursor.prev()
        return page, None


class JournalReader(JournalView):
    """The journal in a folder, opened to read, beside a living writer or without one."""

    @classmethod
    def open(cls, path: Path, keys: Sequence[VerifierKey]) -> JournalReader:
        """Opens a journal that exists.

        Raises ``StorageError`` (``storage.absent`` where there is none) and ``LogError`` where its newest checkpoint
        is not signed by one of ``keys`` or is not about what the file holds.
        """
        reader = cls(
            Environment.open(path, schema.FORMAT, schema.VERSION, schema.DATABASES, writer=False), keys
        )
        try:
            reader.checkpoint()
        except BaseException:
            reader.close()
            raise
        return reader


def checked_entry(seq: int, record: bytes | None) -> Entry:
    """The entry of a record, its leaf compared with the hash in front of it."""
    if record is None:
        raise LogError("log.entry_missing", "An entry of the journal is missing.", place=f"entry {seq}")
    nodes, data = split_record(seq, record)
    if leaf_hash(data) != nodes[:HASH_BYTES]:
        raise LogError(
            "log.entry_changed",
            "The bytes of this entry are not those that were recorded.",
            place=f"entry {seq}",
            hint="Run `duly audit verify`, and restore the journal from a backup.",
        )
    return Entry.of(seq, data)
