"""Records of one run written by hand, event by event, for what is counted over events."""

from __future__ import annotations

from typing import Any

from duly.protocol.machine.events import KINDS, Event
from duly.protocol.views.metrics import DEFINITIONS
from duly.storage.recovery import Recorded

STAYS = ""


class Told:
    """A record written by hand: ``add`` takes the kind, the phase after it (the last one, if none) and the facts."""

    def __init__(self) -> None:
        self.record: list[Recorded] = []
        self.phase = "PLANNING"

    def add(self, kind: str, phase: str = STAYS, **facts: Any) -> Told:
        assert kind in KINDS
        self.phase = phase or self.phase
        event = Event(kind, {**facts, "phase": self.phase})
        self.record.append(Recorded(len(self.record), 1_000 + len(self.record), "r1", 1, "", event))
        return self

    def planned(self, steps: int, route: str = "orchestrated") -> Told:
        return (
            self.add("run.submitted", "PLANNING", epoch=1)
            .add("route.chosen", route=route)
            .add("plan.drafted", "READY", steps=steps)
        )

    def replanned(self, steps: int) -> Told:
        return self.add("replan.triggered", "REPLAN_REQUIRED", code="x").add(
            "plan.drafted", "READY", steps=steps
        )

    def start(self, step: str, attempt: int = 1, wave: int = 1) -> Told:
        self.add("budget.reserved", purpose="wave", wave=wave, amounts={"steps": 1, "tool_calls": 1})
        return self.add("step.started", "RUNNING", step_id=step, attempt=attempt, wave=wave)

    def succeed(self, step: str, attempt: int = 1, wave: int = 1, key: str = "", host: str = "read") -> Told:
        return self.add(
            "step.succeeded", step_id=step, attempt=attempt, wave=wave, key=key or f"k-{step}", host=host
        )

    def fail(self, step: str, attempt: int = 1, wave: int = 1, *, not_started: bool = False) -> Told:
        return self.add(
            "step.failed",
            step_id=step,
            attempt=attempt,
            wave=wave,
            not_started=not_started,
            code="tool.error",
        )

    def ran(self, step: str, **more: Any) -> Told:
        return self.start(step).succeed(step, **more)

    def judged(self, outcome: str = "pass") -> Told:
        return self.add("verification.started", "VERIFYING").add("verdict.reached", outcome=outcome)

    def ended(self, end: str = "COMPLETED") -> Told:
        return self.add("run.ended", end, end=end, reason="because")

    def asked(self, about: str = "bind", parameter: str = "month") -> Told:
        return self.add("input.asked", "WAITING_INPUT", about=about, parameter=parameter)

    def gated(self, kind: str = "step", step: str | None = "s1") -> Told:
        return self.add("gate.asked", "WAITING_APPROVAL", gate_kind=kind, step_id=step)


def count(name: str, told: Told) -> tuple[int, int]:
    return next(one for one in DEFINITIONS if one.name == name).count(told.record)


def whole() -> Told:
    return Told().planned(1).ran("s1").judged().ended()
