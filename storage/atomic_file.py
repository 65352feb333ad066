"""Files that appear whole or not at all: written aside, flushed, then given their name."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from .lmdb_file import sync_path


def write_aside(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """A flushed file beside ``path``, under a name of its own, that nobody looks at yet."""
    aside = path.with_name(f".{path.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.part")
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    except BaseException:
        os.close(file)
        os.unlink(aside)
        raise
    os.close(file)
    return aside


def read_plain(path: Path, bytes_max: int) -> bytes | None:
    """At most ``bytes_max`` bytes of a file; None where there is a link, a folder, a pipe or another thing instead.

    Raises ``OSError`` as ``open`` does, ``FileNotFoundError`` among them.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    with os.fdopen(file, "rb") as stream:
        return stream.read(bytes_max)


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Gives ``path`` this content, whatever was there; on disk when it returns."""
    # Crash before the rename: a part file that nobody reads. After it: the new content; the old one never half.
    os.rename(write_aside(path, data, mode), path)
    sync_path(path.parent)


def create(path: Path, data: bytes, mode: int = 0o600) -> bool:
    """Makes ``path`` with this content unless it is there already; tells whether it did.

    Of several processes at once exactly one creates; the others find its whole file.
    """
    aside = write_aside(path, data, mode)
    try:
        os.link(aside, path)
        sync_path(path.parent)
    except FileExistsError:
        return False
    finally:
        os.unlink(aside)
    return True
