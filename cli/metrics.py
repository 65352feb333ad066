"""``duly metrics``: the seven metrics over the recorded events of all runs, or of the newest. No runtime is started."""

from __future__ import annotations

import datetime
import re
from typing import Any

from duly.protocol.views.metrics import Metric, Tally
from duly.protocol.wire.errors import RequestError, StorageError
from duly.storage.home import Home
from duly.storage.recovery import recorded

from . import exit_codes
from .layout import bold, count, paragraph, table, utc
from .output import emit, say
from .records import Records

_AGE = re.compile(r"([0-9]{1,6})([dhm])\Z")
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}


def metrics(home: Home, *, since: str | None = None, last: int | None = None, json: bool = False) -> int:
    """The metrics of the runs that were submitted ``since``, of these the newest ``last``."""
    now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)
    since_ms = None if since is None else moment_of(since, now_ms)
    try:
        with Records.open(home) as records:
            total = _counted(records, since_ms, last)
    except StorageError as error:
        if error.code != "storage.absent":
            raise
        total = Tally()
    if json:
        emit(_document(total, since_ms, last))
    else:
        say(_lines(total, since_ms))
    return exit_codes.DONE


def moment_of(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of ``7d``, ``24h``, ``90m`` (before now), of a day, or of an RFC 3339 time (UTC where
    it names no zone). Raises ``RequestError`` ``request.bad_option``."""
    age = _AGE.match(text)
    if age:
        return now_ms - int(age[1]) * _UNIT_MS[age[2]]
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            "request.bad_option",
            f"--since {text!r} is no time.",
            hint="Write an age such as 7d, 24h or 90m, a day such as 2026-11-01, or an RFC 3339 time.",
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def _counted(records: Records, since_ms: int | None, last: int | None) -> Tally:
    total = Tally()
    for summary in records.journal.runs(last if since_ms is None else None):
        if last is not None and total.runs >= last:
            break
        if since_ms is not None and summary.first_time_ms < since_ms:
            continue  # the clock may have stepped back, so an older run can stand before a newer one
        record = [recorded(entry.seq, entry.event) for entry in records.journal.read_run(summary.run_id)]
        total.add(summary.run_id, record)
    return total


def _document(total: Tally, since_ms: int | None, last: int | None) -> dict[str, Any]:
    return {
        "runs": total.runs,
        "since": None if since_ms is None else utc(since_ms),
        "last": last,
        "phases": dict(sorted(total.phases.items())),
        "metrics": {one.name: _plain(one) for one in total.metrics()},
    }


def _plain(metric: Metric) -> dict[str, Any]:
    return {
        "numerator": metric.numerator,
        "denominator": metric.denominator,
        "value": metric.value,
        "counts": {"numerator": metric.counts[0], "denominator": metric.counts[1]},
        "lowered_by": list(metric.lowered_by),
    }


def _lines(total: Tally, since_ms: int | None) -> list[str]:
    if not total.runs:
        return ["No runs to count."]
    title = (
        f"{count(total.runs, 'run')}{'' if since_ms is None else f' since {utc(since_ms)}'}: "
        + ", ".join(f"{number} {phase}" for phase, number in sorted(total.phases.items()))
    )
    found = total.metrics()
    rows = [
        (
            one.name.replace("_", " "),
            "-" if one.value is None else f"{one.value:.1%}",
            f"{one.numerator} of {one.denominator}",
            f"{one.counts[1]}: {one.counts[0]}",
        )
        for one in found
    ]
    lines = [*(bold(line) for line in paragraph(title)), ""]
    lines += table(("metric", "value", "count", "counted of"), rows, whole=True)
    lowered = [(one.name.replace("_", " "), ", ".join(one.lowered_by)) for one in found if one.lowered_by]
    if lowered:
        lines += ["", *table(("metric", "lowered by (the newest)"), lowered, whole=True)]
    return lines
