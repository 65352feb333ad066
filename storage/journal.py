"""Writing the journal: one transaction and one signature a group, acknowledged when it is on disk.

Trusted: no; everything is signed, and readers compare hashes. May lose data: no; what ``append`` returned stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.log.checkpoint import VerifierKey
from duly.protocol.log.merkle import Frontier, frontier_of
from duly.protocol.wire.errors import LogError, StorageError

from . import journal_schema as schema
from .journal_reader import JournalView
from .journal_schema import Head, RunAdditions, RunSummary, number_key
from .journal_stage import Signer, Staged, Tip, drafts_of, stage
from .lmdb_env import META, Environment, Transaction

_BEFORE_ANY_WRITE = ("storage.closed", "storage.forked", "storage.held", "storage.read_only")
_SUMMARIES_MAX = 4_096  # runs whose summary is kept in memory; any other is read back when it is added to


class Journal(JournalView):
    """The one writer of the journal in a folder. Also reads."""

    def __init__(self, env: Environment, signer: Signer) -> None:
        super().__init__(env, (signer.verifier,))
        self._signer = signer
        self._summaries: dict[str, RunSummary] = {}
        self._failure: StorageError | None = None
        self._head_now, self._tip, self._epoch_now = self._load()
        self.checkpoint()

    @classmethod
    def open(cls, path: Path, log_key: Ed25519PrivateKey, origin: str) -> Journal:
        """Opens the journal for writing, after making it where there is none. ``origin`` is the log's name for good.

        Raises ``StorageError`` (``storage.held`` where another process writes) and ``LogError``: ``log.origin`` for a
        journal of another name, or what is wrong with its newest checkpoint.
        """
        signer = Signer(log_key, origin)
        env = Environment.open(path, schema.FORMAT, schema.VERSION, schema.DATABASES, writer=True)
        try:
            return cls(env, signer)
        except BaseException:
            env.close()
            raise

    @property
    def verifier(self) -> VerifierKey:
        """The key with which others verify this journal."""
        return self._signer.verifier

    @property
    def size(self) -> int:
        return self._head_now.size

    def append(self, events: Iterable[Mapping[str, Any] | bytes]) -> list[int]:
        """Records a group of events, all or none, and returns their numbers once they are on disk.

        An event is a map of the fields of `protocol.log.leaf` without ``seq``, or the canonical bytes of that map (the
        quicker way). The journal numbers. Order is the order given, whatever the clocks in the events say; an entry
        whose clock lies before an earlier one's is noted as an anomaly.

        Raises ``LogError`` (``log.event``, ``log.leaf_too_large``, ``log.group_too_large``, ``log.stale_epoch``,
        ``log.epoch_not_taken``) before anything is written; ``StorageError`` ``storage.full`` when nothing was written
        and the call may be repeated; ``storage.outcome_unknown`` when that cannot be told: then the journal must be
        opened anew and read.
        """
        self._check_usable()
        # Stage: checked, numbered, hashed. Crash here: nothing happened.
        drafts = drafts_of(events, self._epoch_now)
        if not drafts:
            return []
        first = self._tip.frontier.size
        staged = stage(drafts, self._tip)
        self.commit([staged])
        return list(range(first, staged.tip.frontier.size))

    @property
    def tip(self) -> Tip:
        """Where the next group is staged."""
        return self._tip

    def commit(self, groups: Sequence[Staged]) -> None:
        """Writes groups that were staged one behind the other, all or none, under one signature and one flush.

        For `journal_queue`; everybody else appends. Raises as ``append`` does for what fails while writing.
        """
        self._check_usable()
        tip = groups[-1].tip
        # Sign: the note is in memory only. Crash here: nobody saw it; other groups may later get these numbers, and
        # their note is the only one of its size that anybody sees.
        head = self._signer.head(tip)
        # Commit: leaves, nodes, index and note in one transaction, flushed. Crash before its end: nothing happened.
        # Crash after it: all of it is there, unacknowledged; whoever recovers reads it.
        summaries = self._write(groups, head)
        # Acknowledge: only now does anybody learn a number or see the checkpoint.
        self._head_now, self._tip = head, tip
        if len(self._summaries) + len(summaries) > _SUMMARIES_MAX:
            self._summaries.clear()
        self._summaries.update(summaries)

    def take_epoch(self) -> int:
        """The next epoch, on disk before it is returned. Events of an older one are refused from now on."""
        self._check_usable()
        epoch = self._epoch_now + 1

        def work(transaction: Transaction) -> None:
            transaction.put(schema.EPOCH_KEY, number_key(epoch), db=self._db(META))

        # Crash before the commit's end: the number was given to nobody. After it: the number is skipped.
        self._env.write(work)
        self._epoch_now = epoch
        return epoch

    def _load(self) -> tuple[Head, Tip, int]:
        """Takes head, tip and epoch from disk; claims the journal's name where it is new."""

        def claim(transaction: Transaction) -> None:
            transaction.put(schema.ORIGIN_KEY, self.verifier.name.encode("utf-8"), db=self._db(META))

        def work(transaction: Transaction) -> tuple[bytes | None, Head, Frontier, int]:
            meta = self._db(META)
            head = self._head(transaction)
            epoch = self.epoch_in(transaction)
            frontier = frontier_of(head.size, self._node_reader(transaction))
            return transaction.get(schema.ORIGIN_KEY, db=meta), head, frontier, epoch

        origin, head, frontier, epoch = self._env.read(work)
        if origin is None and head.size == 0:
            self._env.write(claim)
        elif origin != self.verifier.name.encode("utf-8"):
            name = (origin or b"").decode("utf-8", "replace")
            raise LogError("log.origin", f"This journal is the log {name!r}, not {self.verifier.name!r}.")
        return head, Tip(frontier, head.time_ms), epoch

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _write(self, groups: Sequence[Staged], head: Head) -> dict[str, RunSummary]:
        before = self._head_now
        record_before = before.pack() if before.size else None

        def work(transaction: Transaction) -> dict[str, RunSummary]:
            if self._head_record(transaction) != record_before:
                raise StorageError(
                    "storage.held", "Another writer has changed this journal.", place=str(self._env.folder)
                )
            entries = transaction.cursor(db=self._db(schema.ENTRIES))
            summaries: dict[str, RunSummary] = {}
            added = 0
            for group in groups:
                added += entries.putmulti(group.records, append=True)[1]
                if group.anomalies:
                    transaction.cursor(db=self._db(schema.ANOMALIES)).putmulti(group.anomalies)
                self._index(transaction, group.additions, summaries)
            notes = self._db(schema.CHECKPOINTS)
            signed = transaction.put(number_key(head.size), head.pack(), db=notes, append=True)
            # LMDB appends behind the last key or not at all, and says so by its answer only.
            if added != head.size - before.size or not signed:
                raise LogError(
                    "log.entry_unsigned",
                    "Entries that no checkpoint covers are in the way.",
                    place=f"entry {before.size}",
                )
            return summaries

        try:
            return self._env.write(work)
        except StorageError as error:
            if error.code not in _BEFORE_ANY_WRITE:
                self._settle(before, error)
            raise

    def _index(
        self, transaction: Transaction, additions: dict[str, RunAdditions], summaries: dict[str, RunSummary]
    ) -> None:
        """Adds a group to the run index; ``summaries`` are those of this transaction so far."""
        runs = self._db(schema.RUNS)
        for run_id, added in additions.items():
            key = schema.run_key(run_id)
            old = summaries.get(run_id) or self._summaries.get(run_id)
            if old is None:
                data = transaction.get(key, db=runs)
                old = None if data is None else RunSummary.unpack(run_id, data)
            new = added.onto(run_id, old)
            if old is None:
                transaction.put(number_key(new.first_seq), key[:-1], db=self._db(schema.RUN_STARTS))
            transaction.put(key, new.pack(), db=runs)
            transaction.put(key + number_key(added.seqs[0]), schema.pack_seqs(added.seqs), db=runs)
            summaries[run_id] = new

    def _settle(self, before: Head, error: StorageError) -> None:
        """After a failed commit: returns where the file shows that nothing was written, otherwise shuts the journal.

        A flush that failed may still have kept the transaction, and flushing again proves nothing (the kernel may have
        dropped the pages as clean). So neither answer would be true until a new process has read the disk.
        """
        try:
            if self.head() == before:
                return
        except (StorageError, LogError) as second:
            error = second if isinstance(second, StorageError) else error
        self._failure = StorageError(
            "storage.outcome_unknown",
            "The disk failed while a group was written; whether it was kept cannot be told.",
            place=str(self._env.folder),
            hint="Check the disk, then start duly again: it reads what is there.",
            story=(str(error),),
        )
        raise self._failure from error
