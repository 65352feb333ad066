"""The HTML report: one file that loads and runs nothing, whatever the texts in it say."""

from __future__ import annotations

import json
import os
import re
import threading
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.cli.markup import Html, joined, lines, tag, text
from duly.cli.report_dossier import gathered
from duly.cli.report_html import page
from duly.protocol.authority.printable import readable
from duly.protocol.wire import canon
from fake_front_door import FakeFrontDoor
from scripted_harness import REPORT, ScriptedHarness, writing_plan

HOSTILE = "</title></style><script>alert(1)</script>\"' onload='x' & \u202eevil\u2066 \u200b\x1b[2J\u0000"
VOID = {"br", "hr", "meta"}


class Reader(HTMLParser):
    """Elements with their attributes and the visible text; complains about what is not closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open and self.open.pop() == name, f"</{name}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.data.append(data)


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader


class Hostile(ScriptedHarness):
    """Tools and a planner whose every text is an attack."""

    def _ran(self, *dispatched: Any) -> Any:
        statement = {**REPORT["statements"][0], "text": HOSTILE, "query": HOSTILE, "template": "{name}"}
        outcome = super()._ran(*dispatched)
        data = {"report": {**REPORT, "statements": [statement]}, "name": HOSTILE, "amount": 1}
        return replace(outcome, output=canon.encode(data), node="<b>n1</b>")


@pytest.fixture
def hostile(home, duly, package, capsys) -> str:
    """The id of a run that completed after two approvals, full of attacks."""
    harness = Hostile(home)
    door = FakeFrontDoor(harness)

    def plan(objective: str) -> Any:
        made = writing_plan(objective)
        steps = [step.model_copy(update={"objective": HOSTILE}) for step in made.steps]
        return made.model_copy(update={"steps": steps})

    harness.plan = plan
    assert duly("run", package, "Find " + HOSTILE.replace("\0", ""), "--yes", "--json") == 0
    run_id = next(iter(harness.runs))
    door.close()
    capsys.readouterr()
    return run_id


def test_no_text_becomes_markup_or_reorders_what_is_around_it(hostile, home):
    written = page(gathered(home, hostile))
    reader = read(written)
    names = {name for name, _ in reader.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "input", "base", "b"}
    assert not any(key.startswith("on") for _, attributes in reader.tags for key in attributes)
    assert not re.search("[\u200b\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f\x7f]", written)
    shown = "".join(reader.data)
    assert shown.count("<script>alert(1)</script>") >= 5 and "\\u{202e}evil" in shown and "<b>n1</b>" in shown


def test_the_page_loads_nothing(hostile, home):
    written = page(gathered(home, hostile))
    reader = read(written)
    policy = next(given["content"] for name, given in reader.tags if given.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'")
    assert not any(
        key in ("src", "href", "srcset", "data", "action") for _, given in reader.tags for key in given
    )
    assert "url(" not in written and "@import" not in written and not re.search(r"https?://", written)
    assert written.startswith("<!doctype html>\n<html")


def test_the_page_has_every_part(hostile, home):
    dossier = gathered(home, hostile)
    shown = " ".join(" ".join(read(page(dossier)).data).split())
    for wanted in (
        "COMPLETED", hostile, "tier assisted", dossier.run.plan_digest, dossier.run.mandate.package,
        "level 1", "level 2", "succeeded", "write tickets.open", "Observations", "observation",
        "2 checks: 2 passed", "steps", "15", "the person of this installation",
        "The run ended COMPLETED", "duly audit verify --key", dossier.proof.log_key,
    ):  # fmt: skip
        assert wanted in shown, wanted
    assert [one.kind for one in dossier.approvals] == ["plan", "step"]
    assert dossier.proof.checkpoint.splitlines()[0] in shown


def test_the_file_is_written_whole_and_for_its_owner(hostile, home, duly, tmp_path, capsys):
    file = tmp_path / "report.html"
    assert duly("report", hostile, "--html", str(file)) == 0
    assert str(file) in capsys.readouterr().out.replace("\n          ", "")
    assert file.read_text(encoding="utf-8") == page(gathered(home, hostile))
    assert file.stat().st_mode & 0o077 == 0 and [one.name for one in tmp_path.glob("*.html")] == [
        "report.html"
    ]
    assert duly("report", "--html", "-") == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_html_and_json_cannot_share_standard_output(hostile, duly, capsys):
    assert duly("report", hostile, "--html", "-", "--json") == 2
    assert "[request.bad_option]" in capsys.readouterr().err


def test_a_device_is_written_to_and_not_replaced(hostile, duly, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert duly("report", hostile, "--html", str(pipe)) == 0
    reader.join(10)
    assert got[0].startswith(b"<!doctype html>") and pipe.is_fifo()


def test_json_is_one_document_with_all_of_it(hostile, duly, capsys):
    assert duly("report", hostile, "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    data = json.loads(line)
    assert data["type"] == "report" and data["result"]["phase"] == "COMPLETED"
    assert [one["step_id"] for one in data["steps"]] == ["s1", "s2"] and data["steps"][1]["needs"] == ["s1"]
    assert len(data["approvals"]) == 2 and data["checks"] and data["story"][0]["text"]
    assert data["log"]["verdict_seq"] <= data["log"]["last_seq"]


def test_the_text_has_statements_checks_approvals_and_log(hostile, duly, capsys):
    assert duly("report") == 0
    out = capsys.readouterr().out
    for wanted in (
        "OBSERVATIONS",
        "QUERY",
        "2 checks passed",
        "APPROVALS",
        "verdict   pass",
        "duly audit verify",
    ):
        assert wanted in out
    assert "\x1b" not in out and "\u202e" not in out and max(map(len, out.splitlines())) <= 80


def test_what_was_not_judged_is_no_report(home, duly, package, capsys):
    door = FakeFrontDoor(ScriptedHarness(home, plan=writing_plan))
    duly("run", package, "Open a ticket.")
    door.close()
    capsys.readouterr()
    assert duly("report") == 0
    assert "OBSERVATIONS" not in capsys.readouterr().out
    shown = " ".join(read(page(gathered(home, None))).data)
    assert "Observations" not in shown and "An approval of the plan is waited for." in shown


def test_a_question_stands_there_with_its_choices(home, duly, package, capsys):
    door = FakeFrontDoor(ScriptedHarness(home, ask=True))
    duly("run", package, "Sell.")
    door.close()
    capsys.readouterr()
    reader = read(page(gathered(home, None)))
    shown = "|".join(reader.data)
    assert "Which month of 2013 do you mean?|" in shown and "May 2013|June 2013" in shown


def test_what_is_done_and_missing_of_a_partial_run_stands_there(hostile, home):
    needs = {"done": ["s1"], "missing": ["<s2>", "rule:s1"], "choices": ["Take <it>."], "question": None}
    dossier = gathered(home, hostile)
    reader = read(page(replace(dossier, result={**dossier.result, "needs": needs})))
    shown = "".join(reader.data)
    assert "dones1missing<s2>, rule:s1ChoicesTake <it>." in shown


def test_nothing_recorded_is_said(duly, home, capsys):
    assert duly("report") == 8
    assert "[storage.absent]" in capsys.readouterr().err and not home.run.exists()


@given(st.text(), st.text())
def test_any_text_comes_back_as_text(content, attribute):
    reader = read(tag("p", content, title=attribute))
    assert [name for name, _ in reader.tags] == ["p"]
    assert "".join(reader.data) == readable(content)
    assert reader.tags[0][1] == {"title": readable(attribute)}


def test_parts_of_markup():
    assert (
        tag("br") == "<br>"
        and tag("p", class_="a", stroke_width=1.50, id=None) == '<p class="a" stroke-width="1.5"></p>'
    )
    assert joined(["<", Html("<b></b>")]) == "&lt;<b></b>"
    assert lines("a\n<b>") == "a\n&lt;b&gt;"
    assert text(3) == "3" and isinstance(text("x"), Html)
