"""What a command that follows a run shows: for a person, or as one JSON object a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from duly.storage.home import Home

from .gate import WaitingGate
from .layout import labelled, paragraph
from .output import emit, note, say
from .progress import Progress
from .report import answer_lines, ending_lines, report_lines


class Screen(Protocol):
    """Where a run is followed."""

    def answer(self, message: Mapping[str, Any]) -> None:
        """One message of the front door."""

    def gate(self, gate: WaitingGate) -> None:
        """A gate is about to be decided: the text that will be signed."""

    def waits(self, gate: WaitingGate) -> None:
        """A gate stays open: how to decide it later."""

    def say(self, text: str) -> None:
        """A sentence on the way."""

    def idle(self) -> None:
        """Nothing has come for a second; called again after each further one."""

    def result(self, result: Mapping[str, Any]) -> None:
        """How it ended; called once, last."""


class JsonScreen:
    """Events, one a line, and the result as the last line. Nothing else reaches standard output."""

    def answer(self, message: Mapping[str, Any]) -> None:
        if "event" in message:
            emit({"type": "event", **message["event"]})

    def gate(self, gate: WaitingGate) -> None:
        return None

    def waits(self, gate: WaitingGate) -> None:
        return None

    def say(self, text: str) -> None:
        note(text)

    def idle(self) -> None:
        return None

    def result(self, result: Mapping[str, Any]) -> None:
        emit({"type": "result", **result})


class TextScreen:
    """Plan, live progress, report, verdict, and where run and log are."""

    def __init__(self, home: Home, progress: Progress) -> None:
        self._home = home
        self._progress = progress

    def answer(self, message: Mapping[str, Any]) -> None:
        if "event" in message:
            self._progress.event(message["event"])
        elif "progress" in message:
            self.say(str(message["progress"]))

    def gate(self, gate: WaitingGate) -> None:
        self._progress.wipe()
        self._progress.show_plan(gate.plan)
        say("")
        say(gate.text.splitlines())

    def waits(self, gate: WaitingGate) -> None:
        lines = ["", *labelled("approve", f"duly approve {gate.run_id}")]
        if gate.kind == "plan" and gate.has_references:
            lines += labelled("", f"duly approve {gate.run_id} --with-references (once for all)")
        lines += labelled("reject", f"duly reject {gate.run_id}")
        say(lines)

    def say(self, text: str) -> None:
        self._progress.wipe()
        say(paragraph(text))

    def idle(self) -> None:
        self._progress.idle()

    def result(self, result: Mapping[str, Any]) -> None:
        self._progress.wipe()
        run_id = result["run_id"]
        if not str(result["phase"]).startswith("WAITING"):  # what was not verified is no report yet
            say([*report_lines(result.get("report")), *answer_lines(result.get("answer"))])
        say(ending_lines(result))
        lines = []
        if result["phase"] == "WAITING_INPUT":
            lines += labelled("answer", f'duly answer {run_id} "..."')
        lines += labelled("run", f"{run_id}; look at it with duly show {run_id}")
        lines += labelled("log", f"{self._home.journal}; check it with duly audit verify")
        say(lines)
