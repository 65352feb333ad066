"""The journal and the artifacts as the harness reads them: for recovery, history and questions about ended runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from duly.protocol.machine.run import Run
from duly.storage.ports import Artifacts, JournalReading
from duly.storage.recovery import Recorded, load_run, recorded

RUNS_LISTED_MAX = 1_000


class JournalRecord:
    def __init__(self, journal: JournalReading, artifacts: Artifacts) -> None:
        self._journal = journal
        self._artifacts = artifacts

    def history(self, run_id: str) -> Iterable[Recorded]:
        """The events of a run in order, artifacts not loaded; none for an unknown run."""
        return [recorded(entry.seq, entry.event) for entry in self._journal.read_run(run_id)]

    def load(self, run_id: str) -> Run:
        """The run by replay. Raises ``RunError`` ``run.unknown``."""
        return load_run(self._journal, self._artifacts, run_id)[0]

    def unfinished(self) -> list[str]:
        """The runs without an end, oldest first."""
        open_runs = [run for run in self._journal.runs() if "run.ended" not in run.latest and run.run_id]
        return [run.run_id for run in sorted(open_runs, key=lambda run: run.first_seq)]

    def verdict_seq(self, run_id: str) -> int:
        """The number of a run's newest verdict, -1 where there is none."""
        summary = self._journal.run(run_id)
        return summary.latest.get("verdict.reached", -1) if summary is not None else -1

    def runs(self) -> list[dict[str, Any]]:
        """The newest runs: id, phase, agent, times."""
        lines = []
        for summary in self._journal.runs(RUNS_LISTED_MAX):
            if not summary.run_id:
                continue
            first, last = (
                entry.event for entry in self._journal.entries([summary.first_seq, summary.last_seq])
            )
            lines.append(_line(summary.run_id, first, last))
        return lines


def _line(run_id: str, first: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "phase": last["facts"].get("phase", ""),
        "agent": first["facts"].get("agent", ""),
        "tier": first["facts"].get("tier", ""),
        "submitted_ms": first["time_ms"],
        "last_ms": last["time_ms"],
    }
