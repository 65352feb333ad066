"""The other end of ``kill_point``: holds the process that reaches the boundary that a test waits for."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kill_point import SOCKET

_READS = {"r1", "r2"}
_KINDS_SHOWN = 3


@dataclass(frozen=True, order=True)
class Boundary:
    """A point of a run: ``when`` is before or after a group of the journal is recorded, or before or after an effect, in
    the tool. ``label`` names the group by its events and steps, or the effect."""

    label: str
    when: str

    def __str__(self) -> str:
        return f"{self.when} {self.label}"


def holds(wanted: Boundary) -> Callable[[Boundary], bool]:
    """Whether a point is the one that is wanted; ``run.resumed`` as a label means every group that begins with it."""
    if wanted.label == "run.resumed":
        return lambda here: here.when == wanted.when and "run.resumed" in here.label
    return lambda here: here == wanted


class KillGate:
    """Listens in a data directory. ``arm`` names what to stop at; whatever reaches it is held until ``release``."""

    def __init__(self, home: Path) -> None:
        self.seen: list[Boundary] = []
        self.reached = threading.Event()
        self.held = 0  # the process that is held
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._run = ""
        self._wanted: Callable[[Boundary], bool] | None = None
        self._reads = 0
        self._labels: Counter[tuple[str, str]] = Counter()
        self._path = home / SOCKET
        self._path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self._path))
        self._server.listen(64)
        threading.Thread(target=self._accept, name="kill-gate", daemon=True).start()

    def arm(self, run_id: str, wanted: Boundary | None) -> None:
        """Watches a run from its first group on, and holds whoever reaches the boundary."""
        with self._lock:
            self.seen, self._reads = [], 0
            self._labels.clear()
            self._run = run_id
            self._wait_for(wanted)

    def release(self, then: Boundary | None = None) -> None:
        """Lets whoever is held go on. From now on the next boundary holds, or none."""
        with self._lock:
            self._released.set()
            self._wait_for(then)

    def close(self) -> None:
        self.release()
        self._server.close()
        self._path.unlink(missing_ok=True)

    def _wait_for(self, wanted: Boundary | None) -> None:
        self._wanted = None if wanted is None else holds(wanted)
        self.reached = threading.Event()
        self._released = threading.Event()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line:
            said = line.makefile("rb").readline()
            released = self._stopped(json.loads(said)) if said else None
            if released is not None:
                released.wait()
            try:
                line.sendall(b".")
            except OSError:
                return  # it was killed while it was held

    def _stopped(self, message: dict[str, Any]) -> threading.Event | None:
        """What to wait for, where this is the boundary."""
        with self._lock:
            if self._run not in message["runs"]:
                return None
            here = Boundary(self._label(message), message["when"])
            self.seen.append(here)
            if self._wanted is None or self.reached.is_set() or not self._wanted(here):
                return None
            self.held = message["pid"]
            self.reached.set()
            return self._released

    def _label(self, message: dict[str, Any]) -> str:
        kinds = list(dict.fromkeys(message["runs"][self._run]))
        steps = message["steps"]
        if kinds == ["step.succeeded"] and set(steps) <= _READS:
            # The two reads of the first level come back in any order, or together.
            self._reads += message["when"] == "before"
            return f"step.succeeded, read {self._reads}"
        shown = [*kinds[:_KINDS_SHOWN], *(kind for kind in kinds[_KINDS_SHOWN:] if kind == "gate.asked")]
        label = " ".join([", ".join(shown), *steps[-1:]])
        self._labels[label, message["when"]] += 1
        number = self._labels[label, message["when"]]
        return label if number == 1 else f"{label} ({number})"
