"""Which processes are alive, read from /proc. Empty answers where there is no /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.02
_TRACKERS = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
)  # the interpreter's own, end with it


@dataclass(frozen=True)
class Leftover:
    """A live process: its id and its command line."""

    pid: int
    command: str


def children_of(parent: int) -> set[Leftover]:
    """The live direct children of a process; those that have ended but were not waited for do not count."""
    found = set()
    for pid in _pids():
        state, ppid = _state(pid)
        if ppid == parent and state not in "ZX":
            command = _text(pid, "cmdline")
            if command and not any(tracker in command for tracker in _TRACKERS):
                found.add(Leftover(pid, command[:200]))
    return found


def leftovers(marks: Sequence[str]) -> set[Leftover]:
    """The live processes, apart from this one and its ancestors, whose command, environment or folder holds a mark."""
    own = set(_ancestors(os.getpid()))
    found = set()
    for pid in _pids():
        if pid in own or _state(pid)[0] in "ZX":
            continue
        command = _text(pid, "cmdline")
        seen = (command, _text(pid, "environ"), _folder(pid))
        marked = any(mark in text for mark in marks for text in seen)
        if marked and not any(tracker in command for tracker in _TRACKERS):
            found.add(Leftover(pid, command[:200]))
    return found


def tree_below(top: int) -> set[Leftover]:
    """Every live process below another one, however deep; the other one itself included."""
    parents = {pid: _state(pid) for pid in _pids()}
    found = set()
    for pid, (state, _) in parents.items():
        above, seen = pid, set()
        while above in parents and above not in seen and above != top:
            seen.add(above)
            above = parents[above][1]
        if above == top and state not in "ZX":
            found.add(Leftover(pid, _text(pid, "cmdline")[:200]))
    return found


def processes_with(file: str) -> Iterator[int]:
    """The processes that have a file open, as far as this user may see."""
    for pid in _pids():
        if file in open_files(pid):
            yield pid


def open_files(pid: int) -> set[str]:
    """What the descriptors of a process lead to; empty where this user may not look."""
    found = set()
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue  # closed in the meantime
    return found


def still_alive(processes: set[Leftover]) -> set[Leftover]:
    """Those of some processes that have not ended, wherever they hang now."""
    return {
        one
        for one in processes
        if _state(one.pid)[0] not in "ZX" and _text(one.pid, "cmdline")[:200] == one.command
    }


def wait_until_gone(look: Callable[[], set[Leftover]], seconds_max: float) -> set[Leftover]:
    """What is still there when nothing is left or the time is over."""
    deadline = time.monotonic() + seconds_max
    left = look()
    while left and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        left = look()
    return left


def _pids() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit())


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 0:
        yield pid
        pid = _state(pid)[1]


def _state(pid: int) -> tuple[str, int]:
    """State letter and parent; ``("X", 0)`` for a process that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[1])


def _text(pid: int, name: str) -> str:
    try:
        return (
            Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        )
    except OSError:
        return ""


def _folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
