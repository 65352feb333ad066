"""Reading commands: from the stores alone, in shapes that scripts can rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.cli.audit import event_object
from duly.cli.records import Records
from duly.storage.home import Home
from duly.storage.plan_cache import PlanCacheStore
from duly.storage.recovery import recorded
from fake_front_door import FakeFrontDoor
from scripted_harness import ScriptedHarness, writing_plan

REQUEST = "Which carrier sold most?"


@pytest.fixture
def past(home: Home, duly: Any, package: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Ids of three runs (completed, waiting for approval, waiting for input) of a runtime that is down."""
    door = FakeFrontDoor(ScriptedHarness(home))
    duly("run", package, REQUEST)
    door.harness.plan = writing_plan
    duly("run", package, "Open a ticket.")
    door.harness.ask = True
    duly("run", package, "Which month?")
    ids = list(door.harness.runs)
    door.close()
    capsys.readouterr()
    return ids


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, "one document on one line"
    return dict(json.loads(lines[0]))


def test_nothing_here_starts_or_asks_a_runtime(past, duly, home, capsys):
    for arguments in (
        ["runs"],
        ["show"],
        ["inbox"],
        ["audit", "log"],
        ["audit", "verify"],
        ["cache", "list"],
        ["cache", "stats"],
    ):
        assert duly(*arguments) == 0, capsys.readouterr().err
    assert not (home.run / "supervisor.log").exists()


def test_runs(past, duly, capsys):
    assert duly("runs", "--json") == 0
    data = document(capsys)
    assert [(run["run_id"], run["phase"]) for run in data["runs"]] == [
        (past[2], "WAITING_INPUT"),
        (past[1], "WAITING_APPROVAL"),
        (past[0], "COMPLETED"),
    ]
    assert data["runs"][2]["verdict"] == "pass" and data["runs"][2]["request"] == REQUEST and not data["more"]
    assert duly("runs", "--limit", "1", "--json") == 0
    data = document(capsys)
    assert len(data["runs"]) == 1 and data["more"]


def test_show_has_state_plan_times_report_checks_budget_and_story(past, duly, capsys):
    assert duly("show", past[0]) == 0
    out = capsys.readouterr().out
    for wanted in (
        "phase     COMPLETED",
        "s1    succeeded, check pass",
        "WHEN EACH STEP RAN",
        "OBSERVATIONS",
        "CHECKS",
        "steps 2 of 15",
        "STORY",
    ):
        assert wanted in out
    assert max(map(len, out.splitlines())) <= 80


def test_show_json_is_the_result_object(past, duly, capsys):
    assert duly("show", past[1], "--json") == 0
    result = document(capsys)
    assert result["type"] == "result" and result["phase"] == "WAITING_APPROVAL"
    assert result["needs"]["approval"] == "plan" and result["next_owner"] == "person"


def test_a_run_is_found_by_the_beginning_of_its_id(past, duly, capsys):
    assert duly("show", past[0][:7], "--json") == 0
    assert document(capsys)["run_id"] == past[0]
    assert duly("show", "r") == 8
    assert "[run.unknown]" in capsys.readouterr().err


def test_what_is_not_verified_is_not_shown_as_a_report(past, duly, capsys):
    assert duly("show", past[1]) == 0
    assert "OBSERVATIONS" not in capsys.readouterr().out


def test_inbox_names_what_waits_and_shows_exactly_what_would_be_signed(past, duly, capsys):
    assert duly("inbox", "--json") == 0
    waiting = {one["run_id"]: one for one in document(capsys)["waiting"]}
    assert set(waiting) == {past[1], past[2]}
    assert waiting[past[1]]["kind"] == "plan" and waiting[past[1]]["tools"] == ["tickets.open"]
    assert waiting[past[2]]["question"].startswith("Which month") and len(waiting[past[2]]["choices"]) == 2
    assert duly("inbox", past[1]) == 0
    assert waiting[past[1]]["text"] in capsys.readouterr().out
    assert duly("inbox", past[0]) == 8
    assert "[gate.none]" in capsys.readouterr().err


def test_audit_log_prints_events_one_a_line(past, duly, capsys):
    assert duly("audit", "log", past[0], "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {event["run_id"] for event in events} == {past[0]}
    assert events[0]["kind"] == "run.submitted" and events[-1]["phase"] == "COMPLETED"
    assert events[0]["time"].endswith("Z") and events[0]["type"] == "event"


def test_events_read_the_same_from_the_record_and_from_the_front_door(past, home):
    """`audit log --json` and a followed run print one shape; the harness has its own function for it."""
    from duly.actors.harness.followers import event_object as published

    with Records.open(home) as records:
        for entry in records.journal.read_run(past[0]):
            assert event_object(entry.seq, entry.event) == published(recorded(entry.seq, entry.event))


def test_audit_verify_holds_and_names_a_flipped_byte(past, duly, home, capsys):
    assert duly("audit", "verify", "--json") == 0
    good = document(capsys)
    assert good["ok"] and good["runs"] == 3 and not good["faults"]
    file = home.journal / "data.mdb"
    data = file.read_bytes()
    assert b"run.submitted" in data
    file.write_bytes(data.replace(b"run.submitted", b"run.submittee"))
    assert duly("audit", "verify", "--json") == 8
    bad = document(capsys)
    assert not bad["ok"] and bad["faults"][0]["path"]
    assert duly("audit", "verify") == 8
    assert "[log.not_verified]" in capsys.readouterr().err


def test_audit_verify_with_another_key_does_not_hold(past, duly, capsys):
    assert duly("audit", "verify", "--json") == 0
    key = document(capsys)["key"]
    other = "duly.other/log" + key[key.index("+") :]
    assert duly("audit", "verify", "--key", other) == 8
    assert "[log.verifier_key]" in capsys.readouterr().err


class TestCache:
    @pytest.fixture
    def kept(self, home: Home) -> Home:
        home.prepare()
        with PlanCacheStore.open(home.plan_cache) as store:
            store.put("ab" * 32, b"old", 1_000)
        return home

    def test_empty(self, duly, home, capsys):
        assert duly("cache", "stats", "--json") == 0
        assert document(capsys) == {"hits": 0, "misses": 0, "stale": 0, "entries": 0, "bytes": 0}
        assert duly("cache", "clear", "--json") == 0
        assert document(capsys) == {"evicted": 0}

    def test_list_and_evict_without_a_runtime(self, kept, duly, capsys):
        assert duly("cache", "list", "--json") == 0
        assert document(capsys)["entries"][0]["key"] == "ab" * 32
        assert duly("cache", "evict", "--max-age-days", "1", "--json") == 0
        assert document(capsys) == {"evicted": 1}
        assert duly("cache", "list") == 0
        assert capsys.readouterr().out == "The plan cache is empty.\n"

    def test_evict_goes_through_a_runtime_that_runs(self, kept, door, duly, capsys):
        door.override["cache"] = lambda request, reply: reply({"evicted": 3, "last": True})
        assert duly("cache", "evict", "--json") == 0
        assert document(capsys) == {"evicted": 3}
        assert door.asked("cache") | {"version": ""} == {
            "op": "cache",
            "action": "evict",
            "max_age_days": 7,
            "version": "",
        }


class TestAhead:
    def test_route(self, door, duly, package, capsys):
        assert duly("route", package, REQUEST, "--planning", "always", "--json") == 0
        data = document(capsys)
        assert data["route"] == "orchestrated" and data["score"] == 30
        assert data["weights"] == [{"name": "step_budget", "weight": 30, "counted": True}]
        assert door.asked("route")["planning"] == "always" and door.asked("route")["text"] == REQUEST

    def test_plan(self, door, duly, package, capsys):
        assert duly("plan", package, REQUEST, "--json") == 0
        data = document(capsys)
        assert len(data["plan"]["steps"]) == 2 and len(data["digest"]) == 64
        assert duly("plan", package, REQUEST) == 0
        assert "What s1 is for" in capsys.readouterr().out

    def test_a_plan_that_asks_is_refused_with_the_question(self, door, duly, package, capsys):
        door.harness.ask = True
        assert duly("plan", package, REQUEST) == 8
        err = capsys.readouterr().err
        assert "Which month of 2013 do you mean? [run.question]" in err and "May 2013" in err

    def test_tools(self, door, duly, package, capsys):
        assert duly("tools", "list", package, "--json") == 0
        tools = document(capsys)["tools"]
        assert [(tool["full_name"], tool["effect"]) for tool in tools] == [
            ("sales.largest", "read"),
            ("tickets.open", "write"),
        ]

    def test_status_and_down(self, door, duly, capsys):
        assert duly("status", "--json") == 0
        assert document(capsys)["processes"][0] == {
            "role": "harness",
            "pid": 7,
            "rss_bytes": 50 << 20,
            "epoch": 1,
        }
        assert duly("down", "--json") == 0
        assert "down" in door.ops()

    def test_status_without_a_runtime(self, duly, home, capsys):
        assert duly("status", "--json") == 8
        assert document(capsys) == {"running": False, "home": str(home.root), "processes": []}
