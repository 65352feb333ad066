"""Group commit: order, failures that take along what rests on them, epochs, many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.wire.errors import DulyError, StorageError
from duly.storage.fsck import verify_journal
from duly.storage.journal import Journal
from duly.storage.journal_queue import JournalQueue
from duly.storage.journal_stage import Staged
from duly.storage.memory import MemoryJournal

MakeEvent = Callable[..., dict[str, Any]]
ORIGIN = "duly.test/log"
WAIT_SECONDS = 30


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DulyError) as caught:
        call()
    return caught.value.code


class Gate:
    """Holds a journal's commits back until they are let through, and can make them fail."""

    def __init__(self, journal: Journal | MemoryJournal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.error: StorageError | None = None
        self.commits: list[int] = []
        commit = journal.commit

        def held(groups: Sequence[Staged]) -> None:
            self.commits.append(len(groups))
            self.entered.set()
            assert self.open.wait(WAIT_SECONDS)
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            commit(groups)

        monkeypatch.setattr(journal, "commit", held)


@pytest.fixture(params=["disk", "memory"])
def journal(
    request: pytest.FixtureRequest, tmp_path: Path, log_key: Ed25519PrivateKey
) -> Iterator[Journal | MemoryJournal]:
    made = (
        Journal.open(tmp_path / "journal", log_key, ORIGIN)
        if request.param == "disk"
        else MemoryJournal(log_key)
    )
    yield made
    made.close()


def test_groups_are_answered_in_order(journal: Journal | MemoryJournal, make_event: MakeEvent) -> None:
    with JournalQueue(journal) as queue:
        answers = [queue.submit([make_event() for _ in range(count)]) for count in (1, 3, 0, 64, 2)]
        seqs = [answer.result(WAIT_SECONDS) for answer in answers]
    assert [len(group) for group in seqs] == [1, 3, 0, 64, 2]
    assert sum(seqs, []) == list(range(70))
    assert [entry.seq for entry in journal.read()] == list(range(70))
    assert journal.append([make_event()]) == [70]


def test_groups_that_wait_share_a_commit_and_stay_apart(
    journal: Journal | MemoryJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(journal, monkeypatch)
    with JournalQueue(journal) as queue:
        first = queue.submit([make_event("run-1")])
        assert gate.entered.wait(WAIT_SECONDS)
        behind = [queue.submit([make_event("run-1"), make_event(f"run-{number}")]) for number in range(2, 6)]
        assert not first.done() and journal.size == 0
        gate.open.set()
        assert [answer.result(WAIT_SECONDS) for answer in [first, *behind]] == [
            [0],
            [1, 2],
            [3, 4],
            [5, 6],
            [7, 8],
        ]
    assert gate.commits == [1, 4]
    assert journal.run_seqs("run-1") == [0, 1, 3, 5, 7]
    run = journal.run("run-1")
    assert run is not None and (run.entries, run.last_seq) == (5, 7)
    checkpoint = journal.checkpoint()
    assert checkpoint is not None and checkpoint.size == 9


def test_a_failed_commit_fails_what_was_staged_behind_it_and_no_more(
    journal: Journal | MemoryJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(journal, monkeypatch)
    with JournalQueue(journal) as queue:
        lost = [queue.submit([make_event(kind="lost")])]
        assert gate.entered.wait(WAIT_SECONDS)
        lost += [queue.submit([make_event(kind="lost")]) for _ in range(3)]
        gate.error = StorageError("storage.full", "The disk is full.")
        gate.open.set()
        for answer in lost:
            with pytest.raises(StorageError, match="full"):
                answer.result(WAIT_SECONDS)
        assert queue.submit([make_event(kind="kept")]).result(WAIT_SECONDS) == [0]
    assert [entry.event["kind"] for entry in journal.read()] == ["kept"]


def test_an_epoch_is_taken_behind_everything_submitted_before(
    journal: Journal | MemoryJournal, make_event: MakeEvent
) -> None:
    with JournalQueue(journal) as queue:
        answers = [queue.submit([make_event()]) for _ in range(5)]
        assert queue.take_epoch() == 1
        assert all(answer.done() for answer in answers)
        assert code_of(lambda: queue.submit([make_event()])) == "log.stale_epoch"
        assert queue.submit([make_event(epoch=1)]).result(WAIT_SECONDS) == [5]


def test_an_event_that_is_refused_touches_no_other_group(
    journal: Journal | MemoryJournal, make_event: MakeEvent
) -> None:
    with JournalQueue(journal) as queue:
        first = queue.submit([make_event()])
        assert code_of(lambda: queue.submit([make_event(), make_event(kind="")])) == "log.event"
        assert queue.submit([make_event()]).result(WAIT_SECONDS) == [1]
        assert first.result(WAIT_SECONDS) == [0]


def test_a_closed_queue_answers_what_it_took_and_takes_no_more(
    journal: Journal | MemoryJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(journal, monkeypatch)
    queue = JournalQueue(journal)
    answers = [queue.submit([make_event()]) for _ in range(3)]
    gate.open.set()
    queue.close()
    assert [answer.result(0) for answer in answers] == [[0], [1], [2]]
    assert code_of(lambda: queue.submit([make_event()])) == "storage.closed"
    assert code_of(queue.take_epoch) == "storage.closed"


def test_an_answer_that_nobody_waits_for_any_more_is_recorded_all_the_same(
    journal: Journal | MemoryJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(journal, monkeypatch)
    with JournalQueue(journal) as queue:
        answers = [queue.submit([make_event()]) for _ in range(2)]
        assert not any(answer.cancel() for answer in answers)
        gate.open.set()
    assert journal.size == 2


def test_many_threads_and_a_bounded_queue(
    tmp_path: Path, log_key: Ed25519PrivateKey, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.storage.journal_queue.JOURNAL_WAITING_EVENTS_MAX", 8)
    monkeypatch.setattr("duly.storage.journal_queue.JOURNAL_GROUP_EVENTS_MAX", 6)
    events = [make_event(f"run-{number}") for number in range(4)]
    taken: list[list[int]] = []
    with Journal.open(tmp_path / "journal", log_key, ORIGIN) as journal:
        with JournalQueue(journal) as queue:

            def work(event: dict[str, Any]) -> None:
                answers = [queue.submit([event] * 3) for _ in range(25)]
                taken.extend(answer.result(WAIT_SECONDS) for answer in answers)

            threads = [threading.Thread(target=work, args=(event,)) for event in events]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT_SECONDS)
        assert sorted(sum(taken, [])) == list(range(300))
        assert all(group == list(range(group[0], group[0] + 3)) for group in taken)
        for event in events:
            seqs = journal.run_seqs(event["run_id"])
            assert len(seqs) == 75 and seqs == sorted(seqs)
    assert verify_journal(tmp_path / "journal", [journal.verifier]).ok


def test_a_full_queue_waits_and_a_failure_empties_it(
    journal: Journal | MemoryJournal, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.storage.journal_queue.JOURNAL_WAITING_EVENTS_MAX", 2)
    gate = Gate(journal, monkeypatch)
    with JournalQueue(journal) as queue:
        answers = [queue.submit([make_event()])]
        assert gate.entered.wait(WAIT_SECONDS)
        answers += [queue.submit([make_event()] * 3)]
        late: list[list[int]] = []
        thread = threading.Thread(
            target=lambda: late.append(queue.submit([make_event()]).result(WAIT_SECONDS))
        )
        thread.start()
        gate.error = StorageError("storage.full", "The disk is full.")
        gate.open.set()
        for answer in answers:
            with pytest.raises(StorageError):
                answer.result(WAIT_SECONDS)
        thread.join(WAIT_SECONDS)
        assert late == [[0]]
