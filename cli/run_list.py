"""``duly runs``: read from the journal's index, without a runtime. Imported on the fast path: no pydantic here."""

from __future__ import annotations

from typing import Any

from duly.protocol.wire.errors import StorageError
from duly.protocol.wire.limits import RUNS_LISTED
from duly.storage.home import Home
from duly.storage.journal_schema import RunSummary

from . import exit_codes
from .layout import moment, table
from .output import emit, say
from .records import Records


def runs(home: Home, *, limit: int = RUNS_LISTED, json: bool = False) -> int:
    """The newest runs first: id, phase, verdict, begin, request."""
    try:
        with Records.open(home) as records:
            rows = [_row(records, summary) for summary in records.journal.runs(limit)]
            more = len(rows) == limit and len(records.journal.runs(limit + 1)) > limit
    except StorageError as error:
        if error.code != "storage.absent":
            raise
        rows, more = [], False
    if json:
        emit({"runs": rows, "more": more})
    elif not rows:
        say("No runs yet.")
    else:
        cells = [
            (
                row["run_id"],
                row["phase"],
                row["verdict"],
                moment(row["started_ms"])[:16],
                row["request"] or "",
            )
            for row in rows
        ]
        say(table(("run", "phase", "verdict", "started", "request"), cells))
        if more:
            say(f"The newest {limit}; more with --limit.")
    return exit_codes.DONE


def _row(records: Records, summary: RunSummary) -> dict[str, Any]:
    """What one run's newest entries say; every event of a run carries the phase after it."""
    last = records.event(summary.last_seq)
    first = records.event(summary.first_seq)
    request = records.attached(first, "request") or {}
    verdict = "none"
    if "verdict.reached" in summary.latest:
        verdict = records.event(summary.latest["verdict.reached"])["facts"].get("outcome", "none")
    return {
        "run_id": summary.run_id,
        "phase": last["facts"].get("phase", "PLANNING"),
        "verdict": verdict,
        "agent": first["facts"].get("agent", ""),
        "request": request.get("text"),
        "started_ms": summary.first_time_ms,
        "changed_ms": summary.last_time_ms,
        "events": summary.entries,
    }
