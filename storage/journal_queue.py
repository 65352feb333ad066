"""Group commit: while one group is being flushed, the next ones are staged; all that wait go into one transaction.

The flush leaves the processor to others, so staging (checking, numbering, hashing) costs nothing while the disk is busy,
and the caller's thread is never held by it. Groups are staged optimistically behind ones that are not yet on disk: where
a commit fails, every group behind it fails with it, since its numbers and hashes rest on the failed one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, Self

from duly.protocol.wire.errors import StorageError
from duly.protocol.wire.limits import JOURNAL_GROUP_EVENTS_MAX, JOURNAL_WAITING_EVENTS_MAX

from .journal_stage import Staged, Tip, drafts_of, stage


class Committing(Protocol):
    """What the queue needs of a journal; `journal.Journal` and its twin in memory have it."""

    @property
    def tip(self) -> Tip: ...
    def epoch(self) -> int: ...
    def take_epoch(self) -> int: ...
    def commit(self, groups: Sequence[Staged]) -> None: ...


class _Waiting(NamedTuple):
    staged: Staged
    seqs: range
    answer: Future[list[int]]


class JournalQueue:
    """The one way into a journal while it runs: nobody else appends. Any thread may submit."""

    def __init__(self, journal: Committing) -> None:
        self._journal = journal
        self._staging = threading.Lock()  # taken first: one group after the other gets its numbers
        self._changed = threading.Condition()  # guards what waits
        self._waiting: deque[_Waiting] = deque()
        self._waiting_events = 0
        self._committing = False
        self._closed = False
        self._tip = journal.tip
        self._epoch = journal.epoch()
        self._thread = threading.Thread(target=self._run, name="journal-commits", daemon=True)
        self._thread.start()

    def submit(self, events: Iterable[Mapping[str, Any] | bytes]) -> Future[list[int]]:
        """Stages a group and returns at once; the answer holds its numbers once it is on disk.

        Answers come in the order of submission. Raises what ``Journal.append`` raises about the events themselves; what
        fails while writing is in the answer. Waits where too much waits already.
        """
        given = list(events)
        epoch = self._epoch
        drafts = drafts_of(given, epoch)
        answer: Future[list[int]] = Future()
        answer.set_running_or_notify_cancel()  # what was submitted is recorded, whoever stops waiting for it
        if not drafts:
            answer.set_result([])
            return answer
        # Never wait while holding the staging lock: after a failed commit the thread needs it to start again.
        self._wait_until(lambda: self._waiting_events <= JOURNAL_WAITING_EVENTS_MAX)
        with self._staging:
            if epoch != self._epoch:
                drafts = drafts_of(given, self._epoch)
            first = self._tip.frontier.size
            staged = stage(drafts, self._tip)
            with self._changed:
                self._check_open()
                self._tip = staged.tip
                self._waiting.append(_Waiting(staged, range(first, first + len(drafts)), answer))
                self._waiting_events += len(drafts)
                self._changed.notify_all()
        return answer

    def take_epoch(self) -> int:
        """The next epoch, after everything that was submitted before; see ``Journal.take_epoch``."""
        while True:
            self._wait_until(self._is_idle)
            with self._staging:
                with self._changed:
                    self._check_open()
                    if not self._is_idle():
                        continue
                self._epoch = self._journal.take_epoch()
                return self._epoch

    def close(self) -> None:
        """Waits until what was submitted is answered, then ends the thread. The journal stays open."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _is_idle(self) -> bool:
        return not self._waiting and not self._committing

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            while not holds() and not self._closed:
                self._changed.wait()
            self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("storage.closed", "The journal's queue was closed.")

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                groups = self._take()
                self._committing = True
            error = self._commit(groups)
            if error is not None:
                groups += self._start_again()
            for group in groups:
                if error is None:
                    group.answer.set_result(list(group.seqs))
                else:
                    group.answer.set_exception(error)
            with self._changed:
                self._committing = False
                self._changed.notify_all()

    def _take(self) -> list[_Waiting]:
        """The groups that fit into one transaction, at least one."""
        groups = [self._waiting.popleft()]
        count = len(groups[0].seqs)
        while self._waiting and count + len(self._waiting[0].seqs) <= JOURNAL_GROUP_EVENTS_MAX:
            groups.append(self._waiting.popleft())
            count += len(groups[-1].seqs)
        self._waiting_events -= count
        return groups

    def _commit(self, groups: Sequence[_Waiting]) -> BaseException | None:
        try:
            self._journal.commit([group.staged for group in groups])
        except BaseException as error:
            # Whatever it is, a mistake of ours included: nobody may wait for ever because of it.
            return error
        return None

    def _start_again(self) -> list[_Waiting]:
        """After a failed commit: takes out every group that was staged behind it, and stages from the disk's tip."""
        with self._staging, self._changed:
            behind = list(self._waiting)
            self._waiting.clear()
            self._waiting_events = 0
            self._tip = self._journal.tip
            return behind
