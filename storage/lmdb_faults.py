"""What LMDB and the operating system raise, said as a ``StorageError`` that a person can act on."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from duly.protocol.wire.errors import StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_ROOM_BYTES = 1 << 20  # where there is less, a write that failed was cut short


@contextmanager
def faults(folder: Path) -> Iterator[None]:
    """Turns errors of LMDB and of the file system inside the block into ``StorageError``."""
    try:
        yield
    except (lmdb.Error, OSError) as error:
        raise to_storage_error(error, folder) from error


def to_storage_error(error: lmdb.Error | OSError, folder: Path) -> StorageError:
    """The ``StorageError`` for an error that came up at ``folder``."""
    place = str(folder)
    number = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    if number in _FULL or isinstance(error, lmdb.DiskError) or (number == errno.EIO and _is_full(folder)):
        return StorageError(
            "storage.full",
            "The disk is full; nothing more can be recorded.",
            place=place,
            hint="Free some space; then the same command goes on.",
        )
    if number in _DENIED or isinstance(error, (lmdb.ReadonlyError, PermissionError)):
        return StorageError(
            "storage.denied",
            "This folder may not be written or read by this user.",
            place=place,
            hint="Check its owner and permissions, or set DULY_HOME.",
        )
    if isinstance(error, lmdb.BadValsizeError):
        return StorageError(
            "storage.key_too_large", "A key of more than 511 bytes cannot be stored.", place=place
        )
    if isinstance(error, lmdb.ReadersFullError):
        return StorageError("storage.readers", "Too many processes read this store at once.", place=place)
    if isinstance(
        error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.VersionMismatchError)
    ):
        return StorageError(
            "storage.damaged",
            f"This store's file is damaged: {error}.",
            place=place,
            hint="Restore it from a backup.",
        )
    return StorageError("storage.io", f"The store could not be read or written: {error}.", place=place)


def _is_full(folder: Path) -> bool:
    """Whether an EIO at ``folder`` is a write cut short, which LMDB does not tell from a failing disk.

    Looks at the process's limit on file sizes, then asks the file system for the room itself: that also finds quotas.
    """
    try:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        longest = max((entry.stat().st_size for entry in os.scandir(folder)), default=0)
        if limit != resource.RLIM_INFINITY and longest + _ROOM_BYTES > limit:
            return True
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_ROOM_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno in _FULL
    return False
