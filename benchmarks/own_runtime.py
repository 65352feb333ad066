"""A runtime of the benchmark's own: started in a folder that is removed, warmed, measured from outside, stopped."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from measured_package import FILES, OBJECTIVE

from duly.cli import mandate, node, person
from duly.cli.client import FrontDoor
from duly.cli.mandate import Opened, Order
from duly.cli.start import start_runtime
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import new_request
from duly.storage.home import Home


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds from the order until every step's result was durable, and until the run had ended with its verdict.

    ``journal_s`` is what the journal says between the first start and the last result, ``cpu_s`` the processor time of
    every process of the runtime and of this one, the verdict included.
    """

    durable_s: float
    ended_s: float
    journal_s: float
    cpu_s: float


class OwnRuntime:
    """A warm runtime with the benchmark's package open in it."""

    def __init__(self, home: Home, door: FrontDoor) -> None:
        self.home = home
        self._door = door
        answer = list(door.stream("package.open", files=dict(FILES), place="bench"))[-1]
        self.package = Opened.of(answer)
        self._key = person.key_of(home)()
        self._pids = [int(str(one["pid"])) for one in self.processes()]

    def run(self, plan: Plan) -> Timed:
        """One run of a person's plan, as ``duly run --plan`` orders it. Raises where it does not end COMPLETED."""
        request = new_request(OBJECTIVE)
        order = mandate.draft(self.package, request, Order(), plan)
        fields = {"mandate": order.sign(self._key), "request": request.to_data(), "plan": plan.to_data()}
        cpu = self._cpu_seconds()
        began = time.perf_counter()
        durable = 0.0
        started: list[str] = []
        succeeded: list[str] = []
        for message in self._door.stream("submit", **fields):
            event = message.get("event")
            if event is None:
                continue
            if event["kind"] == "step.started":
                started.append(event["time"])
            elif event["kind"] == "step.succeeded":
                succeeded.append(event["time"])
                durable = time.perf_counter() - began
        ended = time.perf_counter() - began
        result = message["result"]
        if result["phase"] != "COMPLETED" or len(succeeded) != len(plan.steps):
            raise RuntimeError(f"the run ended {result['phase']} ({result['reason']})")
        return Timed(durable, ended, _between(min(started), max(succeeded)), self._cpu_seconds() - cpu)

    def processes(self) -> list[dict[str, object]]:
        """Every process of the runtime, as ``duly status`` lists them."""
        return list(self._door.call("status")["processes"])

    def _cpu_seconds(self) -> float:
        """Processor time so far. Workers that come and go between two looks are not in it; warm ones stay."""
        return time.process_time() + sum(map(_cpu_seconds_of, self._pids))


@contextlib.contextmanager
def own_runtime(folder: str | None = None) -> Iterator[OwnRuntime]:
    """Starts a runtime in a new folder below ``folder`` and stops it, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="duly-", dir=folder) as name:
        home = Home(Path(name) / "h")
        home.prepare()
        door = start_runtime(home)
        try:
            with door:
                yield OwnRuntime(home, door)
        finally:
            with contextlib.redirect_stdout(io.StringIO()):  # what it says is not what was asked for here
                node.down(home)


def _between(first: str, last: str) -> float:
    """Seconds between two times of RFC 3339."""
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def _cpu_seconds_of(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0.0  # ended since it was listed
    user, system = stat[stat.rindex(")") + 2 :].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
