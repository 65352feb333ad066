"""``duly inbox``: what waits for a person, for whom, since when; read from the record without a runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duly.protocol.authority.rendering import render_difference
from duly.protocol.machine import gates
from duly.protocol.machine.run import Run
from duly.protocol.wire.errors import AuthorityError, StorageError
from duly.storage.home import Home

from . import exit_codes
from .approvers import Approvers, approvers_of
from .layout import bold, count, labelled, moment
from .output import emit, say
from .records import Records

WAITING = ("WAITING_APPROVAL", "WAITING_INPUT")
DIFFERENCE_LINES_MAX = 12  # of a list; `duly inbox RUN` shows all of it
WHY = {
    "always": "every plan waits here",
    "arguments": "its arguments are known only now",
    "changed": "what was shown before has changed",
    "consequential": "it changes something, or reads what is sensitive",
    "cost": "its estimate is above the cost line",
    "edited": "a person edited the plan",
    "expired": "the approval has expired",
    "sensitive": "it reads a sensitive source",
    "wider_scope": "it reaches further than what was approved",
}
_EFFECTS = {"read": "reads", "write": "WRITES", "external": "LEAVES THE SYSTEM"}


@dataclass(frozen=True, slots=True)
class Waiting:
    """One run that waits, since when (milliseconds of wall time), who may decide its gate, and what changed since the same
    was asked before."""

    run: Run
    since_ms: int
    approvers: Approvers
    changed: tuple[str, ...] = ()


def inbox(home: Home, name: str | None, *, json: bool = False) -> int:
    """Every run that waits; with a run's name, what exactly would be approved."""
    try:
        with Records.open(home) as records:
            waiting = [_waiting(home, records, run_id) for run_id in _ids(records, name)]
    except StorageError as error:
        if error.code != "storage.absent" or name is not None:
            raise
        waiting = []
    if name is not None and not waiting:
        raise AuthorityError(
            "gate.none", f"Run {name} waits for nobody.", hint="`duly inbox` lists what waits."
        )
    if json:
        emit({"waiting": [entry(one) for one in waiting]})
    elif name is not None:
        say(_exactly(waiting[0]))
    else:
        say(_lines(waiting))
    return exit_codes.DONE


def _ids(records: Records, name: str | None) -> list[str]:
    summaries = [records.summary(name)] if name is not None else records.journal.runs()
    return [one.run_id for one in summaries if records.event(one.last_seq)["facts"].get("phase") in WAITING]


def _waiting(home: Home, records: Records, run_id: str) -> Waiting:
    run, record = records.run(run_id)
    asked = {"gate.asked", "input.asked"}
    last = next((one for one in reversed(record) if one.event.kind in asked), record[0])
    changed = last.event.facts.get("changed") or ()
    return Waiting(run, last.time_ms, approvers_of(home, run), tuple(map(str, changed)))


def entry(waiting: Waiting) -> dict[str, Any]:
    """One waiting run for a script."""
    run = waiting.run
    found: dict[str, Any] = {
        "run_id": run.run_id,
        "phase": str(run.phase),
        "agent": run.agent.name,
        "request": run.request.text,
        "submitted_ms": run.submitted_ms,
        "since_ms": waiting.since_ms,
        "what": what(run),
    }
    if run.gate is not None:
        view = gates.view(run)
        found |= {
            "for": waiting.approvers.to_data(),
            "gate": view.gate_id,
            "kind": view.kind,
            "step_id": view.step_id,
            "reason": run.gate.reason,
            "changed": list(waiting.changed),
            "tools": sorted({step.tool for step in view.steps.values()}),
            "text": view.text,
            "shown": view.shown,
            "difference": difference(run),
        }
    if run.asked is not None:
        found |= {
            "about": run.asked.about,
            "parameter": run.asked.question.parameter,
            "question": run.asked.question.text,
            "choices": list(run.asked.question.choices),
        }
    return found


def what(run: Run) -> str:
    """The question, or what a gate shows, in one line."""
    if run.asked is not None:
        return run.asked.question.text
    if run.gate is None or run.plan is None:
        return ""
    view = gates.view(run)
    acts = []
    for step_id, step in view.steps.items():
        descriptor = run.descriptors.get(step.tool)
        effect = _EFFECTS[descriptor.effect if descriptor else "write"]
        resource = f" ({descriptor.resource})" if descriptor and descriptor.resource else ""
        acts.append(f"{step_id} {effect} with {step.tool}{resource}")
    of = f"a plan of {count(len(run.plan.steps), 'step')}" if view.kind == "plan" else f"step {view.step_id}"
    return f"{of}: {'; '.join(acts) or 'it changes nothing'}"


def why(waiting: Waiting) -> str:
    """Why a gate asks, in a few words."""
    gate = waiting.run.gate
    reason = "" if gate is None else gate.reason
    return WHY.get(reason, reason) + (f": {', '.join(waiting.changed)}" if waiting.changed else "")


def _why_lines(waiting: Waiting) -> list[str]:
    reason = why(waiting)
    return labelled("why", reason) if reason else []


def difference(run: Run) -> str | None:
    """What a plan that waits changes against the one before it, ``None`` for a first plan and for a step."""
    if run.gate is None or run.gate.kind != "plan" or run.previous_plan is None or run.plan is None:
        return None
    return render_difference(run.previous_plan, run.plan)


def _lines(waiting: list[Waiting]) -> list[str]:
    if not waiting:
        return ["Nothing waits for you."]
    lines = [bold(f"{count(len(waiting), 'run')} waiting")]
    for one in waiting:
        run = one.run
        lines += ["", *labelled("run", run.run_id), *labelled("request", run.request.text)]
        lines += labelled("since", moment(one.since_ms))
        if run.gate is not None:
            lines += labelled("for", one.approvers.text())
            lines += labelled("approval", f"of {what(run)}")
            lines += _why_lines(one)
            lines += _difference_lines(run)
            lines += labelled("look", f"duly inbox {run.run_id}")
            lines += labelled("decide", _decide(run))
        if run.asked is not None:
            lines += _question(run)
    return lines


def _difference_lines(run: Run) -> list[str]:
    """The difference after a replan or an edit, cut off in a list. Its lines are escaped and at most 80 columns wide."""
    changed = difference(run)
    if changed is None:
        return []
    lines = changed.splitlines()
    shown = lines[:DIFFERENCE_LINES_MAX]
    more = len(lines) - len(shown)
    rest = [f"and {count(more, 'line')} more: duly inbox {run.run_id}"] if more else []
    return [*labelled("changed", f"since the last plan: {count(len(lines), 'line')}"), *shown, *rest]


def _exactly(waiting: Waiting) -> list[str]:
    run = waiting.run
    lines = [*labelled("run", run.run_id), *labelled("since", moment(waiting.since_ms))]
    if run.gate is None:
        return [*lines, *labelled("request", run.request.text), *_question(run)]
    lines += labelled("for", waiting.approvers.text())
    lines += _why_lines(waiting)
    return [*lines, "", *gates.view(run).text.splitlines(), "", *labelled("decide", _decide(run))]


def _decide(run: Run) -> str:
    ways = [f"duly approve {run.run_id}", f"duly reject {run.run_id}"]
    if run.gate is not None and run.gate.kind == "plan":
        ways.append(f"duly edit {run.run_id}")
    return ", or ".join([", ".join(ways[:-1]), ways[-1]]) if len(ways) > 2 else ", or ".join(ways)


def _question(run: Run) -> list[str]:
    if run.asked is None:
        return []
    question = run.asked.question
    lines = labelled("question", question.text)
    if question.choices:
        lines += labelled("choices", ", ".join(question.choices))
    return [*lines, *labelled("answer", f'duly answer {run.run_id} "..."')]
