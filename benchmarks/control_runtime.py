"""What control costs on a warm runtime, seen from outside: bytes and flushes a step and a level, and how soon after an
approval its effect begins."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import measured_package
from own_runtime import OwnRuntime

from duly.cli import gate, mandate, person
from duly.cli.client import FrontDoor
from duly.cli.log_key import verifier_of
from duly.cli.mandate import Opened, Order
from duly.cli.start import opened
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import new_request
from duly.storage.artifacts import ArtifactStore
from duly.storage.journal_reader import JournalReader

FLIGHTS = Path(__file__).resolve().parent.parent / "examples" / "flights"
INCIDENT = "Open an incident for the carrier that contributed most to the change in on-time arrivals, May to June 2013"


def levels(runtime: OwnRuntime, count: int, width: int) -> Plan:
    """``count`` levels of ``width`` reads that do not wait; each level needs the one before it."""
    plan = measured_package.level(runtime.package.descriptors, count * width, 0)
    steps = []
    for number, step in enumerate(plan.steps):
        level = number // width
        above = [plan.steps[(level - 1) * width].step_id] if level else []
        steps.append(step.model_copy(update={"depends_on": above}))
    return plan.model_copy(update={"steps": steps})


@dataclass(frozen=True, slots=True)
class Written:
    """What one run left on disk, and with how many flushes."""

    entries: int
    leaf_bytes: int
    artifacts: int
    artifact_bytes: int
    journal_flushes: int
    artifact_flushes: int


def written(runtime: OwnRuntime, plan: Plan) -> Written:
    """Runs a plan to its verdict and counts what it wrote; the runtime does nothing else meanwhile."""
    home = runtime.home
    before = _flushes(home.journal), _flushes(home.artifacts)
    runtime.run(plan)
    flushed = _flushes(home.journal) - before[0], _flushes(home.artifacts) - before[1]
    with JournalReader.open(home.journal, [verifier_of(home)]) as journal:
        run_id = journal.runs(1)[0].run_id
        leaves = [entry.data for entry in journal.read_run(run_id)]
    with ArtifactStore.open(home.artifacts, writer=False) as store:
        sizes = [len(store.get(run_id, digest)) for digest in store.digests(run_id)]
    return Written(len(leaves), sum(map(len, leaves)), len(sizes), sum(sizes), *flushed)


def _flushes(folder: Path) -> int:
    """The number of write transactions that an environment has seen; every one is flushed."""
    with lmdb.open(os.fsencode(folder), readonly=True, lock=False, lib_version=0) as env:
        return int(env.info()["last_txnid"])


def bytes_per_step(runtime: OwnRuntime, small: int, large: int) -> dict[str, Any]:
    """Bytes by the slope between two plans of one level each: what a step adds, and what a run costs before any."""
    few = written(runtime, levels(runtime, 1, small))
    many = written(runtime, levels(runtime, 1, large))
    steps = large - small
    journal = (many.leaf_bytes - few.leaf_bytes) / steps
    artifacts = (many.artifact_bytes - few.artifact_bytes) / steps
    return {
        "entries_per_step": round((many.entries - few.entries) / steps, 2),
        "journal_bytes_per_step": round(journal),
        "artifact_bytes_per_step": round(artifacts),
        "journal_bytes_per_run": round(few.leaf_bytes - journal * small),
        "artifact_bytes_per_run": round(few.artifact_bytes - artifacts * small),
    }


def flushes_per_level(runtime: OwnRuntime, few: int, many: int, width: int) -> dict[str, Any]:
    """Flushes by the slope between two plans that differ in their number of levels."""
    short = written(runtime, levels(runtime, few, width))
    long = written(runtime, levels(runtime, many, width))
    more = many - few
    return {
        "width": width,
        "journal": round((long.journal_flushes - short.journal_flushes) / more, 2),
        "artifacts": round((long.artifact_flushes - short.artifact_flushes) / more, 2),
        "journal_per_run": short.journal_flushes,
        "artifacts_per_run": short.artifact_flushes,
        "short_levels": few,
    }


def approval_to_effect(runtime: OwnRuntime, rounds: int) -> dict[str, Any]:
    """Milliseconds from sending an approval until the approved write begins in its host, over incidents of the example
    package: by the harness's record (the approval durable) and by the host's receipt (the call begun)."""
    with opened(runtime.home) as door:
        answer = list(door.stream("package.open", files=_files(), place="examples/flights"))[-1]
        package = Opened.of(answer)
        key = person.key_of(runtime.home)()
        taken = [_incident(door, package, key) for _ in range(rounds + 1)][1:]
    return {
        "rounds": rounds,
        "approved_ms": round(statistics.median(one[0] for one in taken), 1),
        "effect_begins_ms": round(statistics.median(one[1] for one in taken), 1),
        "effect_begins_ms_max": round(max(one[1] for one in taken), 1),
    }


def _incident(door: FrontDoor, package: Opened, key: Any) -> tuple[float, float]:
    """One incident: its plan is approved, then the write with its resolved arguments, which is what is measured."""
    request = new_request(INCIDENT)
    order = mandate.draft(package, request, Order(), None)
    run_id = order.run_id
    door.call("submit", mandate=order.sign(key), request=request.to_data(), plan=None)
    found: tuple[float, float] | None = None
    while True:
        waiting = gate.read(run_id, door.call("gate", run_id=run_id))
        envelope = gate.signed(waiting, key, with_references=False)
        sent_ms = time.time() * 1000
        approved_ms, started_ms, last = _approved(door, run_id, envelope, waiting.step_id)
        if waiting.kind == "step":
            found = approved_ms - sent_ms, started_ms - sent_ms
        result = last["result"]
        if result["phase"] != "WAITING_APPROVAL":
            break
    if result["phase"] != "COMPLETED" or found is None:
        raise RuntimeError(f"the incident ended {result['phase']} ({result['reason']})")
    return found


def _approved(
    door: FrontDoor, run_id: str, envelope: bytes, step_id: str | None
) -> tuple[float, float, dict[str, Any]]:
    """When the approval was durable (as heard here), when the host began the step, and the last answer."""
    heard_ms = started_ms = 0.0
    last: dict[str, Any] = {}
    for message in door.stream("approve", run_id=run_id, approval=envelope):
        last = message
        happened = message.get("event")
        if happened is None:
            continue
        if happened["kind"] in ("plan.approved", "step.approved") and not heard_ms:
            heard_ms = time.time() * 1000
        elif happened["kind"] == "step.succeeded" and happened["facts"]["step_id"] == step_id:
            started_ms = happened["facts"]["started_ms"]
    return heard_ms, started_ms, last


def _files() -> dict[str, bytes]:
    return {
        path.relative_to(FLIGHTS).as_posix(): path.read_bytes()
        for path in sorted(FLIGHTS.rglob("*"))
        if path.is_file() and path.suffix in (".toml", ".yaml", ".py")
    }
