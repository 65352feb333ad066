"""``duly inbox``: what waits for a person, read from the record without a runtime."""

from __future__ import annotations

from typing import Any

from duly.protocol.machine import gates
from duly.protocol.machine.run import Run
from duly.protocol.wire.errors import AuthorityError, StorageError
from duly.storage.home import Home
from duly.storage.recovery import load_run

from . import exit_codes
from .layout import bold, count, labelled, moment
from .output import emit, say
from .records import Records

WAITING = ("WAITING_APPROVAL", "WAITING_INPUT")


def inbox(home: Home, name: str | None, *, json: bool = False) -> int:
    """Every run that waits; with a run's name, what exactly would be approved."""
    try:
        with Records.open(home) as records:
            waiting = [_load(records, run_id) for run_id in _ids(records, name)]
    except StorageError as error:
        if error.code != "storage.absent" or name is not None:
            raise
        waiting = []
    if name is not None and not waiting:
        raise AuthorityError(
            "gate.none", f"Run {name} waits for nobody.", hint="`duly inbox` lists what waits."
        )
    if json:
        emit({"waiting": [entry(run) for run in waiting]})
    elif name is not None:
        say(_exactly(waiting[0]))
    else:
        say(_lines(waiting))
    return exit_codes.DONE


def _ids(records: Records, name: str | None) -> list[str]:
    summaries = [records.summary(name)] if name is not None else records.journal.runs()
    return [one.run_id for one in summaries if records.event(one.last_seq)["facts"].get("phase") in WAITING]


def _load(records: Records, run_id: str) -> Run:
    if records.artifacts is None:
        raise StorageError("storage.absent", "The artifacts of this run are missing.", place=run_id)
    return load_run(records.journal, records.artifacts, run_id)[0]


def entry(run: Run) -> dict[str, Any]:
    """One waiting run for a script."""
    found: dict[str, Any] = {
        "run_id": run.run_id,
        "phase": str(run.phase),
        "agent": run.agent.name,
        "request": run.request.text,
        "submitted_ms": run.submitted_ms,
    }
    if run.gate is not None:
        view = gates.view(run)
        found |= {
            "gate": view.gate_id,
            "kind": view.kind,
            "step_id": view.step_id,
            "since_ms": run.gate.asked_ms,
            "reason": run.gate.reason,
            "tools": sorted({step.tool for step in view.steps.values()}),
            "text": view.text,
            "shown": view.shown,
        }
    if run.asked is not None:
        found |= {
            "about": run.asked.about,
            "parameter": run.asked.question.parameter,
            "question": run.asked.question.text,
            "choices": list(run.asked.question.choices),
        }
    return found


def _lines(waiting: list[Run]) -> list[str]:
    if not waiting:
        return ["Nothing waits for you."]
    lines = [bold(f"{count(len(waiting), 'run')} waiting")]
    for run in waiting:
        lines += ["", *labelled("run", run.run_id), *labelled("request", run.request.text)]
        if run.gate is not None:
            view = gates.view(run)
            tools = ", ".join(sorted({step.tool for step in view.steps.values()})) or "nothing that writes"
            what = "a plan" if view.kind == "plan" else f"step {view.step_id}"
            lines += labelled("approval", f"of {what} with {tools}, since {moment(run.gate.asked_ms)}")
            lines += labelled("look", f"duly inbox {run.run_id}")
            lines += labelled("decide", f"duly approve {run.run_id}, or duly reject {run.run_id}")
        if run.asked is not None:
            lines += _question(run)
    return lines


def _exactly(run: Run) -> list[str]:
    if run.gate is not None:
        decide = f"duly approve {run.run_id}, or duly reject {run.run_id}"
        return [*gates.view(run).text.splitlines(), "", *labelled("decide", decide)]
    return [*labelled("run", run.run_id), *labelled("request", run.request.text), *_question(run)]


def _question(run: Run) -> list[str]:
    if run.asked is None:
        return []
    question = run.asked.question
    lines = labelled("question", question.text)
    if question.choices:
        lines += labelled("choices", ", ".join(question.choices))
    return [*lines, *labelled("answer", f'duly answer {run.run_id} "..."')]
