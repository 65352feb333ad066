"""A model at work is seen: that it is asked, for how long it works, how every try came out; in a pipe and at a terminal."""

from __future__ import annotations

import io
import json
import sys
import threading
from typing import Any

import pytest

from duly.cli import client, layout
from duly.cli.preview import _drafting
from duly.cli.progress import Progress
from duly.cli.thinking import Pace
from terminal import Terminal

REQUEST = "Which carrier sold most?"
START_MS = 1_800_000_000_000
ASKED = {
    "plan": ("model     asked for a plan", {"purpose": "plan", "step_id": ""}),
    "arguments": ("model     asked for the arguments of s2", {"purpose": "arguments", "step_id": "s2"}),
    "direct": ("model     asked what to do next", {"purpose": "direct", "step_id": ""}),
    "critic": ("critic    asked for a review", {"purpose": "verification"}),
}


class Watched:
    """Progress under a clock of the test's own."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.progress = Progress(lambda seq: None, clock=lambda: self.now_ms)

    def event(self, kind: str, **facts: Any) -> None:
        time = layout.utc(self.now_ms)
        self.progress.event({"seq": 1, "time": time, "kind": kind, "facts": facts})

    def reserved(self, **facts: Any) -> None:
        self.event("budget.reserved", wave=0, amounts={"model_tokens": 10}, **facts)

    def called(self, purpose: str, code: str = "") -> None:
        tokens = {"tokens_in": 20, "tokens_out": 10}
        self.event("model.called", purpose=purpose, code=code, duration_ms=2_000, **tokens)

    def silent(self, seconds: int) -> None:
        """So many seconds in which nothing comes, told one by one."""
        for _ in range(seconds):
            self.now_ms += 1_000
            self.progress.idle()


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.parametrize("purpose", ASKED)
class TestPurposes:
    def test_a_pipe_hears_at_once_and_then_now_and_then(self, watched, capsys, purpose):
        line, facts = ASKED[purpose]
        watched.reserved(**facts)
        assert capsys.readouterr().out.startswith(line)
        watched.silent(9)
        assert capsys.readouterr().out == ""
        watched.silent(111)
        said = capsys.readouterr().out.splitlines()
        after = ["10 s", "30 s", "1 min 0 s", "2 min 0 s"]
        assert [one[10:] for one in said] == [f"still at it after {one}" for one in after]

    def test_nothing_more_once_it_has_answered(self, watched, capsys, purpose):
        _, facts = ASKED[purpose]
        watched.reserved(**facts)
        watched.called(purpose)
        capsys.readouterr()
        watched.silent(60)
        assert capsys.readouterr().out == ""

    def test_a_terminal_shows_the_seconds_on_one_line(self, watched, monkeypatch, purpose):
        screen = _Screen()
        monkeypatch.setattr(sys, "stdout", screen)
        line, facts = ASKED[purpose]
        watched.reserved(**facts)
        watched.silent(75)
        painted = screen.getvalue().split("\r")
        last = " ".join(line.split())
        assert painted[-1].startswith(last) and painted[-1].endswith("1 min 15 s")
        assert [one for one in painted if one.startswith(last) and one.endswith(", 3 s")]
        assert screen.getvalue().count("\n") == 1, "one line for good; the rest is painted over"
        assert all(len(one.replace("\x1b[2K", "")) <= layout.COLUMNS for one in painted[1:])


class TestSteps:
    def test_a_reason_step_has_a_model_asked(self, watched, capsys):
        watched.event("step.started", step_id="s3", mode="reason", wave=1, attempt=1)
        assert "model     asked to answer s3" in capsys.readouterr().out
        watched.silent(10)
        assert capsys.readouterr().out == "model     still at it after 10 s\n"
        watched.event("step.failed", step_id="s3", code="model.unavailable", then="replan")
        capsys.readouterr()
        watched.silent(60)
        assert capsys.readouterr().out == ""

    def test_a_call_of_a_tool_asks_no_model(self, watched, capsys):
        watched.event("step.started", step_id="s1", mode="serial", wave=1, attempt=1)
        watched.reserved(purpose="wave")
        watched.silent(60)
        assert "model" not in capsys.readouterr().out

    def test_its_status_line_goes_on_counting_while_nothing_comes(self, watched, monkeypatch):
        screen = _Screen()
        monkeypatch.setattr(sys, "stdout", screen)
        watched.event("step.started", step_id="s1", mode="serial", wave=1, attempt=1)
        watched.silent(42)
        assert "running s1" in screen.getvalue() and screen.getvalue().endswith("; 42 s")

    def test_a_verifier_without_a_critic_asks_no_model(self, watched, capsys):
        watched.event("budget.reserved", wave=0, purpose="verification", amounts={"tool_calls": 2})
        watched.silent(60)
        assert capsys.readouterr().out == ""


def test_each_failed_try_has_its_line_and_the_critic_its_name(watched, capsys):
    watched.reserved(purpose="plan", step_id="")
    watched.called("plan", "model.unavailable")
    watched.called("plan")
    watched.called("critic", "model.timeout")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "model     failed after 2.00 s [model.unavailable]",
        "model     answered in 2.00 s, 30 tokens",
        "critic    failed after 2.00 s [model.timeout]",
    ]


def test_whoever_comes_later_is_told_the_whole_time(watched, capsys):
    watched.reserved(purpose="direct", step_id="")
    capsys.readouterr()
    watched.now_ms += 125_000
    watched.silent(1)
    assert capsys.readouterr().out == "model     still at it after 2 min 6 s\n"


def test_a_clock_that_steps_back_frightens_nobody(watched, capsys):
    watched.reserved(purpose="plan", step_id="")
    capsys.readouterr()
    watched.now_ms -= 3_600_000
    watched.silent(60)
    assert capsys.readouterr().out == ""


def test_after_a_restart_only_what_is_asked_again_counts(watched, capsys):
    watched.reserved(purpose="direct", step_id="")
    watched.event("run.resumed", epoch=2)
    capsys.readouterr()
    watched.silent(60)
    assert capsys.readouterr().out == ""


def test_a_pace_is_due_once_at_each_mark():
    pace = Pace()
    due = [second for second in range(200) if pace.is_due(second * 1_000)]
    assert due == [10, 30, 60, 120, 180]


class TestFrontDoor:
    """The same through the socket: silence is what the harness does not send."""

    @pytest.fixture
    def silent(self, door: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
        """A run that asks a model and then hears nothing, until the event is set."""
        heard = threading.Event()
        whole = door._submit

        def submit(request: dict[str, Any], reply: Any) -> None:
            reply({"accepted": True})
            facts = {"purpose": "plan", "wave": 0, "step_id": "", "amounts": {"model_tokens": 10}}
            event = {"seq": 0, "time": "2026-01-01T00:00:00.000Z", "kind": "budget.reserved", "facts": facts}
            reply({"event": event})
            assert heard.wait(30)
            whole(request, reply)

        door.override["submit"] = submit
        monkeypatch.setattr(client, "IDLE_SECONDS", 0.01)
        return heard

    def test_a_pipe(self, duly, package, silent, monkeypatch, capsys):
        idle = Progress.idle

        def told(progress: Progress) -> None:
            idle(progress)
            silent.set()

        monkeypatch.setattr(Progress, "idle", told)
        assert duly("run", package, REQUEST) == 0
        out = capsys.readouterr().out
        assert "model     asked for a plan\nmodel     still at it after " in out
        assert "COMPLETED" in out.splitlines()

    def test_json_says_it_with_the_event_and_nothing_else(self, duly, package, silent, monkeypatch, capsys):
        from duly.cli.screen import JsonScreen

        monkeypatch.setattr(JsonScreen, "idle", lambda screen: silent.set())
        assert duly("run", package, REQUEST, "--json") == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert lines[0]["kind"] == "budget.reserved" and lines[0]["facts"]["purpose"] == "plan"
        assert {line["type"] for line in lines} == {"event", "result"}

    def test_a_terminal(self, package, silent):
        terminal = Terminal(["run", package, REQUEST])
        terminal.until("model asked for a plan, ")
        terminal.until("model asked for a plan, ")  # painted again, though nothing came
        silent.set()
        assert terminal.end() == 0
        assert "still at it" not in terminal.text

    def test_a_draft_is_waited_for_aloud_and_on_standard_error(
        self, duly, door, package, monkeypatch, capsys
    ):
        heard = threading.Event()
        seconds = iter(range(0, 1_000, 10))
        whole = door._draft

        def draft(request: dict[str, Any], reply: Any) -> None:
            assert heard.wait(30)
            whole(request, reply)

        door.override["draft"] = draft
        monkeypatch.setattr(client, "IDLE_SECONDS", 0.01)

        def drafting() -> Any:
            idle = _drafting(lambda: float(next(seconds)))

            def told() -> None:
                idle()
                heard.set()

            return told

        monkeypatch.setattr("duly.cli.preview._drafting", drafting)
        assert duly("plan", package, REQUEST, "--json") == 0
        said = capsys.readouterr()
        assert "duly: The plan is still being drafted after 10 s." in said.err
        assert len(said.out.splitlines()) == 1 and json.loads(said.out)["plan"]
