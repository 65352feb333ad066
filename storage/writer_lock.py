"""The lock that keeps a store to one writer, and says who holds it.

A POSIX record lock (``fcntl``): the kernel drops it when its process dies, however it dies, and a forked child does not
inherit it. Its one trap, that closing *any* descriptor of the file in the holding process drops it, is avoided by
opening the file here and nowhere else, and by a table of the locks that this process holds.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from duly.protocol.wire.errors import StorageError

_HELD: dict[str, int] = {}  # path -> process that took it; a child sees its parent's number and is refused


class WriterLock:
    """The lock file of one store. Taken by ``take``, dropped by ``release`` or with the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = os.path.realpath(path)
        self._file: int | None = None

    def take(self) -> None:
        """Takes the lock or raises ``StorageError`` ``storage.held`` naming the process that has it."""
        if self._key in _HELD:
            raise _held(self._path, _HELD[self._key])
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.pread(file, 32, 0)
            os.close(file)
            raise _held(self._path, int(holder) if holder.strip().isdigit() else None) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode("ascii"), 0)
        _HELD[self._key] = os.getpid()
        self._file = file

    def release(self) -> None:
        """Drops the lock. Does nothing in a forked child, which never had it."""
        if self._file is None:
            return
        file, self._file = self._file, None
        if _HELD.get(self._key) == os.getpid():
            del _HELD[self._key]
            os.ftruncate(file, 0)
        os.close(file)


def _held(path: Path, process: int | None) -> StorageError:
    who = "another process" if process is None else f"process {process}"
    return StorageError(
        "storage.held",
        f"This store is held by {who}.",
        place=str(path.parent),
        hint="Ask the running duly for what you need, or stop it with `duly down`.",
    )
