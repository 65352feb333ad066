"""``duly watch``: from the front door where one is open, from the record where the run has stopped; never a cancel."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from duly.protocol.views.result import result_object
from fake_front_door import FakeFrontDoor
from scripted_harness import ScriptedHarness, writing_plan
from terminal import Terminal

REQUEST = "Which carrier sold most?"


def run_of(door: FakeFrontDoor) -> str:
    return list(door.harness.runs)[-1]


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def ran(duly, door, package, capsys) -> list[dict[str, Any]]:
    """The lines of a run that completed; the front door is still open and serves them to whoever follows."""
    assert duly("run", package, REQUEST, "--json") == 0
    lines = lines_of(capsys)

    def follow(request: dict[str, Any], reply: Any) -> None:
        for event in lines[:-1]:
            if event["seq"] > request["after"]:
                reply({"event": {name: value for name, value in event.items() if name != "type"}})
        reply({"result": result_object(door.harness.runs[request["run_id"]]), "last": True})

    door.override["follow"] = follow
    return lines


def test_a_run_is_followed_from_its_beginning(ran, duly, door, capsys):
    assert duly("watch", run_of(door)[:6], "--json") == 0
    assert lines_of(capsys) == ran
    assert door.asked("follow")["after"] == -1


def test_or_from_behind_an_event(ran, duly, door, capsys):
    seq = ran[3]["seq"]
    assert duly("watch", run_of(door), "--after", str(seq), "--json") == 0
    assert lines_of(capsys) == ran[4:]


def test_the_text_shows_progress_and_report(ran, duly, door, capsys):
    assert duly("watch", run_of(door)) == 0
    out = capsys.readouterr().out
    assert "OBSERVATIONS" in out and "COMPLETED" in out and run_of(door) in out


def test_a_lost_connection_goes_on_behind_what_was_seen(ran, duly, door, capsys):
    whole = door.override["follow"]
    asked: list[int] = []

    def breaks_once(request: dict[str, Any], reply: Any) -> None:
        asked.append(request["after"])
        if len(asked) == 1:
            event = {name: value for name, value in ran[0].items() if name != "type"}
            reply({"event": event})
            raise ConnectionResetError
        whole(request, reply)

    door.override["follow"] = breaks_once
    assert duly("watch", run_of(door), "--json") == 0
    assert lines_of(capsys) == ran and asked == [-1, ran[0]["seq"]]


def test_an_answer_without_a_result_is_an_error(ran, duly, door, capsys):
    door.override["follow"] = lambda request, reply: reply({"last": True})
    assert duly("watch", run_of(door)) == 1
    assert "[runtime.bad_answer]" in capsys.readouterr().err


@pytest.mark.parametrize(("setting", "code"), [("plan", 6), ("ask", 7)])
def test_a_run_that_waits_is_shown_from_the_record_without_a_runtime(
    setting, code, home, duly, package, capsys
):
    door = FakeFrontDoor(ScriptedHarness(home))
    setattr(door.harness, setting, writing_plan if setting == "plan" else True)
    duly("run", package, REQUEST)
    run_id = run_of(door)
    door.close()
    capsys.readouterr()
    assert duly("watch", run_id) == code
    out = capsys.readouterr().out
    assert f"duly {'approve' if code == 6 else 'answer'} {run_id}" in out
    assert max(map(len, out.replace(str(home.journal), "LOG").splitlines())) <= 80
    assert duly("watch", run_id, "--json") == code
    lines = lines_of(capsys)
    assert lines[0]["kind"] == "run.submitted" and lines[-1]["type"] == "result"
    assert not (home.run / "supervisor.log").exists()


def test_an_unknown_run_is_refused_and_starts_nothing(duly, home, capsys):
    assert duly("watch", "r999") == 8
    assert "[run.unknown]" in capsys.readouterr().err and not home.run.exists()


def test_ctrl_c_stops_the_watching_and_not_the_run(ran, door):
    leave = threading.Event()

    def hangs(request: dict[str, Any], reply: Any) -> None:
        reply({"event": {name: value for name, value in ran[0].items() if name != "type"}})
        reply({"progress": "still at it"})
        leave.wait(30)

    door.override["follow"] = hangs
    terminal = Terminal(["watch", run_of(door)])
    terminal.until("still at it")
    terminal.interrupt()
    assert terminal.end() == 130
    leave.set()
    assert "goes on" in terminal.text and "cancel" not in door.ops()
