"""A data directory with a real runtime, driven through the command line as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.actors.runtime.settings import READY_FILE
from duly.cli.client import FrontDoor
from duly.cli.records import Records
from duly.protocol.views.result import result_object
from duly.storage.home import Home
from duly.storage.recovery import load_run
from process_table import Leftover

DULY = (sys.executable, "-P", "-c", "from duly.cli.entry import main; raise SystemExit(main())")
FLIGHTS = Path(__file__).resolve().parent.parent.parent / "examples" / "flights"
# A start on a busy machine takes half a minute; a command that hangs must still end its test.
COMMAND_SECONDS_MAX = 180


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """The last object of ``--json``."""
        assert self.out, f"nothing was printed: {self.err}"
        return self.lines[-1]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("type") == "event"]

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    def facts(self, kind: str) -> list[dict[str, Any]]:
        """The facts of every event of a kind, in order."""
        return [event["facts"] for event in self.events if event["kind"] == kind]


class RuntimeHome:
    """A data directory. ``environment`` is what its commands find beside the tests' own."""

    def __init__(self, root: Path, environment: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.home = Home(root)
        self.environment = {**os.environ, **(environment or {}), "DULY_HOME": str(root)}
        self.results: dict[str, dict[str, Any]] = {}
        self.tree: set[Leftover] = set()

    def duly(self, *arguments: str, before: tuple[str, ...] = ()) -> Outcome:
        """Runs one command to its end; nobody is at the terminal. ``before`` is put in front of it."""
        done = subprocess.run(
            [*before, *DULY, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        return self._noted(Outcome(done.returncode, done.stdout, done.stderr))

    def ask(self, package: Path | str, request: str, *options: str) -> Outcome:
        """``duly run … --json``."""
        return self.duly("run", str(package), request, "--json", *options)

    def begin(self, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """A command that goes on in the background; ``finish`` takes it up again."""
        return subprocess.Popen(
            [*before, *DULY, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, command: subprocess.Popen[str], already: str = "") -> Outcome:
        """The outcome of a command in the background; ``already`` is what was read of its output."""
        out, err = command.communicate(timeout=COMMAND_SECONDS_MAX)
        return self._noted(Outcome(command.returncode, already + out, err))

    def _noted(self, outcome: Outcome) -> Outcome:
        """Keeps the newest result of each run, to be compared with what the journal gives."""
        for line in outcome.out.splitlines():
            if not line.startswith("{"):
                continue
            found = json.loads(line)
            if found.get("type") == "result":
                self.results[found["run_id"]] = found
        return outcome

    def json(self, *arguments: str) -> Any:
        """The one document that a command prints."""
        outcome = self.duly(*arguments, "--json")
        assert outcome.code == 0, outcome.err
        return outcome.result

    def processes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("status")["processes"]
        return found

    def pid(self, role: str, name: str = "") -> int:
        """The process of a role (the first of several), or of the actor of that name."""
        for one in self.processes():
            if one["role"] == role and name in ("", one.get("name")):
                return int(one["pid"])
        raise AssertionError(f"no {role} {name} is running")

    def await_another(self, name: str, lost: int) -> None:
        """Returns once an actor of that name answers from another process than the one that was lost."""
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        while time.monotonic() < deadline:
            if any(one.get("name") == name and one["pid"] != lost for one in self.processes()):
                return
        raise AssertionError(f"{name} did not come back")

    @contextmanager
    def door(self) -> Iterator[FrontDoor]:
        with FrontDoor.connect(self.home.socket_path("front")) as door:
            yield door

    def follow(self, run_id: str) -> Outcome:
        """The events of a run from its beginning, and its result once it stops, over the front door."""
        with self.door() as door:
            answers = list(door.stream("follow", run_id=run_id, after=-1))
        lines = [answer.get("event") or answer["result"] for answer in answers]
        return self._noted(Outcome(0, "".join(json.dumps(line) + "\n" for line in lines), ""))

    def replayed(self, run_id: str) -> dict[str, Any]:
        """The result object of a run as its journal and artifacts give it, with no runtime in between."""
        with Records.open(self.home) as records:
            assert records.artifacts is not None
            found = result_object(load_run(records.journal, records.artifacts, run_id)[0])
        return {"type": "result", **json.loads(json.dumps(found))}

    def verified(self) -> None:
        """Every entry, node, checkpoint and artifact of the log is as it was signed."""
        outcome = self.duly("audit", "verify")
        assert outcome.code == 0, outcome.out + outcome.err

    def ready(self) -> dict[str, Any]:
        """What a node says of itself once its actors are in place."""
        found: dict[str, Any] = json.loads((self.home.run / READY_FILE).read_text("utf-8"))
        return found

    def supervisor(self) -> int:
        return int((self.home.run / "supervisor.lock").read_text("ascii"))
