"""Whatever is changed in a journal or an artifact is found, and the first bad entry named (attack list 1 to 6, 13)."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.log.checkpoint import Checkpoint, VerifierKey, sign
from duly.protocol.log.merkle import Frontier, append, leaf_hash
from duly.protocol.wire.errors import StorageError
from duly.protocol.wire.limits import ARTIFACT_INLINE_BYTES_MAX
from duly.storage.artifacts import ArtifactStore
from duly.storage.fsck import Report, verify_journal
from duly.storage.journal import Journal
from duly.storage.journal_schema import number_key, split_record
from duly.storage.lmdb_env import Environment

MakeEvent = Callable[..., dict[str, Any]]
Tamper = Callable[[Path, str, bytes, bytes | None], None]
ORIGIN = "duly.test/log"
GROUPS = (1, 3, 1, 4, 2)
SIZE = sum(GROUPS)
ENDS = (1, 4, 5, 9, 11)


class Log:
    """A small journal on disk with what its tests change."""

    def __init__(self, folder: Path, key: Ed25519PrivateKey, make_event: MakeEvent, tamper: Tamper) -> None:
        self.folder = folder
        self.key = key
        self.verifier = VerifierKey.of(ORIGIN, key)
        self._tamper = tamper
        with Journal.open(folder, key, ORIGIN) as journal:
            journal.take_epoch()
            numbers = iter(range(SIZE))
            for count in GROUPS:
                group = itertools.islice(numbers, count)
                journal.append([make_event(f"run-{n % 3}", epoch=1, facts={"number": n}) for n in group])

    def all(self, database: str) -> dict[bytes, bytes]:
        with lmdb.open(str(self.folder), max_dbs=32, readonly=True) as env:
            handle = env.open_db(database.encode(), create=False)
            with env.begin(db=handle) as transaction:
                return {bytes(key): bytes(value) for key, value in transaction.cursor()}

    def change(self, database: str, key: bytes, value: bytes | None) -> None:
        self._tamper(self.folder, database, key, value)

    def verify(self, **more: Any) -> Report:
        return verify_journal(self.folder, [self.verifier], **more)

    def first(self) -> tuple[str, str]:
        """Place and code of the first fault."""
        report = self.verify()
        assert not report.ok
        return report.faults[0].path, report.faults[0].code


@pytest.fixture
def log(tmp_path: Path, log_key: Ed25519PrivateKey, make_event: MakeEvent, tamper: Tamper) -> Log:
    return Log(tmp_path / "journal", log_key, make_event, tamper)


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def test_a_sound_log(log: Log) -> None:
    report = log.verify()
    assert report.ok and report.notes == []
    assert (report.size, report.checkpoints, report.runs, report.artifacts) == (SIZE, len(GROUPS), 3, 0)


def test_an_empty_log(tmp_path: Path, log_key: Ed25519PrivateKey) -> None:
    Journal.open(tmp_path / "journal", log_key, ORIGIN).close()
    report = verify_journal(tmp_path / "journal", [VerifierKey.of(ORIGIN, log_key)])
    assert (report.ok, report.size) == (True, 0)


@pytest.mark.parametrize("seq", range(SIZE))
def test_any_flipped_byte_of_an_entry_names_it(log: Log, seq: int) -> None:
    record = log.all("entries")[number_key(seq)]
    nodes = len(split_record(seq, record)[0])
    for at in range(nodes, len(record), 9):
        log.change("entries", number_key(seq), flipped(record, at, at % 8))
        assert log.first() == (f"entry {seq}", "log.entry_changed")
    log.change("entries", number_key(seq), record)
    assert log.verify().ok


@pytest.mark.parametrize("seq", range(SIZE))
def test_any_flipped_byte_of_a_node_names_its_entry(log: Log, seq: int) -> None:
    record = log.all("entries")[number_key(seq)]
    for at in range(0, len(split_record(seq, record)[0]), 5):
        log.change("entries", number_key(seq), flipped(record, at, at % 8))
        assert log.first() == (f"entry {seq}", "log.node_changed")


@pytest.mark.parametrize("size", ENDS)
def test_any_flipped_byte_of_a_checkpoint_names_it(log: Log, size: int) -> None:
    record = log.all("checkpoints")[number_key(size)]
    for at in range(len(record)):
        log.change("checkpoints", number_key(size), flipped(record, at))
        path, code = log.first()
        assert path == f"checkpoint {size}" and code.startswith("log."), (at, path, code)
    log.change("checkpoints", number_key(size), record)
    assert log.verify().ok


def test_two_swapped_entries(log: Log) -> None:
    entries = log.all("entries")
    log.change("entries", number_key(5), entries[number_key(7)])
    log.change("entries", number_key(7), entries[number_key(5)])
    assert log.first()[0] == "entry 5"


def test_a_deleted_entry(log: Log) -> None:
    log.change("entries", number_key(6), None)
    assert log.first() == ("entry 6", "log.entry_missing")


def test_a_duplicated_entry(log: Log) -> None:
    log.change("entries", number_key(SIZE), log.all("entries")[number_key(SIZE - 1)])
    assert log.first() == (f"entry {SIZE}", "log.entry_unsigned")


def test_an_entry_replaced_together_with_its_hash_names_its_group(log: Log) -> None:
    record = log.all("entries")[number_key(7)]
    nodes, leaf = split_record(7, record)
    other = leaf.replace(b"run-1", b"run-2")
    assert other != leaf
    log.change("entries", number_key(7), leaf_hash(other) + nodes[32:] + other)
    report = log.verify()
    assert (report.faults[0].path, report.faults[0].code) == ("entry 6", "log.entries_replaced")
    assert "entries 5 to 8" in report.faults[0].message


def test_an_even_entry_replaced_together_with_its_hash(log: Log) -> None:
    nodes, leaf = split_record(6, log.all("entries")[number_key(6)])
    other = leaf.replace(b"run-0", b"run-2")
    log.change("entries", number_key(6), leaf_hash(other) + nodes[32:] + other)
    assert log.first() == ("entry 6", "log.entries_replaced")


def test_several_faults_are_named_in_order(log: Log) -> None:
    entries = log.all("entries")
    for seq in (8, 2, 10):
        log.change(
            "entries", number_key(seq), flipped(entries[number_key(seq)], len(entries[number_key(seq)]) - 1)
        )
    log.change("checkpoints", number_key(5), b"x" * 90)
    report = log.verify()
    named = [fault.path for fault in report.faults if not fault.path.startswith("run")]
    assert named == ["entry 2", "checkpoint 5", "entry 8", "entry 10"]


def test_a_removed_last_checkpoint(log: Log) -> None:
    log.change("checkpoints", number_key(SIZE), None)
    assert log.first() == ("entry 9", "log.entry_unsigned")


def test_a_removed_middle_checkpoint_is_covered_by_the_next(log: Log) -> None:
    log.change("checkpoints", number_key(5), None)
    report = log.verify()
    assert report.ok and report.checkpoints == len(GROUPS) - 1


def test_all_checkpoints_removed(log: Log) -> None:
    for size in ENDS:
        log.change("checkpoints", number_key(size), None)
    assert log.first() == ("entry 0", "log.entry_unsigned")


def test_checkpoints_swapped(log: Log) -> None:
    notes = log.all("checkpoints")
    log.change("checkpoints", number_key(4), notes[number_key(5)])
    assert log.first() == ("checkpoint 4", "log.checkpoint_differs")


def test_a_cut_off_tail_and_a_restored_backup_are_found_by_a_kept_checkpoint(
    log: Log, tmp_path: Path
) -> None:
    kept = log.all("checkpoints")[number_key(SIZE)][8:]
    assert log.verify(known=[kept]).ok
    for seq in range(9, SIZE):
        log.change("entries", number_key(seq), None)
    log.change("checkpoints", number_key(SIZE), None)
    report = log.verify(known=[kept])
    assert (report.faults[0].path, report.faults[0].code) == ("entry 9", "log.truncated")


def test_a_tail_rewritten_with_a_stolen_key_is_found_by_a_kept_checkpoint(
    log: Log, make_event: MakeEvent, tmp_path: Path
) -> None:
    kept = log.all("checkpoints")[number_key(SIZE)][8:]
    with Journal.open(tmp_path / "forged", log.key, ORIGIN) as forged:
        forged.take_epoch()
        forged.append([make_event(epoch=1) for _ in range(SIZE)])
    report = verify_journal(tmp_path / "forged", [log.verifier])
    assert report.ok
    report = verify_journal(tmp_path / "forged", [log.verifier], known=[kept])
    assert [fault.code for fault in report.faults] == ["log.rewritten"]
    report = verify_journal(tmp_path / "forged", [log.verifier], known=[b"nonsense"])
    assert [fault.code for fault in report.faults] == ["log.note"]


def test_another_key_verifies_nothing(log: Log) -> None:
    other = VerifierKey.of(ORIGIN, Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))))
    report = verify_journal(log.folder, [other])
    assert report.faults[0].code == "log.unsigned"
    assert report.checkpoints == 0
    assert verify_journal(log.folder, [other, log.verifier]).ok


def test_a_signed_entry_that_is_no_event_is_named(log: Log) -> None:
    """Whoever has the log's key can sign anything; what is no event is still found."""
    records = log.all("entries")
    hashes = [split_record(seq, records[number_key(seq)])[0][:32] for seq in range(SIZE)]
    leaf = b"\x81\xa1a\x01"
    growth = append(Frontier(), [*hashes, leaf_hash(leaf)])
    log.change("entries", number_key(SIZE), growth.completed[-1] + leaf)
    note = sign(Checkpoint(ORIGIN, SIZE + 1, growth.frontier.root()), log.key)
    log.change("checkpoints", number_key(SIZE + 1), bytes(8) + note)
    assert log.first() == (f"entry {SIZE}", "log.event")


def test_the_run_index_is_compared_with_the_entries(log: Log) -> None:
    runs = log.all("runs")
    group = next(key for key in runs if key.startswith(b"run-1\0") and len(key) > 6)
    changes: list[tuple[str, bytes, bytes | None]] = [
        ("runs", group, None),
        ("runs", group, number_key(0) + runs[group]),
        ("runs", b"run-1\0", None),
        ("runs", b"run-1\0", runs[b"run-2\0"]),
        ("runs", b"run-9\0", runs[b"run-2\0"]),
        ("run_starts", number_key(1), None),
        ("run_starts", number_key(1), b"run-2"),
    ]
    for database, key, value in changes:
        before = log.all(database).get(key)
        log.change(database, key, value)
        report = log.verify()
        assert {fault.code for fault in report.faults} == {"log.index"}, (database, key)
        log.change(database, key, before)
    assert log.verify().ok


def test_a_forgotten_epoch_is_found(log: Log) -> None:
    log.change("meta", b"epoch", number_key(0))
    assert log.first() == ("epoch", "log.epoch")


def test_clocks_that_stepped_back_are_noted_and_their_notes_compared(log: Log, make_event: MakeEvent) -> None:
    with Journal.open(log.folder, log.key, ORIGIN) as journal:
        journal.append([make_event(epoch=1, time_ms=5)])
    report = log.verify()
    assert report.ok
    assert [(note.path, note.code) for note in report.notes] == [(f"entry {SIZE}", "log.clock_back")]
    log.change("anomalies", number_key(SIZE), None)
    assert log.first() == (f"entry {SIZE}", "log.anomaly")


def test_a_damaged_file_is_a_fault_and_no_signal(log: Log) -> None:
    path = log.folder / "data.mdb"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert log.first()[1] == "storage.damaged"
    path.write_bytes(b"nothing like it" * 1_000)
    assert log.first()[1] == "storage.format"


def test_nothing_to_verify(tmp_path: Path, log: Log) -> None:
    with pytest.raises(StorageError) as caught:
        verify_journal(tmp_path / "nowhere", [log.verifier])
    assert caught.value.code == "storage.absent"


def test_it_reads_beside_a_living_writer(log: Log, make_event: MakeEvent, child: Callable[..., Any]) -> None:
    writer = child("journal_writer", log.folder.parent / "busy", 1)
    writer.hear()
    for _ in range(5):
        writer.hear()
        report = verify_journal(log.folder.parent / "busy", [log.verifier])
        assert report.faults == []
        assert report.size > 0
    writer.kill()


def test_a_run_begun_between_two_reads_is_no_fault(
    log: Log, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, begun = Environment.read, iter(range(12))

    def busy(env: Environment, work: Any) -> Any:
        """Somebody else begins a run after each of the first reads."""
        found = read(env, work)
        with monkeypatch.context() as patch:
            patch.setattr(Environment, "read", read)
            for number in itertools.islice(begun, 1):
                with Journal.open(log.folder, log.key, ORIGIN) as journal:
                    journal.append([make_event(f"late-{number}", epoch=1)])
        return found

    monkeypatch.setattr(Environment, "read", busy)
    assert log.verify().faults == [] and next(begun, None) is None


def test_it_writes_nothing(log: Log) -> None:
    before = (log.folder / "data.mdb").read_bytes()
    log.verify()
    assert (log.folder / "data.mdb").read_bytes() == before


@pytest.fixture
def kept(log: Log, make_event: MakeEvent, tmp_path: Path) -> dict[str, str]:
    """Two artifacts that the last entries of two runs name: one inside the LMDB file, one a file of its own."""
    with ArtifactStore.open(tmp_path / "artifacts") as store:
        small = store.put("run-1", b"a small output")
        large = store.put("run-2", b"x" * (ARTIFACT_INLINE_BYTES_MAX + 1))
    with Journal.open(log.folder, log.key, ORIGIN) as journal:
        journal.append(
            [
                make_event("run-1", epoch=1, artifacts={"output": small}),
                make_event("run-2", epoch=1, artifacts={"output": large}),
            ]
        )
    return {"small": small, "large": large}


def test_artifacts_are_read_and_hashed(log: Log, kept: dict[str, str], tmp_path: Path) -> None:
    report = log.verify(artifacts=tmp_path / "artifacts")
    assert report.ok and report.artifacts == 2


def test_any_flipped_byte_of_an_artifact_names_the_entry(
    log: Log, kept: dict[str, str], tmp_path: Path, tamper: Tamper
) -> None:
    folder = tmp_path / "artifacts"
    key = b"run-1\0" + bytes.fromhex(kept["small"])
    for at in range(14):
        tamper(folder, "values", key, flipped(b"\0a small output", at + 1))
        report = log.verify(artifacts=folder)
        assert [(fault.path, fault.code) for fault in report.faults] == [
            (f"entry {SIZE}", "log.artifact_changed")
        ]
        assert kept["small"] in report.faults[0].message
    assert log.verify().ok  # the tree itself is sound
    tamper(folder, "values", key, b"\0a small output")
    path = folder / "files" / "run-2" / kept["large"]
    whole = path.read_bytes()
    for changed in (flipped(whole, 0), flipped(whole, len(whole) - 1), whole[:-1], whole + b"x", b""):
        path.write_bytes(changed)
        report = log.verify(artifacts=folder)
        assert [(fault.path, fault.code) for fault in report.faults] == [
            (f"entry {SIZE + 1}", "log.artifact_changed")
        ]


def test_missing_artifacts_are_named(log: Log, kept: dict[str, str], tmp_path: Path, tamper: Tamper) -> None:
    folder = tmp_path / "artifacts"
    tamper(folder, "values", b"run-1\0" + bytes.fromhex(kept["small"]), None)
    (folder / "files" / "run-2" / kept["large"]).unlink()
    report = log.verify(artifacts=folder)
    assert [(fault.path, fault.code) for fault in report.faults] == [
        (f"entry {SIZE}", "log.artifact_missing"),
        (f"entry {SIZE + 1}", "log.artifact_missing"),
    ]


def test_a_lost_or_changed_salt_is_found(
    log: Log, kept: dict[str, str], tmp_path: Path, tamper: Tamper
) -> None:
    tamper(tmp_path / "artifacts", "salts", b"run-1", bytes(16))
    assert log.verify(artifacts=tmp_path / "artifacts").faults[0].code == "log.artifact_changed"
    tamper(tmp_path / "artifacts", "salts", b"run-1", None)
    assert log.verify(artifacts=tmp_path / "artifacts").faults[0].code == "log.artifact_missing"


def test_erased_artifacts_are_a_note_and_the_log_still_verifies(
    log: Log, kept: dict[str, str], tmp_path: Path
) -> None:
    with ArtifactStore.open(tmp_path / "artifacts") as store:
        assert store.erase("run-1") == 1
    report = log.verify(artifacts=tmp_path / "artifacts")
    assert report.ok and report.artifacts == 1
    assert [(note.path, note.code) for note in report.notes] == [("run run-1", "log.artifact_erased")]


def test_a_whole_artifact_store_that_is_gone(log: Log, kept: dict[str, str], tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "artifacts")
    report = log.verify(artifacts=tmp_path / "artifacts")
    assert report.faults[0].code == "storage.absent"
