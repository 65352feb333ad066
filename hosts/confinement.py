"""What a process does to itself at its start: not readable by others, no new privileges, nothing inherited, bounded.

Linux gives all of it. Elsewhere the calls that do not exist are left out, and ``layers`` says which ones hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable

from duly.protocol.wire.limits import WORKER_FILES_MAX, WORKER_MEMORY_BYTES_MAX

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_LINUX = sys.platform.startswith("linux")
_LIBC = ctypes.CDLL(None, use_errno=True) if _LINUX else None


def _prctl(option: int, value: int) -> bool:
    """Whether the kernel did it; never fatal, because an older kernel only means one layer less."""
    return _LIBC is not None and _LIBC.prctl(option, value, 0, 0, 0) == 0


def harden() -> dict[str, bool]:
    """Keeps other processes of the same user from reading memory and environment, and forbids set-user-id programs.

    Has to be called after each exec, which resets the first. Gives the layers by name, true where they hold.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return {"non_dumpable": _prctl(_PR_SET_DUMPABLE, 0), "no_new_privileges": _prctl(_PR_SET_NO_NEW_PRIVS, 1)}


def adopt_orphans() -> bool:
    """Makes this process the parent of every descendant whose own parent has ended, so that it can end them."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Ends this process when its parent ends; at once where that has happened already. ``parent`` is its process id."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def bound_worker() -> None:
    """The limits of a worker. Memory counts private pages: a shared library or a mapped file costs nothing."""
    for name, value in (
        ("RLIMIT_CORE", 0),
        ("RLIMIT_DATA", WORKER_MEMORY_BYTES_MAX),
        ("RLIMIT_NOFILE", WORKER_FILES_MAX),
    ):
        limit = getattr(resource, name, None)
        if limit is not None:
            hard = resource.getrlimit(limit)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (bound, bound))


def close_other_files(keep: Iterable[int]) -> None:
    """Closes every inherited file apart from standard input, output, error and ``keep``."""
    low = 3
    for fd in sorted(set(keep)):
        if fd >= low:
            os.closerange(low, fd)
            low = fd + 1
    os.closerange(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0] if not _LINUX else 1 << 20)


def children() -> list[int]:
    """The process ids of the live children of this process, adopted ones included."""
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children", encoding="ascii") as file:
            return [int(text) for text in file.read().split()]
    except FileNotFoundError:
        return [pid for pid in _processes() if _parent_of(pid) == own]


def end_descendants(*, spare: Iterable[int] = ()) -> None:
    """Kills every child of this process, then the children that these leave to it, until only ``spare`` is left.

    Complete only in a process that adopts orphans (``adopt_orphans``).
    """
    spared = set(spare)
    while found := [pid for pid in children() if pid not in spared]:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)  # killed: its own children are ours now, and the next round finds them


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


# What programs need to be found, to find their libraries and temporary files, and to print text and time.
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH")


def clean_environment(home: str) -> dict[str, str]:
    """The whole environment of a child, made from nothing: of the launcher's only what is harmless and needed."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "HOME": home,
        "PYTHONUTF8": "1",
        "PYTHONSAFEPATH": "1",
        "DULY_HOME": home,
    }
