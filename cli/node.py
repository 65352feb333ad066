"""``duly up``, ``down``, ``status``: the runtime of this machine. ``status`` is on the fast path: no pydantic here."""

from __future__ import annotations

import os
import signal
from typing import Any

from duly.protocol.wire.errors import RuntimeFault
from duly.storage.home import Home

from . import exit_codes
from .client import FrontDoor
from .layout import labelled, moment, table
from .output import emit, say
from .supervisor_lock import has_ended, supervisor_of

DOWN_SECONDS_MAX = 30.0
_KNOWN = ("role", "pid", "rss_bytes", "pss_bytes")


def up(home: Home, *, json: bool = False) -> int:
    """Starts the runtime unless it runs."""
    from .start import opened

    with opened(home) as door:
        hello = door.call("hello")
    return _said_up(home, hello, json=json)


def status(home: Home, *, json: bool = False) -> int:
    """Every process of the runtime with its id and memory. Starts nothing; exit code 8 where none runs."""
    try:
        with FrontDoor.connect(home.socket_path("front")) as door:
            answer = door.call("status")
    except RuntimeFault as fault:
        if fault.code != "runtime.absent":
            raise
        if json:
            emit({"running": False, "home": str(home.root), "processes": []})
        else:
            say(["No runtime is running.", *labelled("home", str(home.root))])
        return exit_codes.REFUSED
    data = {name: value for name, value in answer.items() if name != "last"}
    if json:
        emit({"running": True, **data})
        return exit_codes.DONE
    processes = list(data.get("processes", ()))
    rows = [
        (
            str(one["role"]),
            str(one["pid"]),
            _mebibytes(one.get("rss_bytes")),
            _mebibytes(one.get("pss_bytes")),
            _rest(one),
        )
        for one in processes
    ]
    say(table(("role", "pid", "resident", "share", ""), rows))
    resident = sum(one.get("rss_bytes") or 0 for one in processes)
    say(labelled("memory", f"{_mebibytes(resident)} resident, pages that processes share counted in each"))
    say(labelled("home", str(home.root)))
    return exit_codes.DONE


def down(home: Home, *, json: bool = False) -> int:
    """Stops the runtime and waits until its supervisor has gone. Runs that wait stay waiting.

    The harness is asked first; a supervisor whose harness does not answer is told by signal.
    """
    pid = supervisor_of(home)
    asked = _ask_down(home)
    if pid is not None:
        if not asked:
            os.kill(pid, signal.SIGTERM)
        if not has_ended(pid, DOWN_SECONDS_MAX):
            raise RuntimeFault(
                "runtime.stop_late",
                f"The supervisor (process {pid}) still runs after {DOWN_SECONDS_MAX:.0f} s.",
                place=str(home.run / "supervisor.log"),
                hint=f"Read its log, or end it with `kill -9 {pid}`.",
            )
    stopped = asked or pid is not None
    if json:
        emit({"stopped": stopped})
    else:
        say("The runtime is down." if stopped else "No runtime was running.")
    return exit_codes.DONE


def _ask_down(home: Home) -> bool:
    """Whether somebody at the front door took the wish."""
    try:
        with FrontDoor.connect(home.socket_path("front")) as door:
            door.call("down")
    except RuntimeFault as fault:
        if fault.code not in ("runtime.absent", "runtime.lost", "runtime.unreachable"):
            raise
        return fault.code == "runtime.lost"
    return True


def _said_up(home: Home, hello: dict[str, Any], *, json: bool) -> int:
    if json:
        emit({name: value for name, value in hello.items() if name != "last"})
    else:
        say(
            labelled(
                "running",
                f"since {moment(hello['started_ms'])}, process {hello['pid']}, epoch {hello['epoch']}",
            )
        )
        say(labelled("home", str(home.root)))
    return exit_codes.DONE


def _mebibytes(size: int | None) -> str:
    return "" if size is None else f"{size / (1 << 20):,.0f} MiB"


def _rest(process: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value}" for name, value in process.items() if name not in _KNOWN and value not in (None, "")
    )
