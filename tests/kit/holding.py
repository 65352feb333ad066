"""Calls that stand still where a test wants them to: see ``tests/packages/holding/things.py``."""

from __future__ import annotations

import fcntl
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from process_table import processes_with
from runtime_home import FLIGHTS

PACKAGE = Path(__file__).resolve().parent.parent / "packages" / "holding"
ARRIVAL_SECONDS_MAX = 120


class Holding:
    """The data folder of a holding package. ``hold`` locks calls of a name; ``arrived`` waits until one is there."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._held: dict[str, int] = {}
        data.mkdir(parents=True, exist_ok=True)
        self.clear()
        os.mkfifo(data / "arrived")
        # Open for writing too: a tool that tells its arrival never waits for us, and we never read an end of file.
        self._told = os.open(data / "arrived", os.O_RDWR)

    @property
    def sink(self) -> list[str]:
        """The lines that effects have left."""
        file = self._data / "sink"
        return file.read_text().splitlines() if file.exists() else []

    def hold(self, name: str) -> None:
        """From now on a call of that name stops once it has arrived."""
        gate = os.open(self._data / f"{name}.hold", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(gate, fcntl.LOCK_EX)
        self._held[name] = gate

    def arrived(self, count: int = 1) -> None:
        """Returns when that many held calls are in their tools."""
        while count > 0:
            ready, _, _ = select.select([self._told], [], [], ARRIVAL_SECONDS_MAX)
            assert ready, "no call arrived where it was to be held"
            count -= os.read(self._told, 1 if count == 1 else 4_096).count(b"\n")

    def holder(self, name: str) -> int:
        """The process of a call that is held: the one, beside this, that has the lock's file open."""
        file = str(self._data / f"{name}.hold")
        return next(pid for pid in processes_with(file) if pid != os.getpid())

    def release(self, name: str) -> None:
        """Lets the held calls of a name go on, and later ones pass."""
        (self._data / f"{name}.hold").unlink()
        os.close(self._held.pop(name))

    def clear(self) -> None:
        for file in ("arrived", "sink"):
            (self._data / file).unlink(missing_ok=True)

    def close(self) -> None:
        for name in list(self._held):
            self.release(name)
        os.close(self._told)
        self.clear()


@contextmanager
def holding(data: Path) -> Iterator[Holding]:
    held = Holding(data)
    try:
        yield held
    finally:
        held.close()


def held_flights(folder: Path) -> Path:
    """The example package with one read more beside its decompositions: one that can be held. Nothing uses its result."""
    for path in FLIGHTS.rglob("*"):
        if path.is_file() and path.suffix in (".toml", ".yaml", ".py"):
            copy = folder / path.relative_to(FLIGHTS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    (folder / "things.py").write_bytes((PACKAGE / "things.py").read_bytes())
    manifest = folder / "agent.toml"
    text = manifest.read_text().replace(
        '    "incidents.find",\n', '    "incidents.find",\n    "things.look",\n'
    )
    manifest.write_text(
        f'{text}\n[tools.things]\nkind = "python"\nfile = "things.py"\nfunctions = ["look"]\n'
    )
    playbook = folder / "playbooks" / "metric_diagnosis.yaml"
    data = yaml.safe_load(playbook.read_text())
    where = [step["id"] for step in data["steps"]].index("decompose")
    data["steps"].insert(
        where + 1,
        {
            "id": "held",
            "tool": "things.look",
            "objective": "Is everything where it was?",
            "arguments": {"name": "held"},
            "after": ["completeness"],
            "verification": {
                "acceptance": [{"rule": "not_null", "path": "/text"}],
                "tolerance": {"none": "a text is the same or it is not"},
                "independent": {"none": "nothing else knows this text"},
            },
        },
    )
    playbook.write_text(yaml.safe_dump(data, sort_keys=False))
    return folder
