"""The report of a run, and how it ended, as text: from the result object that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .layout import bold, count, labelled, paragraph

KINDS = (
    ("observation", "OBSERVATIONS"),
    ("hypothesis", "HYPOTHESES"),
    ("missing evidence", "MISSING EVIDENCE"),
    ("follow-up", "FOLLOW-UPS"),
    ("recommendation", "RECOMMENDATIONS"),
)
QUERIES_SHOWN_MAX = (
    2  # a report on one value is understood from its query; a long one has them in `duly show`
)
ENDINGS = {
    "COMPLETED": "COMPLETED",
    "PARTIAL": "PARTIAL: some of it is done, some is missing",
    "FAILED": "FAILED",
    "CANCELLED": "CANCELLED",
    "WAITING_APPROVAL": "WAITING_APPROVAL: nothing more happens until somebody decides",
    "WAITING_INPUT": "WAITING_INPUT: one answer is missing",
}
VERDICTS = {
    "pass": "pass: every check held, computed apart from the plan's author",
    "fail": "fail: a check did not hold",
    "inconclusive": "inconclusive: not everything could be checked",
    "none": "none: nobody checked this",
}


def answer_lines(answer: Any) -> list[str]:
    """What a model answered in a direct run, and that nobody checked it."""
    if not answer:
        return []
    text = [line for row in str(answer).splitlines() for line in (paragraph(row, "  | ", "  | ") or ["  |"])]
    return ["", bold("ANSWER OF THE MODEL (nobody checked it)"), *text]


def report_lines(report: Mapping[str, Any] | None, *, queries: bool = False) -> list[str]:
    """The statements by kind, each with its evidence level; then the queries behind them."""
    statements = list((report or {}).get("statements") or ())
    lines: list[str] = []
    known = {kind for kind, _ in KINDS}
    others = dict.fromkeys(s["kind"] for s in statements if _kind(s) not in known)
    for kind, title in (*KINDS, *((name, str(name).upper()) for name in others)):
        chosen = [s for s in statements if _kind(s) == kind or s["kind"] == kind]
        if chosen:
            lines += ["", *paragraph(title)]
        for statement in chosen:
            lines += _statement(statement)
    asked = list(dict.fromkeys(str(s["query"]) for s in statements if s.get("query")))
    if asked and (queries or len(asked) <= QUERIES_SHOWN_MAX):
        lines += ["", "QUERY" if len(asked) == 1 else "QUERIES"]
        for query in asked:
            lines += [line for row in query.splitlines() for line in paragraph(row, "  ", "    ")]
    elif asked:
        lines += [
            "",
            f"{count(len(asked), 'query').replace('querys', 'queries')}: see duly show RUN --queries",
        ]
    return lines


def _kind(statement: Mapping[str, Any]) -> str:
    return str(statement["kind"]).replace("_", " ").replace("follow up", "follow-up")


def _statement(statement: Mapping[str, Any]) -> list[str]:
    """The text, which names its values with their units, and how strong its evidence is."""
    level = f" ({statement['level']})" if statement.get("level") else ""
    return paragraph(f"{statement['text']}{level}", "  - ", "    ")


def ending_lines(result: Mapping[str, Any]) -> list[str]:
    """How a run stopped: phase, verdict, reason, what is needed, budget, who goes on."""
    phase = result["phase"]
    lines = ["", bold(ENDINGS.get(phase, str(phase)))]
    waits = phase.startswith("WAITING")
    if not waits and result.get("verdict"):
        lines += labelled("verdict", VERDICTS.get(result["verdict"], str(result["verdict"])))
    reason = reason_text(result)
    if reason and not waits:
        lines += labelled("reason", reason)
    lines += needs_lines(result.get("needs"))
    spent = budget_text(result.get("budget") or {})
    if spent:
        lines += labelled("budget", spent)
    if phase in ("PARTIAL", "FAILED", "CANCELLED"):
        if result.get("trusted_artifacts"):
            lines += labelled(
                "kept", f"{count(len(result['trusted_artifacts']), 'result')} that can be trusted"
            )
        if phase != "PARTIAL":  # there it is one of the choices
            lines += labelled("continue", f"duly run --from {result['run_id']}")
    return lines


def reason_text(result: Mapping[str, Any]) -> str:
    """The sentence of why a run stopped, with its code."""
    reason, message = result.get("reason") or "", result.get("message") or ""
    if isinstance(reason, Mapping):
        reason, message = reason.get("code", ""), reason.get("message", "")
    return f"{message} [{reason}]" if message and reason else str(message or reason)


def needs_lines(needs: Any) -> list[str]:
    """What a stopped run needs from a person: a question with its choices, or what is missing and what can be done."""
    if not isinstance(needs, Mapping):
        return []
    lines: list[str] = []
    question = needs.get("question")
    if isinstance(question, Mapping):
        needs = {**question, **{name: needs[name] for name in needs if name != "question"}}
        question = question.get("text")
    if question:
        lines += labelled("question", str(question))
    for label, name in (
        ("done", "done"),
        ("would run", "shadowed"),
        ("missing", "missing"),
        ("choices", "choices"),
    ):
        lines += _listed(label, needs.get(name))
    return lines


def _listed(label: str, items: Any) -> list[str]:
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        return labelled(label, str(items)) if items else []
    lines: list[str] = []
    for item in items:
        text = str(item.get("text", item)) if isinstance(item, Mapping) else str(item)
        lines += labelled(label if not lines else "", f"- {text}")
    return lines


def budget_text(budget: Mapping[str, Any]) -> str:
    """``steps 9 of 40, tool calls 14 of 60``; the names in their own order."""
    parts = []
    for name, amounts in budget.items():
        spent, limit = amounts.get("spent", 0), amounts.get("limit")
        of = "" if limit is None else f" of {limit:,}"
        parts.append(f"{name.replace('_', ' ')} {spent:,}{of}")
    return ", ".join(parts)
