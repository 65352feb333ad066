"""What runs have spent on models: a file that both model hosts share, so that one budget bounds them together.

Lines of ASCII, appended: ``<expires_ms> <run_id> <tokens> <cost>``. A call is booked with all that it may take before
anything is sent, and the difference when it has ended; a host that dies in between leaves it booked. A line goes to the
kernel before the call goes out, which outlives the death of any process; a machine that loses power may forget the last
lines, and the harness's own books still hold them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from duly.protocol.wire.errors import ModelError, RuntimeFault
from duly.protocol.wire.ids import is_name

_REWRITE_BYTES = 1 << 20  # when the file is this long, runs whose mandates have expired are dropped


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, and millionths of the price list's currency."""

    tokens: int = 0
    cost: int = 0

    def plus(self, tokens: int, cost: int) -> Spent:
        return Spent(self.tokens + tokens, self.cost + cost)


class RunLedger:
    """The books. Every method takes the lock of the file for as long as it takes to read and append a line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._read_bytes = 0
        self._inode = 0
        self._spent: dict[str, Spent] = {}
        self._expires: dict[str, int] = {}

    def spent(self, run_id: str) -> Spent:
        """What a run has spent, open calls included."""
        with self._locked():
            return self._spent.get(run_id, Spent())

    def book(self, run_id: str, tokens: int, cost: int, *, left: tuple[int, int], expires_ms: int) -> None:
        """Books what a call may take. ``left`` are the limits of the run. Raises ``ModelError`` ``model.budget``."""
        if not is_name(run_id):
            raise ModelError("model.budget", "This is no name of a run.")
        with self._locked() as fd:
            now = self._spent.get(run_id, Spent()).plus(tokens, cost)
            if now.tokens > left[0] or now.cost > left[1]:
                raise ModelError("model.budget", "The run's budget for models does not hold this call.")
            self._append(fd, run_id, tokens, cost, expires_ms)

    def settle(self, run_id: str, tokens: int, cost: int, *, expires_ms: int) -> None:
        """Books the difference to what a call was booked with; negative where it took less."""
        if tokens or cost:
            with self._locked() as fd:
                self._append(fd, run_id, tokens, cost, expires_ms)

    def drop_expired(self, now_ms: int) -> None:
        """Forgets the runs whose mandates have expired, where the file has become long."""
        with self._locked() as fd:
            if os.fstat(fd).st_size < _REWRITE_BYTES:
                return
            kept = {run: spent for run, spent in self._spent.items() if self._expires[run] >= now_ms}
            lines = [_line(self._expires[run], run, one.tokens, one.cost) for run, one in kept.items()]
            aside = self._path.with_name(self._path.name + ".new")
            with open(
                os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii"
            ) as file:
                file.write("".join(lines))
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, self._path)

    def _append(self, fd: int, run_id: str, tokens: int, cost: int, expires_ms: int) -> None:
        line = _line(expires_ms, run_id, tokens, cost).encode("ascii")
        os.write(fd, line)
        self._take(line)

    def _take(self, data: bytes) -> None:
        for number, line in enumerate(data.splitlines(), 1):
            match line.decode("ascii", "replace").split(" "):
                case [expires, run_id, tokens, cost] if expires.isdigit() and _whole(tokens) and _whole(cost):
                    self._spent[run_id] = self._spent.get(run_id, Spent()).plus(int(tokens), int(cost))
                    self._expires[run_id] = int(expires)
                case _:
                    raise RuntimeFault(
                        "runtime.ledger_damaged",
                        f"The books of the model hosts hold a line that this version does not write (line {number}).",
                        place=str(self._path),
                        hint="Restore the file; without it runs could spend their budget for models again.",
                    )
        self._read_bytes += len(data)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        lock = os.open(
            self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                self._catch_up(fd)
                yield fd
            finally:
                os.close(fd)
        finally:
            os.close(lock)

    def _catch_up(self, fd: int) -> None:
        """Reads what the other host has written since; a last line without its end was cut by a crash and is ended."""
        state = os.fstat(fd)
        if state.st_ino != self._inode or state.st_size < self._read_bytes:
            self._inode, self._read_bytes = state.st_ino, 0
            self._spent.clear()
            self._expires.clear()
        data = os.pread(fd, state.st_size - self._read_bytes, self._read_bytes)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.ftruncate(fd, self._read_bytes + len(whole))
        self._take(whole)


def _line(expires_ms: int, run_id: str, tokens: int, cost: int) -> str:
    return f"{expires_ms} {run_id} {tokens} {cost}\n"


def _whole(text: str) -> bool:
    return text.removeprefix("-").isdigit()
