"""How much of raw LMDB's group commits does the signed journal keep?

Durable events a second in groups of 1, 16, 64 and 256: the same bytes, put into a bare LMDB environment with one flushed
transaction a group; into the journal (checked, hashed, signed, indexed) the same way, one ``append`` after the other; and
through its queue with four groups under way, as the AuditJournal actor writes. All on one file system, alternately in one
run, so that what drifts drifts for all. The floor of this machine (a flush, a signature) is printed with the result.

The target is the queue's: at least half of raw LMDB from groups of 64 on.

    python benchmarks/bench_journal.py [--seconds 1.0] [--rounds 5] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import lmdb
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.wire import canon
from duly.storage.journal import Journal
from duly.storage.journal_queue import JournalQueue

GROUPS = (1, 16, 64, 256)
TARGET = {64: 0.5, 256: 0.5}
UNDER_WAY = 4  # groups submitted and not yet answered
RUNS = 8  # runs whose events share a group


def an_event(number: int, epoch: int) -> bytes:
    """An event as the harness encodes it: about 420 bytes, four digests among them."""
    return canon.encode(
        {
            "v": 1,
            "time_ms": 1_790_000_000_000 + number,
            "run_id": f"run-{number % RUNS:08d}",
            "kind": "step.succeeded",
            "epoch": epoch,
            "cause": f"m-{number:012d}",
            "facts": {
                "step_id": f"s{number}",
                "attempt": 1,
                "duration_ms": 153,
                "rows_scanned": 1_200,
                "fingerprint": "b" * 64,
                "grant": "a" * 64,
            },
            "artifacts": {"output": "c" * 64, "receipt": "d" * 64},
        }
    )


class RawStore:
    """The same bytes under ascending keys in a bare environment: what durability alone costs."""

    def __init__(self, folder: Path) -> None:
        self._env = lmdb.open(str(folder), map_size=1 << 34, max_dbs=1, lib_version=0)
        self._entries = self._env.open_db(b"entries")
        self._size = 0

    def append(self, events: list[bytes]) -> None:
        with self._env.begin(write=True, db=self._entries) as transaction:
            for event in events:
                transaction.put(self._size.to_bytes(8, "big"), event, append=True)
                self._size += 1

    def close(self) -> None:
        self._env.close()


def rate(append: Callable[[list[bytes]], Any], events: list[bytes], seconds: float) -> float:
    """Events a second over about ``seconds``, one group after the other."""
    groups = 0
    began = time.perf_counter()
    while True:
        append(events)
        groups += 1
        passed = time.perf_counter() - began
        if passed >= seconds:
            return groups * len(events) / passed


def queue_rate(journal: Journal, events: list[bytes], seconds: float) -> float:
    """Events a second through the queue; the clock stops when the last group is on disk."""
    under_way: deque[Future[list[int]]] = deque()
    groups = 0
    with JournalQueue(journal) as queue:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            under_way.append(queue.submit(events))
            groups += 1
            if len(under_way) >= UNDER_WAY:
                under_way.popleft().result()
        while under_way:
            under_way.popleft().result()
        return groups * len(events) / (time.perf_counter() - began)


def floor(folder: Path, key: Ed25519PrivateKey) -> dict[str, float]:
    """Median microseconds of a 4 KiB write with its flush, and of a signature over a checkpoint's text."""
    flushes, signatures = [], []
    with (folder / "floor").open("wb") as file:
        for _ in range(100):
            file.write(bytes(4_096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            flushes.append(time.perf_counter() - began)
    for _ in range(500):
        began = time.perf_counter()
        key.sign(bytes(80))
        signatures.append(time.perf_counter() - began)
    return {
        "flush_us": round(statistics.median(flushes) * 1e6, 1),
        "sign_us": round(statistics.median(signatures) * 1e6, 1),
    }


def measure(folder: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """Everything that the report prints; rates are medians over the rounds, ratios medians of the rounds' ratios."""
    key = Ed25519PrivateKey.generate()
    journal = Journal.open(folder / "journal", key, "duly.bench/log")
    epoch = journal.take_epoch()
    raw = RawStore(folder / "raw")
    rows = []
    for count in GROUPS:
        events = [an_event(number, epoch) for number in range(count)]
        measured = [
            (
                rate(raw.append, events, seconds),
                rate(journal.append, events, seconds),
                queue_rate(journal, events, seconds),
            )
            for _ in range(rounds)
        ]
        bare, one_by_one, queued = (
            round(statistics.median(column)) for column in zip(*measured, strict=True)
        )
        rows.append(
            {
                "group": count,
                "raw_events_per_second": bare,
                "append_events_per_second": one_by_one,
                "queue_events_per_second": queued,
                "append_ratio": round(statistics.median(row[1] / row[0] for row in measured), 3),
                "queue_ratio": round(statistics.median(row[2] / row[0] for row in measured), 3),
                "target": TARGET.get(count),
            }
        )
    result = {
        "question": "durable signed events a second against raw LMDB group commits",
        "event_bytes": len(an_event(0, epoch)),
        "floor": floor(folder, key),
        "groups": rows,
        "events_written": journal.size,
        "ok": all(row["queue_ratio"] >= (row["target"] or 0) for row in rows),
    }
    journal.close()
    raw.close()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of measurements a group size")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to write; a temporary folder by default"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        result = measure(Path(name), options.seconds, options.rounds)
    if options.json:
        print(json.dumps(result))
        return 0 if result["ok"] else 1
    print(f"{result['question']}; events of {result['event_bytes']} bytes")
    print(f"floor: flush {result['floor']['flush_us']} us, signature {result['floor']['sign_us']} us")
    print(f"{'group':>6} {'raw/s':>9} {'append/s':>9} {'ratio':>6} {'queue/s':>9} {'ratio':>6} {'target':>6}")
    for row in result["groups"]:
        target = "-" if row["target"] is None else f"{row['target']:.2f}"
        print(
            f"{row['group']:>6} {row['raw_events_per_second']:>9} {row['append_events_per_second']:>9} "
            f"{row['append_ratio']:>6.2f} {row['queue_events_per_second']:>9} {row['queue_ratio']:>6.2f} {target:>6}"
        )
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
