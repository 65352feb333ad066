"""Is the record what was signed? Everything derived anew from the leaves, with nothing but the log's public key.

Covers the structure of the LMDB file, each entry, each node, every signed checkpoint, the run index, anomalies, epochs
and the artifacts that entries name. Reads beside a living writer and judges what was there when it began.

What it cannot see by itself: a tail that was cut off together with its checkpoints, or rewritten by whoever has the
log's key. For that a checkpoint that was kept elsewhere is needed: ``known`` takes such notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from duly.protocol.log.checkpoint import Checkpoint, VerifierKey, verify
from duly.protocol.log.merkle import Frontier
from duly.protocol.wire.errors import AuthorityError, DulyError, Fault, LogError, StorageError
from duly.protocol.wire.limits import FSCK_FAULTS_MAX, READ_PAGE_ENTRIES_MAX

from . import journal_schema as schema
from .artifacts import ArtifactStore
from .fsck_group import Group
from .fsck_index import Index
from .journal_reader import JournalView
from .journal_schema import number, number_key
from .lmdb_env import Environment, Transaction
from .lmdb_file import check_full, check_light


@dataclass(slots=True)
class Report:
    """What was verified and what is wrong.

    ``faults`` are ordered by entry, so the first names the first bad one; ``notes`` are remarkable and no faults:
    clocks that stepped back, artifacts that were erased. ``size`` and ``root`` are those of the newest checkpoint.
    """

    size: int = 0
    root: bytes = b""
    checkpoints: int = 0
    runs: int = 0
    artifacts: int = 0
    faults: list[Fault] = field(default_factory=list)
    notes: list[Fault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    def add(self, place: str, code: str, message: str) -> None:
        """Notes a fault; after the limit the rest is not worth naming."""
        if len(self.faults) < FSCK_FAULTS_MAX:
            self.faults.append(Fault(place, code, message))


def verify_journal(
    journal: Path, keys: Sequence[VerifierKey], artifacts: Path | None = None, *, known: Sequence[bytes] = ()
) -> Report:
    """Verifies the journal in a folder, and the artifacts that it names where their folder is given.

    ``keys`` are those of the log, old ones included. ``known`` are notes of this log that were kept elsewhere. Raises
    ``StorageError`` only where there is nothing to verify (``storage.absent``, ``storage.denied``, ``storage.schema``);
    what is wrong with the record stands in the report.
    """
    report = Report()
    try:
        _check_structure(journal)
        env = Environment.open(journal, schema.FORMAT, schema.VERSION, schema.DATABASES, writer=False)
    except StorageError as error:
        if error.code not in ("storage.damaged", "storage.format"):
            raise
        report.add(error.place or str(journal), error.code, error.message)
        return report
    with env:
        index = _verify_tree(env, keys, known, report)
        report.runs = len(index.runs)
        report.notes += index.compare(env, report.size, report.add)
    if artifacts is not None:
        _verify_artifacts(artifacts, index, report)
    report.faults.sort(key=_order)
    return report


def _verify_tree(
    env: Environment, keys: Sequence[VerifierKey], known: Sequence[bytes], report: Report
) -> Index:
    """Goes through the log from checkpoint to checkpoint."""
    index = Index()
    frontier: Frontier | None = Frontier()
    start = 0
    signed: dict[int, bytes] = {}
    for size, time_ms, note in _checkpoints(env):
        checkpoint = _checked_note(size, note, keys, report)
        if checkpoint is not None:
            report.size, report.root = checkpoint.size, checkpoint.root
            report.checkpoints += 1
            signed[size] = checkpoint.root
        group = Group.read(env, start, size, report.add)
        if frontier is not None:
            frontier = group.judge(frontier, signed.get(size), report.add)
        if frontier is None:
            frontier = _frontier_from_nodes(env, size, signed.get(size))
        for seq, event in group.events(report.add):
            index.add(seq, event, report.add)
        if checkpoint is not None and not group.bad and index.latest_ms != time_ms:
            report.add(
                f"checkpoint {size}", "log.clock", "The clock noted beside it is not its entries' latest."
            )
        start = size
    report.size = start
    _check_tail(env, index, start, report)
    _check_known(known, keys, signed, start, report)
    return index


def _check_structure(folder: Path) -> None:
    """Walks the file's pages. Beside a living writer a walk may meet pages in mid-change; then it is done again."""
    frame = check_light(folder)
    for _ in range(4):
        try:
            check_full(folder)
            return
        except StorageError:
            now = check_light(folder)
            if now == frame:
                raise
            frame = now
    # A file that grows faster than it can be walked has a writer, which walked it before it began.


def _checkpoints(env: Environment) -> Iterator[tuple[int, int, bytes]]:
    """(size, latest clock reading, note) of every checkpoint that was there at the beginning, in order, read in pages."""

    def last(transaction: Transaction) -> int:
        cursor = transaction.cursor(db=env.database(schema.CHECKPOINTS))
        return number(cursor.key()) if cursor.last() else -1

    end = env.read(last)
    after = 0
    while after <= end:

        def work(transaction: Transaction, first: int = after) -> list[tuple[int, int, bytes]]:
            cursor = transaction.cursor(db=env.database(schema.CHECKPOINTS))
            page: list[tuple[int, int, bytes]] = []
            found = cursor.set_range(number_key(first))
            while found and len(page) < READ_PAGE_ENTRIES_MAX and number(cursor.key()) <= end:
                record = cursor.value()
                page.append((number(cursor.key()), number(record[:8]), record[8:]))
                found = cursor.next()
            return page

        page = env.read(work)
        yield from page
        after = page[-1][0] + 1


def _checked_note(size: int, note: bytes, keys: Sequence[VerifierKey], report: Report) -> Checkpoint | None:
    place = f"checkpoint {size}"
    try:
        checkpoint = verify(note, keys)
    except (LogError, AuthorityError) as error:
        report.add(place, error.code, error.message)
        return None
    if checkpoint.size != size:
        report.add(
            place, "log.checkpoint_differs", f"The checkpoint kept here is one of {checkpoint.size} entries."
        )
        return None
    return checkpoint


def _frontier_from_nodes(env: Environment, size: int, root: bytes | None) -> Frontier | None:
    """A place to go on from after entries that do not fit: the stored nodes, where they give the signed root."""
    view = JournalView(env, ())
    try:
        frontier = view.frontier(size)
    except LogError:
        return None
    return frontier if frontier.root() == root else None


def _check_tail(env: Environment, index: Index, size: int, report: Report) -> None:
    def work(transaction: Transaction) -> tuple[int, int, int]:
        entries = transaction.cursor(db=env.database(schema.ENTRIES))
        notes = transaction.cursor(db=env.database(schema.CHECKPOINTS))
        epoch = JournalView(env, ()).epoch_in(transaction)
        last_note = number(notes.key()) if notes.last() else 0
        return (number(entries.key()) + 1 if entries.last() else 0), last_note, epoch

    stored, signed, epoch = env.read(work)
    if stored > max(signed, size):
        report.add(
            f"entry {max(signed, size)}", "log.entry_unsigned", "No checkpoint covers the last entries."
        )
    if epoch < index.epoch:
        report.add(
            "epoch", "log.epoch", f"Epoch {epoch} is noted as the newest, but an entry names {index.epoch}."
        )


def _check_known(
    known: Sequence[bytes], keys: Sequence[VerifierKey], signed: dict[int, bytes], size: int, report: Report
) -> None:
    """Compares with checkpoints that were kept elsewhere: the log must still hold each of them."""
    for note in known:
        try:
            kept = verify(note, keys)
        except (LogError, AuthorityError) as error:
            report.add("known checkpoint", error.code, error.message)
            continue
        if kept.size > size:
            message = f"The log once had {kept.size} entries and now has {size}."
            report.add(f"entry {size}", "log.truncated", message)
        elif kept.size and signed.get(kept.size) != kept.root:
            message = f"The first {kept.size} entries are not those of a checkpoint that was kept elsewhere."
            report.add(f"checkpoint {kept.size}", "log.rewritten", message)


def _verify_artifacts(folder: Path, index: Index, report: Report) -> None:
    """Reads every artifact that an entry names; erased ones are notes, one a run."""
    if not index.artifacts:
        return
    try:
        store = ArtifactStore.open(folder, writer=False)
    except StorageError as error:
        report.add(
            str(folder), error.code, f"The artifacts that entries name cannot be read: {error.message}"
        )
        return
    with store:
        erased: dict[str, int] = {}
        for (run_id, digest), seq in index.artifacts.items():
            try:
                store.get(run_id, digest)
                report.artifacts += 1
            except DulyError as error:
                if error.code == "log.artifact_erased":
                    erased[run_id] = erased.get(run_id, 0) + 1
                else:
                    report.add(f"entry {seq}", error.code, f"Artifact {digest}: {error.message}")
        report.notes += [
            Fault(f"run {run_id}", "log.artifact_erased", f"Artifacts of this run that were erased: {count}.")
            for run_id, count in erased.items()
        ]


def _order(fault: Fault) -> tuple[int, int]:
    """Entries by number, a checkpoint after the entries that it covers, everything else last."""
    what, _, number_text = fault.path.partition(" ")
    if what == "entry" and number_text.isdigit():
        return int(number_text), 0
    if what == "checkpoint" and number_text.isdigit():
        return int(number_text), -1
    return 1 << 63, 0
