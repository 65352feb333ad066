"""``duly report``: what a run found and how that can be checked, as text, as JSON or as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path

from duly.protocol.wire.errors import RequestError
from duly.storage import atomic_file
from duly.storage.home import Home

from . import exit_codes
from .layout import bold, count, labelled, moment, paragraph, table
from .output import emit, say
from .report import answer_lines, ending_lines, report_lines
from .report_dossier import Dossier, gathered
from .show import check_lines

STANDARD_OUTPUT = "-"


def report(home: Home, name: str | None, *, html: str | None = None, json: bool = False) -> int:
    """The report of a run (the newest, if none is named). With ``html`` it is written to that file, ``-`` for standard
    output. Raises ``RequestError`` ``request.bad_option`` for two things on one standard output."""
    if html == STANDARD_OUTPUT and json:
        raise RequestError("request.bad_option", "--json and --html - both want standard output.")
    dossier = gathered(home, name)
    if html is not None:
        written = _write(dossier, html)
        if json:
            emit({**dossier.to_json(), "html": written})
        elif written is not None:
            say(labelled("written", written))
    elif json:
        emit(dossier.to_json())
    else:
        say(text_lines(dossier))
    return exit_codes.DONE


def _write(dossier: Dossier, file: str) -> str | None:
    """Writes the page; the path, or ``None`` for standard output."""
    from .report_html import page

    text = page(dossier)
    if file == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return None
    path = Path(file).resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(
            text.encode("utf-8")
        )  # a pipe or device is written to; a rename would take its place
    else:
        atomic_file.replace(path, text.encode("utf-8"))
    return str(path)


def text_lines(dossier: Dossier) -> list[str]:
    """Request, statements with their queries, checks that did not pass, approvals, end, and how to verify it."""
    run = dossier.run
    lines = [
        *labelled("request", run.request.text),
        *labelled(
            "run", f"{run.run_id}, agent {run.agent.name} {run.agent.version}, tier {run.mandate.tier}"
        ),
        *labelled("begun", moment(run.submitted_ms)),
    ]
    lines += report_lines(dossier.report, queries=True)
    lines += answer_lines(dossier.run.answer)
    lines += _contribution_lines(dossier)
    lines += _check_lines(dossier)
    if dossier.approvals:
        rows = [
            (one.step_id or "the plan", one.name or one.approver, moment(one.time_ms))
            for one in dossier.approvals
        ]
        lines += ["", bold("APPROVALS"), *table(("approved", "by", "when"), rows, "  ")]
    lines += ending_lines(dossier.result)
    known = dossier.proof
    lines += labelled(
        "log", f"entries {known.first_seq} to {known.last_seq}; check it with duly audit verify"
    )
    return lines


def _contribution_lines(dossier: Dossier) -> list[str]:
    """One table a dimension."""
    lines: list[str] = []
    for chart in dossier.contributions:
        rows = [
            (
                part.segment,
                f"{part.value:+,.3f}",
                f"[{part.low:+,.3f}, {part.high:+,.3f}]",
                "" if part.label == part.segment else part.label,
            )
            for part in chart.parts
        ]
        lines += [
            "",
            *(
                bold(line)
                for line in paragraph(f"CONTRIBUTIONS OF {chart.dimension.upper()}, in {chart.unit}")
            ),
        ]
        lines += table(("segment", "contribution", "interval", "label"), rows, "  ")
        if chart.more:
            lines += paragraph(f"and {count(chart.more, 'segment')} more, together {chart.rest:+,.3f}", "  ")
    return lines


def _check_lines(dossier: Dossier) -> list[str]:
    checks = dossier.run.checks
    if not checks:
        return []
    bad = [check for check in checks if check["outcome"] != "pass"]
    passed = f"{count(len(checks) - len(bad), 'check')} passed, computed apart from the plan's author."
    return [*(check_lines(bad) or ["", bold("CHECKS")]), *paragraph(passed, "  ")]
