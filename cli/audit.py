"""``duly audit``: the events as they are recorded, and whether the record is what was signed. No runtime is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from json import dumps as to_json
from typing import Any

from duly.protocol.authority.printable import readable
from duly.protocol.log.checkpoint import VerifierKey
from duly.protocol.wire.errors import LogError, StorageError
from duly.storage.fsck import Report, verify_journal
from duly.storage.home import Home

from . import exit_codes
from .layout import bold, count, labelled, moment, paragraph, shortened, utc
from .log_key import verifier_of
from .output import emit, say
from .records import Records

FACTS_COLUMNS = 200


def log(home: Home, name: str | None, *, json: bool = False) -> int:
    """The events of one run, or of all, in their order."""
    with Records.open(home) as records:
        if name is None:
            entries: Iterable[Any] = records.journal.read()
        else:
            entries = records.journal.read_run(records.summary(name).run_id)
        for entry in entries:
            if json:
                emit(event_object(entry.seq, entry.event))
            else:
                say(_event_lines(entry.seq, entry.event, with_run=name is None))
    return exit_codes.DONE


def event_object(seq: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as ``--json`` prints it, here and while a run is followed."""
    return {
        "type": "event",
        "seq": seq,
        "time": utc(event["time_ms"]),
        "run_id": event["run_id"],
        "kind": event["kind"],
        "epoch": event["epoch"],
        "cause": event["cause"],
        "phase": event["facts"].get("phase", ""),
        "facts": {name: value for name, value in event["facts"].items() if name != "phase"},
        "artifacts": event["artifacts"],
    }


def _event_lines(seq: int, event: Mapping[str, Any], *, with_run: bool) -> list[str]:
    run = f" {event['run_id']}" if with_run and event["run_id"] else ""
    facts = " ".join(
        f"{name}={_fact(value)}"
        for name, value in event["facts"].items()
        if name != "phase" and value not in ("", None)
    )
    head = f"{seq:>6}  {moment(event['time_ms'])}{run}  {event['kind']}"
    lines = [readable(head)]
    return lines + (paragraph(shortened(facts, FACTS_COLUMNS), "        ", "        ") if facts else [])


def _fact(value: Any) -> str:
    text = value if isinstance(value, str) else to_json(value)
    return text[:16] + ".." if len(text) == 64 and text.isalnum() else text


def verify(home: Home, *, key: str | None = None, json: bool = False) -> int:
    """Derives everything anew with the public key alone; exit code 0 only when all of it holds."""
    if not home.journal.is_dir():
        raise StorageError("storage.absent", "There is no log here to verify.", place=str(home.journal))
    verifier = VerifierKey.parse(key) if key is not None else verifier_of(home)
    artifacts = home.artifacts if home.artifacts.is_dir() else None
    report = verify_journal(home.journal, [verifier], artifacts)
    if json:
        emit(report_object(report, verifier))
    else:
        say(_report_lines(report, verifier))
    if report.ok:
        return exit_codes.DONE
    first = report.faults[0]
    if not json:
        raise LogError("log.not_verified", f"The log does not verify: {first.message}", place=first.path)
    return exit_codes.REFUSED


def report_object(report: Report, verifier: VerifierKey) -> dict[str, Any]:
    """What was verified, for a script."""
    return {
        "ok": report.ok,
        "key": str(verifier),
        "size": report.size,
        "root": report.root.hex(),
        "checkpoints": report.checkpoints,
        "runs": report.runs,
        "artifacts": report.artifacts,
        "faults": [fault.to_data() for fault in report.faults],
        "notes": [note.to_data() for note in report.notes],
    }


def _report_lines(report: Report, verifier: VerifierKey) -> list[str]:
    lines = [
        *labelled(
            "log", f"{count(report.size, 'entry')}, {count(report.runs, 'run')}".replace("entrys", "entries")
        ),
        *labelled("root", report.root.hex()),
        *labelled("signed", count(report.checkpoints, "checkpoint")),
        *labelled("artifacts", f"{report.artifacts:,} compared with their digests"),
    ]
    lines += [bold("key"), f"  {readable(str(verifier))}"]  # on one line: it is copied
    for note in report.notes:
        lines += labelled("note", str(note))
    for fault in report.faults:
        lines += labelled("FAULT", str(fault))
    return [*lines, *labelled("verified", "everything holds" if report.ok else "no")]
