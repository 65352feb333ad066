"""Starting the local runtime in the background, once, however many commands ask for it at the same time."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from duly.protocol.authority.printable import readable
from duly.protocol.wire.errors import RuntimeFault
from duly.storage.home import Home

from . import output
from .client import FrontDoor
from .supervisor_lock import has_ended, supervisor_of

T = TypeVar("T")
START_SECONDS_MAX = 120.0  # Ray on a busy machine takes up to ten; a cold disk takes longer
FIRST_WAIT_SECONDS = 0.02
LAST_WAIT_SECONDS = 0.25
LOG_LINES_SHOWN = 12
LOG_TAIL_BYTES = 16_384


def supervisor_command(home: Path) -> list[str]:
    """The command that is the runtime of a data directory. ``-P``: nothing of the working directory is imported."""
    return [sys.executable, "-P", "-m", "duly.hosts.supervisor", "--home", str(home)]


def opened(home: Home) -> FrontDoor:
    """A connection to the runtime of a data directory, which is started where none runs."""
    found = _connected(home)
    if found is not None:
        return found
    home.prepare()
    _refuse_worker(home)
    with _starting(home):
        # Another command may have started it while this one waited, or somebody is starting or stopping it right now.
        found = _connected(home) or _from_running(home)
        if found is not None:
            return found
        output.note("starting the local runtime (the first time takes about 10 s)...")
        return start_runtime(home)


def start_runtime(home: Home) -> FrontDoor:
    """Starts the supervisor and waits until the front door opens. Raises as ``start_supervisor``."""
    return start_supervisor(home, lambda: _connected(home))


def start_supervisor(home: Home, look: Callable[[], T | None]) -> T:
    """Starts the supervisor in a session of its own and waits until ``look`` finds what it is started for.

    Raises ``RuntimeFault``: ``runtime.start_failed`` with the end of the log where the supervisor ended,
    ``runtime.start_late`` where it took too long.
    """
    log = _log(home)
    with open(log, "ab") as written:
        process = subprocess.Popen(
            supervisor_command(home.root),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            cwd="/",
            start_new_session=True,
        )
    try:
        found = _awaited(home, process.pid, look)
        if found is None:
            raise RuntimeFault(
                "runtime.start_failed",
                f"The runtime ended while it started ({_ending(process.wait())}).",
                place=str(log),
                story=_end_of(log),
            )
        return found
    finally:
        process.returncode = (
            process.returncode or 0
        )  # it lives on without this command; nobody waits for it here


def _connected(home: Home) -> FrontDoor | None:
    try:
        return FrontDoor.connect(home.socket_path("front"))
    except RuntimeFault as fault:
        if fault.code != "runtime.absent":
            raise
    return None


def _from_running(home: Home) -> FrontDoor | None:
    """The runtime of a supervisor that lives, once its door opens; ``None`` where none lives or it ends."""
    pid = supervisor_of(home)
    if pid is None:
        return None
    output.note("waiting for the local runtime, which is starting or stopping...")
    return _awaited(home, pid, lambda: _connected(home))


def _awaited(home: Home, pid: int, look: Callable[[], T | None]) -> T | None:
    """What ``look`` finds, ``None`` where the supervisor ends before. Raises ``runtime.start_late``."""
    deadline = time.monotonic() + START_SECONDS_MAX
    wait = FIRST_WAIT_SECONDS
    while True:
        found = look()
        if found is not None:
            return found
        if has_ended(pid, wait):
            return None
        if time.monotonic() > deadline:
            log = _log(home)
            raise RuntimeFault(
                "runtime.start_late",
                f"The runtime did not open its front door within {START_SECONDS_MAX:.0f} s.",
                place=str(log),
                hint="Stop it with `duly down`, read the log, and try again.",
                story=_end_of(log),
            )
        wait = min(wait * 1.5, LAST_WAIT_SECONDS)


@contextmanager
def _starting(home: Home) -> Iterator[None]:
    """Held by the one command that starts the runtime; the others wait here, and find it running."""
    with open(home.run / "start.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _refuse_worker(home: Home) -> None:
    """A worker node has no harness: commands are given on its head. Raises ``RuntimeFault`` ``runtime.worker``."""
    from duly.actors.runtime.node import read_node

    node = read_node(home)
    if node.mode == "worker":
        raise RuntimeFault(
            "runtime.worker",
            f"This data directory is a worker node, {node.name}, of the cluster at {node.address}.",
            place=str(home.root),
            hint="Give commands on the head; start and stop this node with `duly node`.",
        )


def _log(home: Home) -> Path:
    return home.run / "supervisor.log"


def _end_of(log: Path) -> list[str]:
    if not log.exists():
        return []
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - LOG_TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return [readable(line) for line in lines[-LOG_LINES_SHOWN:]]


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
