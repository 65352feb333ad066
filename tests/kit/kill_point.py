"""Loaded into every process of a runtime under test, by its interpreter: lets the journal stop at its boundaries.

Product code knows nothing of this. An interpreter made by ``kill_venv`` imports this module at its start. In the process
that commits journal groups, each commit then reports itself before and after at a Unix socket in the data directory,
and goes on when it is answered; so does an executor that holds the grant of an effect. Where nobody listens nothing
happens.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import socket
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

SOCKET = "kill.sock"
_STEP = b"\xa7step_id"
_RUN = b"\xa6run_id"


def report(home: str, message: dict[str, Any]) -> None:
    """Tells the test where this process is, and waits for its word. Nobody there: goes on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(os.path.join(home, SOCKET))
        except OSError:
            return
        line.sendall(json.dumps({**message, "pid": os.getpid()}).encode() + b"\n")
        line.recv(1)  # one byte, or the end where the test has gone


def _text(data: bytes, name: bytes) -> str:
    """A short text of a canonical map, read from its bytes as they are."""
    at = data.find(name)
    if at < 0 or at + len(name) >= len(data) or data[at + len(name)] >> 5 != 0b101:
        return ""
    start = at + len(name) + 1
    return data[start : start + (data[start - 1] & 0x1F)].decode()


def _commits_reported(module: ModuleType, home: str) -> None:
    plain = module.Journal.commit

    def commit(self: Any, groups: Sequence[Any]) -> None:
        runs: dict[str, list[str]] = {}
        steps: list[str] = []
        for group in groups:
            for run_id, added in group.additions.items():
                runs.setdefault(run_id, []).extend(added.latest)
            steps += [name for _, record in group.records if (name := _text(record, _STEP))]
        about = {"runs": runs, "steps": list(dict.fromkeys(steps))}
        report(home, {**about, "when": "before"})
        plain(self, groups)
        report(home, {**about, "when": "after"})

    module.Journal.commit = commit


def _grants_reported(module: ModuleType, home: str) -> None:
    """An executor that was given the grant of an effect, before it passes it on."""
    plain = module.HostClient.run

    def run(self: Any, grants: bytes, *given: Any, **named: Any) -> Any:
        if named.get("mandate"):
            about = {"runs": {_text(grants, _RUN): ["grant"]}, "steps": [_text(grants, _STEP)]}
            report(home, {**about, "when": "executor holds"})
        return plain(self, grants, *given, **named)

    module.HostClient.run = run


WATCHED = {"duly.storage.journal": _commits_reported, "duly.hosts.client": _grants_reported}


class _Finder(importlib.abc.MetaPathFinder):
    """Changes the watched modules when they are imported."""

    def __init__(self, home: str) -> None:
        self._home = home

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        change = WATCHED.get(name)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                change(module, self._home)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    home = os.environ.get("DULY_HOME", "")
    if home:
        sys.meta_path.insert(0, _Finder(home))


if __name__ != "__main__":
    install()
