"""What a host must not forget: the highest epoch it has seen, and which grants it has used.

A write host keeps both in a file and forces them to disk before it acts on them, so that no restart lets a grant act
twice or an old harness act again. A read host keeps them in memory: its calls change nothing.

The file is lines of ASCII, appended: ``epoch <number>``, ``nonce <expires_ms> <nonce>`` for a used grant, ``void
<expires_ms> <nonce>`` for one that will never be used, ``since <ms>``: what was granted before may be forgotten. A crash
while appending leaves at most one line without its end, about something that has not been acted on; it is dropped at the
next start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from duly.protocol.wire.errors import AuthorityError, RuntimeFault
from duly.protocol.wire.ids import is_name
from duly.protocol.wire.limits import NONCE_KEPT_SECONDS

_PRUNE_AT = 10_000


class Ledger:
    """The one that is kept in memory."""

    def __init__(self) -> None:
        self.epoch = 0
        self.since_ms = 0
        self._nonces: dict[str, int] = {}
        self._void: set[str] = set()

    def raise_epoch(self, epoch: int) -> None:
        """Takes a higher epoch; a lower one changes nothing."""
        if epoch > self.epoch:
            self._record([f"epoch {epoch}"])
            self.epoch = epoch

    def use(self, nonces: Iterable[tuple[str, int]], now_ms: int) -> list[AuthorityError | None]:
        """Marks grants (nonce, expiry) as used, durably where this ledger is; ``None`` for each that was fresh."""
        refusals: list[AuthorityError | None] = []
        fresh: dict[str, int] = {}
        for nonce, expires_ms in nonces:
            if not is_name(nonce):
                refusals.append(AuthorityError("grant.malformed", "The nonce of this grant is no name."))
            elif nonce in self._nonces or nonce in fresh:
                refusals.append(AuthorityError("grant.replayed", "This grant has been used before."))
            else:
                fresh[nonce] = expires_ms
                refusals.append(None)
        # True if we crash before this line: nothing ran. After it: the grants count as used, whatever happened.
        self._record([f"nonce {expires_ms} {nonce}" for nonce, expires_ms in fresh.items()])
        self._nonces |= fresh
        if len(self._nonces) > _PRUNE_AT:
            self._prune(now_ms)
        return refusals

    def settle(self, nonce: str, granted_ms: int, expires_ms: int) -> Literal["void", "used", "forgotten"]:
        """Whether a grant was used. One that was not is void from then on, durably before this returns.

        A grant of a time before ``since_ms`` may have been used and forgotten.
        """
        if nonce in self._void:
            return "void"
        if nonce in self._nonces:
            return "used"
        if granted_ms < self.since_ms:
            return "forgotten"
        if not is_name(nonce):
            raise AuthorityError("grant.malformed", "The nonce of this grant is no name.")
        # No crash and no late executor can use it after this line; before it nobody was told that it is void.
        self._record([f"void {expires_ms} {nonce}"])
        self._nonces[nonce] = expires_ms
        self._void.add(nonce)
        return "void"

    def close(self) -> None:
        """Nothing to let go of."""

    def _record(self, lines: list[str]) -> None:
        """Nothing to write."""

    def _prune(self, now_ms: int) -> None:
        oldest_ms = now_ms - NONCE_KEPT_SECONDS * 1_000
        self._nonces = {nonce: expires for nonce, expires in self._nonces.items() if expires >= oldest_ms}
        self._void &= self._nonces.keys()
        self.since_ms = max(self.since_ms, oldest_ms)


class DurableLedger(Ledger):
    """The one of a write host. Holds a lock on its file: a second write host over the same state is refused."""

    def __init__(self, path: Path, now_ms: int) -> None:
        super().__init__()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._lock = _locked(path.with_name(path.name + ".lock"))
        self._load(now_ms)
        self._prune(now_ms)
        self._rewrite()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._lock)

    def _record(self, lines: list[str]) -> None:
        if not lines:
            return
        data = "".join(line + "\n" for line in lines).encode("ascii")
        end = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, data)
            os.fdatasync(self._fd)
        except OSError:
            written = -1
        if written != len(data):
            # A write of the kernel may be partial when the disk is full. What stands there would spoil the next line; the
            # exception keeps the grants from running.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, end)
            raise RuntimeFault(
                "runtime.disk_full",
                "The write host cannot note which grants it uses, so it runs none.",
                place=str(self._path),
                hint="Make room on the disk of the data directory.",
            )

    def _load(self, now_ms: int) -> None:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            self.since_ms = now_ms
            return
        complete, _, _ = text.rpartition(b"\n")
        for number, line in enumerate(complete.decode("ascii", "replace").splitlines(), 1):
            match line.split(" "):
                case ["epoch", epoch] if epoch.isdigit():
                    self.epoch = max(self.epoch, int(epoch))
                case ["since", since] if since.isdigit():
                    self.since_ms = max(self.since_ms, int(since))
                case ["nonce" | "void" as kind, expires, nonce] if expires.isdigit() and is_name(nonce):
                    self._nonces[nonce] = int(expires)
                    if kind == "void":
                        self._void.add(nonce)
                case _:
                    raise RuntimeFault(
                        "runtime.ledger_damaged",
                        "The list of used grants holds a line that this version does not write.",
                        place=f"{self._path}:{number}",
                        hint="Restore the file; do not delete it: it keeps grants from acting twice.",
                    )

    def _line(self, nonce: str, expires_ms: int) -> str:
        return f"{'void' if nonce in self._void else 'nonce'} {expires_ms} {nonce}"

    def _rewrite(self) -> None:
        """Writes what is left aside and renames it: at every moment one whole file is there."""
        aside = self._path.with_name(self._path.name + ".new")
        lines = [
            f"since {self.since_ms}",
            f"epoch {self.epoch}",
            *(self._line(nonce, expires) for nonce, expires in self._nonces.items()),
        ]
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write("".join(line + "\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise RuntimeFault(
            "runtime.held", f"This state is held by process {holder}.", place=str(path.parent)
        ) from None
    os.ftruncate(fd, 0)
    os.write(fd, f"{os.getpid()}\n".encode())
    return fd
