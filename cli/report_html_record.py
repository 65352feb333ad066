"""The parts of the report page that show the record: steps, checks, budget, approvals, story, and how to verify it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .layout import count, duration, utc
from .markup import Html, joined, lines, tag
from .report_dossier import Dossier
from .report_svg_plan import outcome, sign

_OUTCOMES = {"pass": ("good", "tick"), "fail": ("bad", "cross"), "not_run": ("ask", "question")}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table; nothing where there are no rows."""
    body = [tag("tr", *(one if _is_cell(one) else tag("td", one) for one in row)) for row in rows]
    if not body:
        return Html("")
    whole = tag("table", tag("thead", tag("tr", *(tag("th", name) for name in head))), tag("tbody", *body))
    return tag("div", whole, class_="wide")


def _is_cell(value: object) -> bool:
    return isinstance(value, Html) and value.startswith("<td")


def number(value: object) -> Html:
    return tag("td", value, class_="number")


def marked(class_: str, mark: str, word: str) -> Html:
    """A word with the sign that stands for it."""
    icon = tag("svg", sign(mark, 9, 9, class_), viewBox="0 0 18 18", width=13, height=13, aria_hidden="true")
    return joined([icon, " ", word])


def steps(dossier: Dossier) -> Html:
    """Every step with level, outcome, tool, time and what it was for."""
    rows = []
    for step in dossier.steps:
        class_, mark, word = outcome(step)
        told = word + (f" [{step.code}]" if step.code else "")
        checked = "" if step.checked in ("", "fail") else f", check {step.checked}"
        lasted = duration(step.ended_ms - step.started_ms) if step.started_ms else ""
        rows.append(
            (
                number(step.level),
                tag("code", step.step_id),
                marked(class_, mark, told + checked),
                joined([tag("code", step.tool or "reason"), f" {step.effect}"]),
                number(step.attempts or ""),
                number(lasted),
                step.objective,
            )
        )
    return table(("level", "step", "outcome", "tool", "attempts", "time", "objective"), rows)


def checks(found: Sequence[Mapping[str, Any]]) -> Html:
    """Every check of the verdict: those that did not pass one by one with the reason, the others by step."""
    if not found:
        return Html("")
    counted = {word: sum(one["outcome"] == word for one in found) for word in ("pass", "fail", "not_run")}
    said = f"{count(len(found), 'check')}: {counted['pass']} passed, {counted['fail']} failed, {counted['not_run']} not run."
    bad = sorted(
        (one for one in found if one["outcome"] != "pass"), key=lambda one: str(one["outcome"]) != "fail"
    )
    rows: list[Sequence[object]] = [
        (_judged(one), tag("code", one["step_id"]), _check(one), str(one.get("reason") or "")) for one in bad
    ]
    passed: dict[str, list[Html]] = {}
    for one in found:
        if one["outcome"] == "pass":
            passed.setdefault(str(one["step_id"]), []).append(_check(one))
    for step_id, names in passed.items():
        several = joined(part for name in names for part in (name, ", "))
        rows.append(
            (marked("good", "tick", "pass"), tag("code", step_id), Html(several.removesuffix(", ")), "")
        )
    return joined([tag("p", said), table(("outcome", "step", "checks", "reason"), rows)])


def _judged(one: Mapping[str, Any]) -> Html:
    word = str(one["outcome"])
    return marked(*_OUTCOMES.get(word, ("dim", "dash")), word.replace("_", " "))


def _check(one: Mapping[str, Any]) -> Html:
    """What is checked, without the step's name that stands beside it."""
    name = " ".join(part for part in str(one["check_id"]).split(":") if part != one["step_id"])
    return tag("span", name, title=one["kind"])


def budget(amounts: Mapping[str, Mapping[str, Any]]) -> Html:
    """What was spent of each limit, as numbers and as a bar."""
    rows = []
    for name, one in amounts.items():
        spent, limit = one.get("spent") or 0, one.get("limit")
        share = min(100, spent * 100 // limit) if limit else 0
        bar = tag("div", tag("div", style=f"width:{share}%"), class_="meter") if limit else ""
        of = "no limit" if limit is None else f"{limit:,}"
        rows.append(
            (
                name.replace("_", " "),
                number(f"{spent:,}"),
                number(of),
                number(f"{share} %" if limit else ""),
                bar,
            )
        )
    return table(("budget", "spent", "limit", "", ""), rows)


def approvals(dossier: Dossier) -> Html:
    """Who approved what and when; what the mandate itself approves is said too."""
    rows = [
        (
            "the plan" if one.kind == "plan" else joined(["step ", tag("code", one.step_id or "")]),
            one.name or "a key that this installation does not know by name",
            tag("code", one.approver),
            utc(one.time_ms),
            joined(["entry ", str(one.seq)]),
        )
        for one in dossier.approvals
    ]
    mandate = f"The mandate was signed by {dossier.submitter} in tier {dossier.run.mandate.tier}."
    return joined(
        [
            tag("p", f"{mandate} {_gates(dossier)}"),
            table(("approved", "by", "key", "when (UTC)", "log"), rows),
        ]
    )


def _gates(dossier: Dossier) -> str:
    """What the gates of the run came to, where that is not in the table."""
    gate = dossier.run.gate
    if gate is not None:
        return (
            f"An approval of {'the plan' if gate.kind == 'plan' else f'step {gate.step_id}'} is waited for."
        )
    rejected = sum(one.event.kind == "plan.rejected" for one in dossier.record)
    if rejected:
        return f"A person said no {'once' if rejected == 1 else f'{rejected} times'}."
    asked = any(one.event.kind == "gate.asked" for one in dossier.record)
    return "" if asked else "Nothing in this run waited for an approval."


def told(dossier: Dossier) -> Html:
    """What happened, in order."""
    rows = [
        (number(one.seq), tag("td", utc(one.time_ms).replace("T", " "), class_="mono"), one.text)
        for one in dossier.story
    ]
    return table(("entry", "time (UTC)", "what"), rows)


def proof(dossier: Dossier) -> Html:
    """How somebody who does not trust this page looks the run up in the log."""
    known = dossier.proof
    run_id = dossier.run.run_id
    verdict = "" if known.verdict_seq is None else f" Its verdict is entry {known.verdict_seq}."
    commands = f"duly audit verify --key {known.log_key}\nduly audit log {run_id}\nduly show {run_id}"
    return joined(
        [
            tag(
                "p",
                "This page is a copy of what the log says; the log is what counts. The run's events are the entries of "
                f"the run between {known.first_seq} and {known.last_seq}.{verdict}",
            ),
            tag("p", "With the data directory at hand, all of it is derived anew from the public key alone:"),
            tag("pre", lines(commands)),
            tag("p", "The newest checkpoint when this page was made, signed by the log's key:"),
            tag("pre", lines(known.checkpoint)),
        ]
    )
