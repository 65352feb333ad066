"""``duly plan --save``: the plan as a playbook's file, or a refusal that leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly.protocol.plan.playbook_yaml import parse_playbook
from plans import plan, step
from scripted_harness import READ, WRITE, writing_plan

REQUEST = "Which carrier sold most?"
MANIFEST = f"""
[package]
name = "shop"
version = "1"
data = "shop"

[[agents]]
name = "clerk"

[tools.{READ.server}]
kind = "python"
functions = ["{READ.name}"]

[tools.{WRITE.server}]
kind = "python"
functions = ["{WRITE.name}", "find"]
"""


@pytest.fixture
def package(tmp_path: Path) -> str:
    folder = tmp_path / "shop"
    (folder / "playbooks").mkdir(parents=True)
    (folder / "agent.toml").write_text(MANIFEST, encoding="utf-8")
    (folder / "tools.py").write_text("", encoding="utf-8")
    return str(folder)


def test_the_plan_is_kept_as_a_playbook(door, duly, package, capsys):
    file = Path(package) / "playbooks" / "sellers.yaml"
    assert duly("plan", package, REQUEST, "--save", str(file)) == 0
    out = capsys.readouterr().out
    assert "sellers.yaml" in out and "Put it into" not in out
    assert "this request only" in " ".join(out.split())
    kept = parse_playbook(file.read_bytes(), "sellers.yaml")
    assert kept.name == "sellers" and [step.id for step in kept.steps] == ["s1", "s2"]
    assert kept.match.request == [REQUEST]


def test_elsewhere_it_says_where_it_belongs(door, duly, package, tmp_path, capsys):
    file = tmp_path / "sellers.yaml"
    assert duly("plan", package, REQUEST, "--json", "--save", str(file)) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["playbook"], told["parameters"]) == (str(file), {})
    file.unlink()
    assert duly("plan", package, REQUEST, "--save", str(file)) == 0
    assert "Put it into the folder playbooks/" in capsys.readouterr().out


def test_what_cannot_be_kept_is_refused_and_nothing_is_written(door, duly, package, tmp_path, capsys):
    there = tmp_path / "there.yaml"
    there.write_text("mine", encoding="utf-8")
    for file, code in (
        (there, "plan.file"),
        (tmp_path / "sellers.json", "plan.file"),
        (tmp_path / "missing" / "sellers.yaml", "plan.file"),
        (tmp_path / "1 bad.yaml", "plan.no_playbook_of"),
    ):
        assert duly("plan", package, REQUEST, "--save", str(file)) != 0
        assert f"[{code}]" in capsys.readouterr().err
        assert file == there or not file.exists()
    assert there.read_text(encoding="utf-8") == "mine"


def test_a_plan_with_a_question_saves_nothing(door, duly, package, tmp_path):
    door.harness.ask = True
    assert duly("plan", package, REQUEST, "--save", str(tmp_path / "sellers.yaml")) == 8
    assert not (tmp_path / "sellers.yaml").exists()


def test_references_stay_references(door, duly, package, tmp_path):
    door.harness.plan = writing_plan
    file = tmp_path / "tickets.yaml"
    assert duly("plan", package, "Open a ticket.", "--save", str(file)) == 0
    assert parse_playbook(file.read_bytes(), "tickets.yaml").steps[1].arguments["name"] == {
        "$ref": "s1#/name"
    }


def test_it_says_which_other_requests_the_playbook_plans(door, duly, package, tmp_path, capsys):
    one = step("s1", READ, {"place": "Oslo", "count": 3})
    door.harness.plan = lambda text: plan([one], objective=text)
    file = tmp_path / "look.yaml"
    assert duly("plan", package, "Look 3 times at Oslo.", "--save", str(file)) == 0
    kept = parse_playbook(file.read_bytes(), "look.yaml").parameters
    assert {name: one.kind for name, one in kept.items()} == {"count": "number", "place": "text"}
    out = " ".join(capsys.readouterr().out.split())
    assert "the same one with another place (text), count (number)" in out
