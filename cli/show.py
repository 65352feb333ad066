"""``duly show``: everything about one run, replayed from the record, without a runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from duly.protocol.machine.run import Run
from duly.protocol.views.result import result_object
from duly.protocol.views.story import story
from duly.protocol.wire.errors import StorageError
from duly.storage.home import Home
from duly.storage.recovery import Recorded

from . import exit_codes
from .layout import bold, labelled, moment, paragraph, table
from .output import emit, say
from .records import Records
from .report import answer_lines, ending_lines, report_lines
from .step_page import check_lines as check_lines
from .step_page import show_step
from .thinking import asked_for
from .timeline import Span, timeline_lines


def show(
    home: Home, name: str | None, *, step: str | None = None, json: bool = False, queries: bool = False
) -> int:
    """One run: state, plan with outcomes, times, report, checks, budget, story. Without a name the newest run.

    With ``step``, the story of that step alone.
    """
    with Records.open(home) as records:
        run_id = _named(records, name)
        if step is None:
            run, events = records.run(run_id)
    if step is not None:
        return show_step(home, run_id, step, json=json)
    result = result_object(run)
    if json:
        emit({"type": "result", **result})
    else:
        say(run_lines(run, events, result, queries=queries))
    return exit_codes.DONE


def _named(records: Records, name: str | None) -> str:
    if name is not None:
        return records.summary(name).run_id
    newest = records.journal.runs(1)
    if not newest:
        raise StorageError(
            "storage.absent", "No run is recorded here yet.", hint="Start one with `duly run`."
        )
    return newest[0].run_id


def run_lines(
    run: Run, events: Iterable[Recorded], result: Mapping[str, Any], *, queries: bool = False
) -> list[str]:
    """The whole page of a run."""
    lines = [
        *labelled("run", run.run_id),
        *labelled("request", run.request.text),
        *labelled("agent", f"{run.agent.name} {run.agent.version}, tier {run.mandate.tier}"),
        *labelled("begun", moment(run.submitted_ms)),
        *labelled("phase", str(run.phase)),
        *labelled("next", f"{run.next_owner} goes on" if not run.phase.ended else run.next_owner),
    ]
    if run.thinking and not run.phase.ended:
        lines += labelled("model", f"{asked_for(run.thinking.partition(':')[0])}; no answer yet")
    if run.route:
        lines += labelled("route", f"{run.route}, score {run.score}")
    lines += step_lines(run)
    spans = spans_of(run)
    if spans:
        lines += ["", bold("WHEN EACH STEP RAN"), *timeline_lines(spans)]
    if not run.phase.waits:  # what was not verified is no report yet
        lines += report_lines(result.get("report"), queries=queries)
        lines += answer_lines(run.answer)
    lines += check_lines(run.checks)
    lines += ending_lines(result)
    lines += trusted_lines(run, result.get("trusted_artifacts") or ())
    told = list(story(run, list(events)))
    if told:
        lines += ["", bold("STORY")]
        lines += [line for entry in told for line in paragraph(_sentence(entry), "  ", "    ")]
    return lines


def step_lines(run: Run) -> list[str]:
    """The plan's steps with level and outcome, then what each of them was for."""
    if run.plan is None:
        return []
    rows = []
    for number, level in enumerate(run.levels, 1):
        for step_id in level:
            state = run.steps[step_id]
            outcome = state.status + (f" [{state.code}]" if state.code else "")
            if state.checked:
                outcome += f", check {state.checked}"
            rows.append((str(number), step_id, outcome, run.step(step_id).objective))
    title = f"PLAN version {run.plan.version}, from {run.plan.origin}, digest {run.plan_digest[:16]}"
    return [
        "",
        *(bold(line) for line in paragraph(title)),
        *table(("level", "step", "outcome", "objective"), rows, "  "),
    ]


def trusted_lines(run: Run, digests: Iterable[str]) -> list[str]:
    """The results that can be trusted: of which step, under which name, and the artifact's digest."""
    trusted = set(digests)
    rows = []
    for step_id, state in run.steps.items():
        if state.output in trusted:
            rows.append((step_id, run.step(step_id).output_contract.artifact, state.output[:16]))
    return ["", bold("CAN BE TRUSTED"), *table(("step", "artifact", "digest"), rows, "  ")] if rows else []


def spans_of(run: Run) -> list[Span]:
    """The times of the steps that a host ran, in plan order of their levels."""
    names = [name for level in run.levels for name in level]
    states = [(name, run.steps[name]) for name in names]
    return [Span(name, state.started_ms, state.ended_ms) for name, state in states if state.started_ms]


def _sentence(entry: Any) -> str:
    if isinstance(entry, Mapping):
        return " ".join(str(part) for part in (entry.get("time"), entry.get("text")) if part)
    return str(entry)
