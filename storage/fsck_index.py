"""What the journal's other databases must hold, derived from its events: run index, anomalies, epochs, artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.wire.errors import Fault
from duly.protocol.wire.limits import FSCK_FAULTS_MAX, READ_PAGE_ENTRIES_MAX

from . import journal_schema as schema
from .fsck_group import Add
from .journal_schema import RunAdditions, RunSummary, number
from .lmdb_env import Environment, Transaction


@dataclass(slots=True)
class Index:
    """Grows event by event. ``artifacts`` maps (run id, digest) to the first entry that names it."""

    runs: dict[str, RunAdditions] = field(default_factory=dict)
    artifacts: dict[tuple[str, str], int] = field(default_factory=dict)
    anomalies: dict[int, int] = field(default_factory=dict)
    epoch: int = 0
    latest_ms: int = 0

    def add(self, seq: int, event: Mapping[str, Any], add: Add) -> None:
        """Takes an event in; one of an older epoch than its predecessor is a fault."""
        if event["epoch"] < self.epoch:
            add(f"entry {seq}", "log.stale_epoch", f"Epoch {event['epoch']} comes after epoch {self.epoch}.")
        self.epoch = max(self.epoch, event["epoch"])
        run_id, kind, time_ms = event["run_id"], event["kind"], event["time_ms"]
        if time_ms < self.latest_ms:
            self.anomalies[seq] = self.latest_ms - time_ms
        self.latest_ms = max(self.latest_ms, time_ms)
        for digest in event["artifacts"].values():
            self.artifacts.setdefault((run_id, digest), seq)
        if not run_id:
            return
        run = self.runs.get(run_id)
        if run is None:
            self.runs[run_id] = RunAdditions([seq], time_ms, time_ms, kind, {kind: seq})
        else:
            run.seqs.append(seq)
            run.last_time_ms, run.last_kind = time_ms, kind
            run.latest[kind] = seq

    def compare(self, env: Environment, size: int, add: Add) -> list[Fault]:
        """Compares with what is stored about the first ``size`` entries; returns what is remarkable and no fault."""
        stored = _stored_runs(env)
        # A run is begun in one transaction and these pages are several: one that began in between is only there in part,
        # and whole when it is looked at again. What is still in part then is a fault.
        torn = [run_id for run_id, (summary, _, start) in stored.items() if summary is None or start is None]
        if torn:
            again = _stored_runs(env)
            stored |= {run_id: again[run_id] for run_id in torn if run_id in again}
        for run_id in sorted(stored.keys() | self.runs.keys()):
            summary, seqs, start = stored.get(run_id, (None, [], None))
            if summary is not None and summary.first_seq >= size:
                continue  # begun after the verification did
            derived = self.runs.get(run_id)
            if derived is None or summary is None:
                add(f"run {run_id}", "log.index", "The run index and the entries do not name the same runs.")
                continue
            grown = summary.last_seq >= size
            if [seq for seq in seqs if seq < size] != derived.seqs or start != derived.seqs[0]:
                add(f"run {run_id}", "log.index", "The run index does not name this run's entries.")
            elif not grown and summary != derived.onto(run_id, None):
                add(f"run {run_id}", "log.index", "The summary of this run is not what its entries give.")
        anomalies = {seq: by for seq, by in _numbers(env, schema.ANOMALIES).items() if seq < size}
        for seq in sorted(anomalies.items() ^ self.anomalies.items()):
            add(f"entry {seq[0]}", "log.anomaly", "The note about this entry's clock does not fit its time.")
        return [
            Fault(
                f"entry {seq}", "log.clock_back", f"The clock stood {by} ms before that of an earlier entry."
            )
            for seq, by in sorted(self.anomalies.items())[:FSCK_FAULTS_MAX]
        ]


def _stored_runs(env: Environment) -> dict[str, tuple[RunSummary | None, list[int], int | None]]:
    """Run id -> (summary, seqs, first seq by the index of starts), read in pages."""
    summaries: dict[str, RunSummary] = {}
    seqs: dict[str, list[int]] = {}
    for key, value in _pages(env, schema.RUNS):
        name, _, rest = key.partition(b"\0")
        run_id = name.decode("ascii", "replace")
        if rest:
            seqs.setdefault(run_id, []).extend(schema.unpack_seqs(value))
        else:
            summaries[run_id] = RunSummary.unpack(run_id, value)
    starts = {value.decode("ascii", "replace"): number(key) for key, value in _pages(env, schema.RUN_STARTS)}
    names = summaries.keys() | seqs.keys() | starts.keys()
    return {name: (summaries.get(name), seqs.get(name, []), starts.get(name)) for name in names}


def _numbers(env: Environment, database: str) -> dict[int, int]:
    return {number(key): number(value) for key, value in _pages(env, database)}


def _pages(env: Environment, database: str) -> list[tuple[bytes, bytes]]:
    """Everything in a database, read in several short transactions."""
    items: list[tuple[bytes, bytes]] = []
    while True:
        after = items[-1][0] + b"\0" if items else b""

        def work(transaction: Transaction, after: bytes = after) -> list[tuple[bytes, bytes]]:
            cursor = transaction.cursor(db=env.database(database))
            page: list[tuple[bytes, bytes]] = []
            found = cursor.set_range(after) if after else cursor.first()
            while found and len(page) < READ_PAGE_ENTRIES_MAX:
                page.append((cursor.key(), cursor.value()))
                found = cursor.next()
            return page

        page = env.read(work)
        items.extend(page)
        if not page:
            return items
