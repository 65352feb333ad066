"""What a person sees of a model at work: that it was asked, for how long it has worked, and how it came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .layout import count, duration, labelled

Facts = Mapping[str, Any]
_PURPOSES = {
    "plan": "asked for a plan",
    "arguments": "asked for the arguments",
    "direct": "asked what to do next",
}
# After these a model works on nothing: it answered, gave up, or was left alone.
_ENDS = frozenset(
    (
        "model.called",
        "model.answered",
        "step.succeeded",
        "step.failed",
        "verdict.reached",
        "run.resumed",
        "run.cancelled",
        "run.ended",
    )
)


class Pace:
    """When a wait is worth a line: after 10, 30 and 60 seconds, then once a minute."""

    def __init__(self) -> None:
        self._told = 0

    def is_due(self, waited_ms: int) -> bool:
        """Whether a line is due after so long; each is due once."""
        mark = _mark(waited_ms // 1_000)
        due = mark > self._told
        self._told = max(mark, self._told)
        return due


class Thinking:
    """The work of models in one run, from its events. ``asked`` is what one is asked for now, empty for none."""

    def __init__(self) -> None:
        self.asked = ""
        self._label = ""
        self._since_ms = 0
        self._pace = Pace()

    def event(self, event: Mapping[str, Any], time_ms: int) -> list[str]:
        """The lines that an event is worth."""
        kind, facts = event["kind"], event["facts"]
        if kind in _ENDS:
            self.asked = ""
        if kind == "model.called":
            return _called(facts)
        label, asked = _begins(kind, facts)
        if not asked:
            return []
        self.asked, self._label, self._since_ms, self._pace = asked, label, time_ms, Pace()
        return labelled(label, asked)

    def so_far(self, now_ms: int) -> str:
        """What is asked, and for how long already."""
        return f"{self._label} {self.asked}, {duration(self._waited(now_ms), whole=True)}"

    def idle(self, now_ms: int) -> list[str]:
        """The line that is due while nothing comes, if any."""
        if not self.asked or not self._pace.is_due(self._waited(now_ms)):
            return []
        return labelled(self._label, f"still at it after {duration(self._waited(now_ms), whole=True)}")

    def _waited(self, now_ms: int) -> int:
        return max(0, now_ms - self._since_ms)


def asked_for(purpose: str) -> str:
    """What a model is asked for, in words; empty for what is no purpose of a model's."""
    return _PURPOSES.get(purpose, "")


def _begins(kind: str, facts: Facts) -> tuple[str, str]:
    """Who begins to work on what with an event; two empty texts where nobody does."""
    if kind == "step.started" and facts.get("mode") == "reason":
        return "model", f"asked to answer {facts['step_id']}"
    if kind != "budget.reserved":
        return "", ""
    if facts["purpose"] == "verification" and facts["amounts"].get("model_tokens"):
        return "critic", "asked for a review, once the verifier has looked"
    asked = asked_for(facts["purpose"])
    about = f" of {facts['step_id']}" if asked and facts.get("step_id") else ""
    return "model", asked + about


def _called(facts: Facts) -> list[str]:
    label = "critic" if facts["purpose"] == "critic" else "model"
    took = duration(facts["duration_ms"])
    if facts["code"]:
        return labelled(label, f"failed after {took} [{facts['code']}]")
    return labelled(label, f"answered in {took}, {count(facts['tokens_in'] + facts['tokens_out'], 'token')}")


def _mark(seconds: int) -> int:
    """The last moment not after these seconds at which a line is due."""
    if seconds >= 60:
        return seconds // 60 * 60
    return max((mark for mark in (10, 30) if mark <= seconds), default=0)
