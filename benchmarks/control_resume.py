"""How long a restart needs for what is in the journal, and what the checks of the invariants cost: no runtime, real files."""

from __future__ import annotations

import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measured_package
from control_run import DiskRecord, MachineRun, tools
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.actors.harness.record import JournalRecord
from duly.protocol.log.checkpoint import VerifierKey
from duly.protocol.machine import invariants
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.wire.limits import STEPS_MAX
from duly.storage.artifacts import ArtifactStore
from duly.storage.journal_reader import JournalReader

ORIGIN = "duly.bench/log"


def resume(folder: Path, lengths: list[int], tries: int) -> list[dict[str, Any]]:
    """For each length an unfinished run of about so many events in one journal, read back by processes of their own.

    The quickest of ``tries`` counts: the others waited for the machine. A run longer than a plan of the greatest size gives was interrupted as often as it takes: each time every call that
    was under way is started again.
    """
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    rows = []
    for length in lengths:
        place = folder / str(length)
        record = DiskRecord(place, key)
        _unfinished(record, length)
        events = record.journal.size
        record.close()
        took = min((_read_elsewhere(place, key) for _ in range(tries)), key=lambda one: one["load_cpu_s"])
        rows.append({"events": events, **took, "us_per_event": round(took["load_cpu_s"] / events * 1e6, 1)})
    return rows


def _read_elsewhere(place: Path, key: Ed25519PrivateKey) -> dict[str, float]:
    """What ``read_back`` says in a new process: nothing is known there yet."""
    done = subprocess.run(
        [sys.executable, "-P", __file__, str(place), key.public_key().public_bytes_raw().hex()],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parent)},
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _unfinished(record: DiskRecord, length: int) -> None:
    descriptors = tools("add_one", "wait")
    steps = min(STEPS_MAX, max(1, (length - 6) // 2))
    restarts = max(0, round((length - 2 * steps) / (steps + 2)))
    plan = measured_package.level(descriptors, steps, 0)
    run_id = f"r{length}"
    MachineRun(
        run_id, plan, descriptors, record.record, record.seal(run_id), record.next_epoch, restarts
    ).go()


def read_back(folder: Path, public: bytes) -> dict[str, float]:
    """Seconds of a cold start: opening both stores, finding the unfinished runs, replaying them."""
    began = time.perf_counter()
    with (
        JournalReader.open(folder / "journal", [VerifierKey(ORIGIN, public)]) as journal,
        ArtifactStore.open(folder / "artifacts", writer=False) as artifacts,
    ):
        record = JournalRecord(journal, artifacts)
        opened = time.perf_counter()
        unfinished = record.unfinished()
        found = time.perf_counter()
        cpu = time.process_time()
        for run_id in unfinished:
            record.load(run_id)
        loaded = time.perf_counter()
        cpu = time.process_time() - cpu
    return {
        "open_s": round(opened - began, 4),
        "find_s": round(found - opened, 4),
        "load_s": round(loaded - found, 4),
        "load_cpu_s": round(cpu, 4),
    }


def checks(steps: int, rounds: int) -> list[dict[str, Any]]:
    """Processor time of deciding a whole run with the checks of the invariants and without them, alternately."""
    descriptors = tools("add_one", "wait")
    shapes = {
        "chain": measured_package.chain(descriptors, steps),
        "level": measured_package.level(descriptors, steps, 0),
    }
    return [_checked(name, plan, descriptors, rounds) for name, plan in shapes.items()]


def _checked(name: str, plan: Plan, descriptors: dict[str, Descriptor], rounds: int) -> dict[str, Any]:
    taken: dict[bool, list[float]] = {True: [], False: []}
    events = decisions = 0
    for number in range(rounds + 1):
        for checked in (True, False):
            with contextlib.nullcontext() if checked else _without_checks():
                spent, events, decisions = _decided(plan, descriptors)
            if number:
                taken[checked].append(spent)
    kept, bare = (statistics.median(taken[one]) for one in (True, False))
    return {
        "shape": name,
        "steps": len(plan.steps),
        "events": events,
        "decisions": decisions,
        "checked_us_per_event": round(kept / events * 1e6, 2),
        "bare_us_per_event": round(bare / events * 1e6, 2),
        "share": round(
            statistics.median(1 - b / k for k, b in zip(taken[True], taken[False], strict=True)), 3
        ),
    }


def _decided(plan: Plan, descriptors: dict[str, Descriptor]) -> tuple[float, int, int]:
    """Seconds of processor time, events and decisions of one run, to its verdict, nothing written."""
    count = 0

    def record(run: Any, events: list[Any]) -> None:
        nonlocal count
        count += len(events)

    def seal(data: bytes) -> str:
        return "0" * 64

    world = MachineRun("r1", plan, descriptors, record, seal, verdict=True)
    gc.collect()
    began = time.process_time()
    run = world.go()
    spent = time.process_time() - began
    if run.phase != "COMPLETED":
        raise RuntimeError(f"the run ended {run.phase} ({run.reason})")
    return spent, count, world.decisions


@contextlib.contextmanager
def _without_checks() -> Iterator[None]:
    """The machine without its invariants; only ever here, to see what they cost."""
    kept = invariants.check, invariants.check_settled
    invariants.check = invariants.check_settled = lambda run: None
    try:
        yield
    finally:
        invariants.check, invariants.check_settled = kept


if __name__ == "__main__":
    print(json.dumps(read_back(Path(sys.argv[1]), bytes.fromhex(sys.argv[2]))))
