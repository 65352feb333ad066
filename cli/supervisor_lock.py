"""Which process is the supervisor of a data directory: the lock that it holds while it lives says so."""

from __future__ import annotations

import fcntl
import os
import select
from pathlib import Path

from duly.storage.home import Home


def path_of(home: Home) -> Path:
    """The file that ``hosts/supervisor`` locks and writes its process id into."""
    return home.run / "supervisor.lock"


def supervisor_of(home: Home) -> int | None:
    """The process id of the supervisor, ``None`` where none lives. A file that was left behind is no supervisor."""
    try:
        file = os.open(path_of(home), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.read(file, 32).strip()
        return int(written) if written.isdigit() else None
    finally:
        os.close(file)
    return None


def has_ended(pid: int, seconds: float) -> bool:
    """Waits until a process has ended, for at most so long; whether it has."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select([watch], [], [], seconds)
    finally:
        os.close(watch)
    return bool(ended)
