"""``duly metrics`` over a real journal, without a runtime."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.cli.metrics import moment_of
from duly.protocol.wire.errors import RequestError
from duly.storage.home import Home
from fake_front_door import FakeFrontDoor
from scripted_harness import ScriptedHarness, writing_plan

DAY_MS = 86_400_000


@pytest.fixture
def past(home: Home, duly: Any, package: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Four runs of a runtime that is down: completed, approved and completed, rejected, waiting for an answer."""
    door = FakeFrontDoor(ScriptedHarness(home))
    duly("run", package, "Which carrier sold most?")
    door.harness.plan = writing_plan
    duly("run", package, "Open a ticket.", "--yes")
    duly("run", package, "Open another ticket.")
    duly("reject", list(door.harness.runs)[-1])
    door.harness.ask = True
    duly("run", package, "Which month?")
    ids = list(door.harness.runs)
    door.close()
    capsys.readouterr()
    return ids


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    return dict(json.loads(line))


def test_every_run_is_counted(past, duly, capsys):
    assert duly("metrics", "--json") == 0
    data = document(capsys)
    counts = {name: (one["numerator"], one["denominator"]) for name, one in data["metrics"].items()}
    assert data["runs"] == 4 and data["phases"] == {"COMPLETED": 2, "FAILED": 1, "WAITING_INPUT": 1}
    assert counts == {
        "end_to_end_success": (2, 3),
        "effective_step_rate": (4, 4),
        "recovery_success": (0, 0),
        "escalation_quality": (3, 3),
        "budget_adherence": (3, 3),
        "state_consistency": (4, 4),
        "plan_adherence": (4, 4),
    }
    assert data["metrics"]["end_to_end_success"]["lowered_by"] == [past[2]]
    assert data["metrics"]["recovery_success"]["value"] is None


def test_the_newest_and_the_latest(past, duly, capsys):
    assert duly("metrics", "--last", "2", "--json") == 0
    assert document(capsys)["phases"] == {"FAILED": 1, "WAITING_INPUT": 1}
    assert duly("metrics", "--since", "2020-01-01", "--last", "1", "--json") == 0
    data = document(capsys)
    assert data["phases"] == {"WAITING_INPUT": 1} and data["since"] == "2020-01-01T00:00:00.000Z"
    assert duly("metrics", "--since", "2024-01-01", "--json") == 0
    assert document(capsys)["runs"] == 0


def test_the_text_names_both_numbers_and_who_lowers_them(past, duly, capsys):
    assert duly("metrics") == 0
    out = capsys.readouterr().out
    assert "4 runs: 2 COMPLETED, 1 FAILED, 1 WAITING_INPUT" in out
    assert "66.7%" in out and "2 of 3" in out and past[2] in out
    assert max(map(len, out.splitlines())) <= 80


def test_nothing_recorded_is_nothing_to_count(duly, home, capsys):
    assert duly("metrics") == 0
    assert capsys.readouterr().out == "No runs to count.\n"
    assert not home.root.joinpath("run").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2d", 10 * DAY_MS - 2 * DAY_MS),
        ("12h", 10 * DAY_MS - DAY_MS // 2),
        ("1970-01-03", 2 * DAY_MS),
        ("1970-01-03T01:00:00+01:00", 2 * DAY_MS),
        ("1970-01-03T00:00:00Z", 2 * DAY_MS),
    ],
)
def test_moments(text, expected):
    assert moment_of(text, 10 * DAY_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7w", "-1d", "2026-13-01"])
def test_what_is_no_moment(text):
    with pytest.raises(RequestError) as caught:
        moment_of(text, 0)
    assert caught.value.code == "request.bad_option" and "7d" in str(caught.value.hint)
