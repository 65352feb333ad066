"""The journal on disk: reopening, other processes, failing commits, damaged entries (attack list 1, 12, 19)."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.log.checkpoint import VerifierKey, verify
from duly.protocol.wire.errors import DulyError, LogError, StorageError
from duly.storage import lmdb_handle
from duly.storage.fsck import verify_journal
from duly.storage.journal import Journal
from duly.storage.journal_reader import JournalReader
from duly.storage.journal_schema import number_key

MakeEvent = Callable[..., dict[str, Any]]
OpenJournal = Callable[[], Journal]
Tamper = Callable[[Path, str, bytes, bytes | None], None]
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DulyError) as caught:
        call()
    return caught.value.code


def stored(folder: Path, database: str, key: bytes) -> bytes:
    with lmdb.open(str(folder), max_dbs=32, readonly=True) as env:
        handle = env.open_db(database.encode(), create=False)
        with env.begin(db=handle) as transaction:
            value = transaction.get(key)
    assert value is not None
    return bytes(value)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_everything_is_there_after_reopening(open_journal: OpenJournal, make_event: MakeEvent) -> None:
    journal = open_journal()
    journal.take_epoch()
    journal.append([make_event(epoch=1), make_event("run-2", epoch=1, time_ms=5)])
    head, runs, anomalies = journal.head(), journal.runs(), journal.anomalies()
    journal.close()
    journal = open_journal()
    assert (journal.head(), journal.runs(), journal.anomalies(), journal.epoch()) == (
        head,
        runs,
        anomalies,
        1,
    )
    assert journal.take_epoch() == 2
    assert code_of(lambda: journal.append([make_event(epoch=1)])) == "log.stale_epoch"
    assert journal.append([make_event(epoch=2)]) == [2]
    run = journal.run("run-1")
    assert run is not None and run.entries == 2


def test_a_run_that_is_no_longer_in_memory_is_added_to(
    open_journal: OpenJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.storage.journal._SUMMARIES_MAX", 2)
    journal = open_journal()
    for number in range(30):
        journal.append([make_event(f"run-{number % 5}")])
    assert [run.entries for run in journal.runs()] == [6] * 5
    assert journal.run_seqs("run-3") == [3, 8, 13, 18, 23, 28]


def test_the_journal_keeps_its_name_and_its_key(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent, log_key: Ed25519PrivateKey
) -> None:
    journal = open_journal()
    journal.append([make_event()])
    journal.close()
    folder = tmp_path / "journal"
    assert code_of(lambda: Journal.open(folder, log_key, "duly.test/other")) == "log.origin"
    assert code_of(lambda: Journal.open(folder, OTHER, "duly.test/log")) == "log.unsigned"
    assert (
        code_of(lambda: JournalReader.open(folder, [VerifierKey.of("duly.test/log", OTHER)]))
        == "log.unsigned"
    )
    assert code_of(lambda: JournalReader.open(folder, [])) == "log.unsigned"
    assert open_journal().size == 1


def test_a_reader_of_nothing(tmp_path: Path) -> None:
    assert code_of(lambda: JournalReader.open(tmp_path / "journal", [])) == "storage.absent"


def test_another_process_reads_along(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent, child: Callable[..., Any]
) -> None:
    journal = open_journal()
    reader = child("journal_reader", tmp_path / "journal", journal.verifier)
    assert reader.hear() == "open"
    assert reader.ask("size") == "0 -"
    for count in (1, 4, 64):
        journal.append([make_event(f"run-{number % 3}") for number in range(count)])
        assert reader.ask("size") == f"{journal.size} {journal.head().root.hex()}"
    assert reader.ask("run run-2") == " ".join(map(str, journal.run_seqs("run-2")))
    assert reader.ask("runs") == "run-2 run-1 run-0"
    assert reader.ask("entry 3") == "step.succeeded"
    assert reader.ask("entry 999") == "log.entry_missing entry 999"
    assert reader.end() == 0


@pytest.mark.parametrize("seq", [0, 3, 6])
def test_a_flipped_byte_of_an_entry_is_refused_by_name(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent, tamper: Tamper, seq: int
) -> None:
    journal = open_journal()
    journal.append([make_event() for _ in range(7)])
    journal.close()
    folder = tmp_path / "journal"
    record = stored(folder, "entries", number_key(seq))
    tamper(folder, "entries", number_key(seq), flipped(record, len(record) - 1))
    journal = open_journal()
    for reading in (
        lambda: list(journal.read()),
        lambda: list(journal.read_run("run-1")),
        lambda: list(journal.entries([seq])),
    ):
        with pytest.raises(LogError, match="not those that were recorded") as caught:
            reading()
        assert (caught.value.code, caught.value.place) == ("log.entry_changed", f"entry {seq}")
    assert [entry.seq for entry in journal.read(0, seq)] == list(range(seq))


@pytest.mark.parametrize(
    ("database", "key", "change", "code"),
    [
        (
            "checkpoints",
            number_key(7),
            lambda note: note.replace(b"\n7\n", b"\n6\n"),
            "log.checkpoint_differs",
        ),
        ("checkpoints", number_key(7), lambda note: flipped(note, len(note) - 10), "log.signature"),
        ("checkpoints", number_key(7), lambda note: note[:9] + b"x", "log.note"),
        ("checkpoints", number_key(7), lambda note: None, "log.entry_unsigned"),
        ("entries", number_key(3), lambda record: flipped(record, 70), "log.checkpoint_differs"),
        ("entries", number_key(6), lambda record: None, "log.node_missing"),
    ],
)
def test_a_journal_whose_head_does_not_hold_does_not_open(
    tmp_path: Path,
    open_journal: OpenJournal,
    make_event: MakeEvent,
    tamper: Tamper,
    database: str,
    key: bytes,
    change: Callable[[bytes], bytes | None],
    code: str,
) -> None:
    journal = open_journal()
    journal.append([make_event() for _ in range(5)])
    journal.append([make_event() for _ in range(2)])
    journal.close()
    folder = tmp_path / "journal"
    tamper(folder, database, key, change(stored(folder, database, key)))
    assert code_of(open_journal) == code
    assert code_of(lambda: JournalReader.open(folder, [journal.verifier])) == code


def test_nobody_sees_a_signature_before_its_group_is_on_disk(
    open_journal: OpenJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between signing and committing, the log gets another group of the same size: one note was published."""
    journal = open_journal()
    journal.append([make_event()])
    published = [journal.head().note]

    def fail(handle: object, work: object) -> None:
        published.append(journal.head().note)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lmdb_handle.Handle, "_write_once", fail)
        assert code_of(lambda: journal.append([make_event(kind="lost")])) == "storage.full"
    published.append(journal.head().note)
    assert set(published) == {published[0]}
    assert journal.append([make_event(kind="kept")]) == [1]
    assert verify(journal.head().note, [journal.verifier]).size == 2
    assert [entry.event["kind"] for entry in journal.read()] == ["step.succeeded", "kept"]


def test_a_commit_that_failed_and_was_not_kept_may_be_repeated(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal()
    journal.append([make_event()])

    def fail(handle: object, work: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(lmdb_handle.Handle, "_write_once", fail)
        assert code_of(lambda: journal.append([make_event()])) == "storage.io"
    assert journal.append([make_event()]) == [1]
    journal.close()
    assert verify_journal(tmp_path / "journal", [journal.verifier]).ok


def test_a_commit_that_failed_and_was_kept_shuts_the_journal(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal()
    journal.append([make_event()])
    write_once = lmdb_handle.Handle._write_once

    def keep_and_fail(handle: Any, work: Any) -> None:
        write_once(handle, work)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(lmdb_handle.Handle, "_write_once", keep_and_fail)
        assert code_of(lambda: journal.append([make_event(kind="kept")])) == "storage.outcome_unknown"
    assert code_of(lambda: journal.append([make_event()])) == "storage.outcome_unknown"
    assert code_of(journal.take_epoch) == "storage.outcome_unknown"
    journal.close()
    journal = open_journal()
    assert [entry.event["kind"] for entry in journal.read()] == ["step.succeeded", "kept"]
    assert journal.append([make_event()]) == [2]
    journal.close()
    assert verify_journal(tmp_path / "journal", [journal.verifier]).ok


def test_an_epoch_whose_commit_failed_is_not_taken(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal()

    def fail(handle: object, work: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lmdb_handle.Handle, "_write_once", fail)
        assert code_of(journal.take_epoch) == "storage.full"
    assert journal.epoch() == 0
    assert journal.take_epoch() == 1


def test_a_full_disk_keeps_what_was_acknowledged(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent
) -> None:
    journal = open_journal()
    large = {"facts": {"padding": "x" * 20_000}}
    journal.append([make_event(**large)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    acknowledged = [0]
    resource.setrlimit(
        resource.RLIMIT_FSIZE, ((tmp_path / "journal" / "data.mdb").stat().st_size + 300_000, hard)
    )
    try:
        with pytest.raises(StorageError) as caught:
            for _ in range(100):
                acknowledged += journal.append([make_event(**large)])
        size_when_full = journal.size
        epoch_when_full = journal.epoch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == "storage.full"
    assert 1 < len(acknowledged) < 100
    assert (acknowledged, epoch_when_full) == (list(range(size_when_full)), 0)
    assert journal.append([make_event(**large)]) == [size_when_full]
    journal.close()
    report = verify_journal(tmp_path / "journal", [journal.verifier])
    assert report.ok and report.size == size_when_full + 1


def test_entries_that_appear_in_the_way_are_not_skipped(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent
) -> None:
    journal = open_journal()
    journal.append([make_event()])
    entries = journal._db("entries")
    journal._env.write(lambda transaction: transaction.put(number_key(5), b"x", db=entries))
    assert code_of(lambda: journal.append([make_event() for _ in range(3)])) == "log.entry_unsigned"
    assert journal.head().size == 1


def test_another_writer_behind_the_lock_is_noticed(
    tmp_path: Path, open_journal: OpenJournal, make_event: MakeEvent
) -> None:
    journal = open_journal()
    journal.append([make_event()])
    # The lock file was removed by hand, and somebody else wrote: what is in memory is no longer what is on disk.
    journal._head_now = journal._head_now._replace(time_ms=1)
    assert code_of(lambda: journal.append([make_event()])) == "storage.held"


def test_large_groups_and_entries_are_read_in_pages(open_journal: OpenJournal, make_event: MakeEvent) -> None:
    journal = open_journal()
    journal.append([make_event(facts={"padding": "x" * 60_000}) for _ in range(200)])
    journal.append([make_event() for _ in range(3_000)])
    assert [entry.seq for entry in journal.read()] == list(range(3_200))
    assert [entry.seq for entry in journal.read_run("run-1")] == list(range(3_200))
