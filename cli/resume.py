"""``duly resume``: the runtime goes on with a run, or with all that have not ended; each says what it waits for."""

from __future__ import annotations

from typing import Any

from duly.protocol.wire.errors import DulyError, RuntimeFault, StorageError
from duly.storage.home import Home

from . import exit_codes, follow
from .continuation import refuse_ended
from .decide import follower_of
from .layout import bold, count, labelled
from .output import emit, say
from .records import Records, last_seq, run_recorded
from .report import reason_text
from .run import conclude
from .start import opened

ENDED = ("COMPLETED", "PARTIAL", "FAILED", "CANCELLED")


def resume(home: Home, name: str | None, *, json: bool = False) -> int:
    """With a run, asks for it and follows it to its next stop; without, asks for every run that has not ended."""
    if name is None:
        return _all(home, json=json)
    run = run_recorded(home, name)
    refuse_ended(run)
    seen = last_seq(home, run.run_id)
    follower = follower_of(home, run.run_id, json=json)
    result = follower.request("resume", run_id=run.run_id, after=seen)
    if not json and str(result["phase"]).startswith("WAITING"):
        say(labelled("waits for", waits_for(result), 11))
    return conclude(follower, result)


def waits_for(result: follow.Result) -> str:
    """What a run that stopped or goes on waits for, in one sentence."""
    needs = result.get("needs") or {}
    if "approval" in needs:
        what = "its plan" if needs["approval"] == "plan" else f"step {needs.get('step_id')}"
        return f"an approval of {what}: look with `duly inbox {result['run_id']}`"
    if result["phase"] == "WAITING_INPUT":
        return f'an answer: {needs.get("question", "")} (`duly answer {result["run_id"]} "..."`)'
    reason = reason_text(result)
    return f"nobody; it goes on{f' ({reason})' if reason else ''}"


def _all(home: Home, *, json: bool) -> int:
    unfinished = _unfinished(home)
    found: list[dict[str, Any]] = []
    if unfinished:
        opened(home).close()  # a runtime that starts takes up every run that has not ended
    for run_id in unfinished:
        found.append(_resumed(home, run_id))
    if json:
        emit({"runs": found})
        return exit_codes.DONE
    say(bold(f"{count(len(found), 'run')} not ended") if found else "Every run has ended.")
    for one in found:
        say(["", *labelled("run", one["run_id"]), *labelled("phase", one["phase"])])
        say(labelled("waits for", one["waits_for"], 11))
    return exit_codes.DONE


def _unfinished(home: Home) -> list[str]:
    try:
        with Records.open(home) as records:
            return [
                one.run_id
                for one in records.journal.runs()
                if records.event(one.last_seq)["facts"].get("phase") not in ENDED
            ]
    except StorageError as error:
        if error.code != "storage.absent":
            raise
        return []


def _resumed(home: Home, run_id: str) -> dict[str, Any]:
    """One run asked for and not followed; then what it says of itself. A run that nobody can go on with says so."""
    try:
        with opened(home) as door:
            door.call("resume", run_id=run_id, detach=True)
    except RuntimeFault:
        raise
    except DulyError as error:
        return {
            "run_id": run_id,
            "phase": _result(home, run_id)["phase"],
            "waits_for": str(error),
            "code": error.code,
        }
    result = _result(home, run_id)
    return {
        "run_id": run_id,
        "phase": result["phase"],
        "waits_for": waits_for(result),
        "code": result["reason"],
    }


def _result(home: Home, run_id: str) -> follow.Result:
    from duly.protocol.views.result import result_object

    return result_object(run_recorded(home, run_id))
