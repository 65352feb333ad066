"""The report of a run as one HTML file that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duly.protocol.machine.phases import Phase

from .layout import duration, utc
from .markup import Html, joined, lines, tag
from .report import ENDINGS, KINDS, VERDICTS, reason_text
from .report_dossier import Dossier
from .report_html_record import approvals, budget, checks, proof, steps, told
from .report_html_style import STYLE
from .report_svg_parts import parts_svg
from .report_svg_plan import plan_svg, sign
from .report_svg_time import time_svg
from .timeline import Span

# Nothing may be loaded or run, whatever a text in the page says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# Phase → class and sign of its badge.
BADGES: Mapping[Phase, tuple[str, str]] = {
    Phase.COMPLETED: ("good", "tick"),
    Phase.PARTIAL: ("ask", "dash"),
    Phase.FAILED: ("bad", "cross"),
    Phase.CANCELLED: ("dim", "dash"),
    Phase.WAITING_APPROVAL: ("ask", "question"),
    Phase.WAITING_INPUT: ("ask", "question"),
}


def page(dossier: Dossier) -> str:
    """The whole file."""
    run = dossier.run
    title = f"{run.phase}: {run.request.text}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title[:120]),
        tag("style", Html(STYLE)),
    )
    parts = [
        _top(dossier),
        _statements(dossier),
        section("Contributions", _figures(dossier)),
        section("Plan", plan_svg(dossier.steps)),
        section("When each step ran", time_svg(dossier.steps, _verification(dossier))),
        section("Steps", steps(dossier)),
        section("Checks", checks(run.checks)),
        section("Budget", budget(dossier.result.get("budget") or {})),
        section("Approvals", approvals(dossier)),
        section("Story", told(dossier)),
        section("Queries", _queries(dossier)),
        section("How to verify this", proof(dossier)),
    ]
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}\n"


def section(title: str, content: Html) -> Html:
    """A part of the page with its heading; nothing where there is nothing to show."""
    return tag("section", tag("h2", title), content) if content else Html("")


def _top(dossier: Dossier) -> Html:
    """Request, where the run stands, and what it was made of."""
    run = dossier.run
    class_, mark = BADGES.get(run.phase, ("busy", "ring"))
    icon = tag("svg", sign(mark, 9, 9, class_), viewBox="0 0 18 18", aria_hidden="true")
    badge = tag("span", icon, str(run.phase), class_=f"badge {class_}")
    lasted = duration(dossier.ended_ms - run.submitted_ms)
    when = f"{utc(run.submitted_ms)}, {lasted} to the last event"
    facts = [
        ("stands", "" if ENDINGS.get(run.phase) == run.phase else ENDINGS.get(run.phase, str(run.phase))),
        ("verdict", VERDICTS.get(run.verdict, run.verdict)),
        ("reason", reason_text(dossier.result)),
        ("run", tag("code", run.run_id)),
        ("agent", f"{run.agent.name} {run.agent.version}, tier {run.mandate.tier}"),
        ("submitted", f"by {dossier.submitter}"),
        ("begun", when),
        ("route", f"{run.route}, score {run.score}" if run.route else ""),
        ("next", run.next_owner if run.phase.ended else f"{run.next_owner} goes on"),
    ]
    digests = [(name, tag("code", digest)) for name, digest in dossier.digests().items()]
    return tag(
        "header",
        tag("p", badge),
        tag("h1", run.request.text),
        pairs(facts),
        _needs(dossier),
        tag("h3", "Digests"),
        pairs(digests),
    )


def pairs(facts: Iterable[tuple[str, object]]) -> Html:
    """Names with their values; empty values are left out."""
    return tag("dl", *(joined([tag("dt", name), tag("dd", value)]) for name, value in facts if value))


def _needs(dossier: Dossier) -> Html:
    """What a stopped run needs from a person: the question, what is done and missing, and the choices."""
    needs = dossier.result.get("needs")
    if not isinstance(needs, Mapping):
        return Html("")
    facts = [(name, _listed(needs.get(name))) for name in ("done", "missing")]
    choices = needs.get("choices") or ()
    parts = [
        tag("p", tag("strong", needs["question"])) if needs.get("question") else "",
        pairs(facts) if any(value for _, value in facts) else "",
        tag("h3", "Choices") if choices else "",
        tag("ul", *(tag("li", choice) for choice in choices)) if choices else "",
    ]
    return joined(parts)


def _listed(names: Any) -> Html:
    if not isinstance(names, Sequence) or isinstance(names, str | bytes):
        return Html("")
    several = joined(part for name in names for part in (tag("code", name), ", "))
    return Html(several.removesuffix(", "))


def _statements(dossier: Dossier) -> Html:
    """The report: statements by kind, each with how strong its evidence is."""
    if dossier.report is None:
        return Html("")
    parts: list[Html] = []
    given: Sequence[Mapping[str, Any]] = dossier.report.get("statements") or ()
    titles = {name.replace("-", "_").replace(" ", "_"): title for name, title in KINDS}
    order = [*titles, *dict.fromkeys(str(one["kind"]) for one in given if one["kind"] not in titles)]
    for kind in order:
        chosen = [one for one in given if str(one["kind"]).replace("-", "_").replace(" ", "_") == kind]
        if chosen:
            parts += [tag("h3", titles.get(kind, kind).capitalize()), tag("ul", *map(_statement, chosen))]
    return section("Report", joined(parts))


def _statement(one: Mapping[str, Any]) -> Html:
    level = tag("span", one["level"], class_="level") if one.get("level") else ""
    return tag("li", one["text"], " ", level)


def _figures(dossier: Dossier) -> Html:
    if not dossier.contributions:
        return Html("")
    said = (
        "Bars begin at zero; the line over a bar is the interval from the segment's own missing rows. Segments whose "
        "intervals overlap cannot be told apart. Pictures of one unit share a scale."
    )
    return joined(
        [tag("p", said, class_="note"), tag("div", parts_svg(dossier.contributions), class_="figures")]
    )


def _verification(dossier: Dossier) -> Span | None:
    """From the last ``verification.started`` to the verdict."""
    begun = ended = 0
    for one in dossier.record:
        if one.event.kind == "verification.started":
            begun, ended = one.time_ms, 0
        elif one.event.kind == "verdict.reached" and begun:
            ended = one.time_ms
    return Span("verification", begun, ended) if ended else None


def _queries(dossier: Dossier) -> Html:
    """Every query behind the report, once."""
    given = (dossier.report or {}).get("statements") or ()
    asked = list(dict.fromkeys(str(one["query"]) for one in given if one.get("query")))
    if not asked:
        return Html("")
    said = tag("p", f"{len(asked)} of them stand behind the statements above.", class_="note")
    return joined([said if len(asked) > 1 else "", *(tag("pre", lines(query)) for query in asked)])
