"""``duly edit``: the person's editor, what it leaves behind, and what reaches the runtime of it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from duly.cli.edit import AGAIN
from duly.cli.follow import PROMPT
from duly.protocol.plan.plan import Plan
from duly.protocol.views.result import result_object
from duly.protocol.wire.errors import AuthorityError, Fault, PlanError
from scripted_harness import writing_plan
from terminal import Terminal

SWAP = "import sys; p = sys.argv[-1]; t = open(p).read(); open(p, 'w').write(t.replace(sys.argv[1], sys.argv[2]))"


@pytest.fixture
def waiting(duly, door, package, capsys, tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what an editor leaves is left there
    door.harness.plan = writing_plan
    assert duly("run", package, "Open a ticket.") == 6
    capsys.readouterr()
    run_id = next(iter(door.harness.runs))
    door.override["edit"] = lambda request, reply: reply(
        {"result": result_object(door.harness.runs[run_id]), "last": True}
    )
    return run_id


@pytest.fixture
def text(duly, waiting, capsys) -> str:
    assert duly("edit", waiting, "--print") == 0
    return str(capsys.readouterr().out)


def swapping(old: str, new: str) -> str:
    """An editor that puts one text in the place of another."""
    return shlex.join([sys.executable, "-c", SWAP, old, new])


def running(code: str) -> str:
    """An editor that runs a program; the file is its last argument."""
    return shlex.join([sys.executable, "-c", f"import sys; path = sys.argv[-1]; {code}"])


def kept_file(said: str) -> Path:
    """The file that a command says that it left; the path may be broken over lines."""
    after = said.partition("Your text is kept in")[2]
    return Path("".join(after.partition("duly:")[0].split()))


class TestFile:
    def test_a_changed_plan_is_sent_and_its_gate_is_shown_again(
        self, waiting, text, duly, door, tmp_path, capsys
    ):
        file = tmp_path / "plan.yaml"
        file.write_text(text.replace('note: "sold most"', 'note: "look at it"'), encoding="utf-8")
        assert duly("edit", waiting, "--file", str(file)) == 6
        sent = door.asked("edit")
        plan = Plan.model_validate(sent["plan"])
        assert plan.step("s2").tool_contract.arguments == {"name": {"$ref": "s1#/name"}, "note": "look at it"}
        assert sent["gate"] == door.harness.gate(waiting)["gate"] and sent["run_id"] == waiting
        assert (plan.origin, plan.provenance.kind, plan.version) == ("person", "edited", 2)
        assert "APPROVAL OF A PLAN" in capsys.readouterr().out
        assert "approve" not in door.ops() and not door.harness.effects

    def test_a_plan_that_says_the_same_is_not_sent(self, waiting, text, duly, door, tmp_path, capsys):
        file = tmp_path / "plan.yaml"
        file.write_text("# a comment\n" + text, encoding="utf-8")
        assert duly("edit", waiting, "--file", str(file)) == 6
        assert "edit" not in door.ops()
        assert "Nothing changed" in capsys.readouterr().out

    def test_json_prints_the_result(self, waiting, text, duly, door, tmp_path, capsys):
        file = tmp_path / "plan.json"
        data = door.harness.gate(waiting)["plan"]
        data["allow_partial"] = True
        file.write_text(json.dumps(data), encoding="utf-8")
        assert duly("edit", waiting, "--file", str(file), "--json") == 6
        (line,) = capsys.readouterr().out.splitlines()
        assert json.loads(line)["phase"] == "WAITING_APPROVAL"
        assert door.asked("edit")["plan"]["allow_partial"] is True

    def test_every_fault_is_told_with_its_line_and_nothing_is_sent(
        self, waiting, text, duly, door, tmp_path, capsys
    ):
        file = tmp_path / "plan.yaml"
        bad = text.replace("timeout_seconds: 30", "timeout_seconds: soon").replace(
            "report_step: s1", "report_step: [1]"
        )
        file.write_text(bad, encoding="utf-8")
        assert duly("edit", waiting, "--file", str(file)) == 8
        told = "".join(capsys.readouterr().err.split())
        for number, line in enumerate(bad.splitlines(), 1):
            if "soon" in line or "report_step: [1]" in line:
                assert f"plan.yaml:{number}:" in told
        assert "edit" not in door.ops()

    def test_what_the_runtime_refuses_has_its_lines_too(self, waiting, text, duly, door, tmp_path, capsys):
        file = tmp_path / "plan.yaml"
        file.write_text(text.replace("allow_partial: false", "allow_partial: true"), encoding="utf-8")
        faults = [Fault("steps/1/tool_contract/arguments/note", "plan.bad_arguments", "no such note.")]
        error = PlanError("plan.invalid", "The plan has 1 fault.", faults=faults)
        door.override["edit"] = lambda request, reply: reply({"error": error.to_data(), "last": True})
        assert duly("edit", waiting, "--file", str(file)) == 8
        told = capsys.readouterr().err
        line = next(n for n, one in enumerate(text.splitlines(), 1) if 'note: "sold most"' in one)
        assert (
            "[plan.invalid]" in told
            and f"plan.yaml:{line}:" in "".join(told.split())
            and "no such note" in told
        )

    def test_a_file_that_is_not_there_is_a_usage_error(self, waiting, duly, door, capsys):
        assert duly("edit", waiting, "--file", "absent.yaml") == 2
        assert "[plan.file]" in capsys.readouterr().err


class TestRefusals:
    def test_no_terminal_and_no_file_is_a_usage_error(self, waiting, duly, door, capsys):
        assert duly("edit", waiting) == 2
        err = capsys.readouterr().err
        assert "[request.no_terminal]" in err and "--file" in err
        assert duly("edit", waiting, "--json") == 2

    def test_a_step_that_waits_is_no_plan(self, waiting, duly, door, capsys):
        assert duly("approve", waiting) == 6
        assert duly("edit", waiting, "--print") == 8
        assert "[run.not_editable]" in capsys.readouterr().err

    def test_a_run_that_waits_for_nobody(self, duly, door, package, capsys):
        duly("run", package, "Which sold most?")
        assert duly("edit", next(iter(door.harness.runs)), "--print") == 8
        assert "[gate.none]" in capsys.readouterr().err


class TestEditor:
    def opened(self, run_id: str, editor: str, **environment: str) -> Terminal:
        return Terminal(["edit", run_id], {"VISUAL": editor, "NO_COLOR": "1", **environment})

    def test_what_is_saved_is_sent_and_the_gate_asks(self, waiting, door):
        terminal = self.opened(waiting, swapping("sold most", "look at it"))
        terminal.until(PROMPT)
        terminal.type("\x04")
        assert terminal.end() == 6
        assert door.asked("edit")["plan"]["steps"][1]["tool_contract"]["arguments"]["note"] == "look at it"
        assert "APPROVAL OF A PLAN" in terminal.text and "approve" not in door.ops()

    def test_editor_stands_behind_visual(self, waiting, door):
        terminal = self.opened(waiting, "", EDITOR=swapping("sold most", "from EDITOR"))
        terminal.until(PROMPT)
        terminal.type("\x04")
        assert terminal.end() == 6
        assert "from EDITOR" in str(door.asked("edit")["plan"])

    def test_left_as_it_is_nothing_is_sent(self, waiting, door):
        terminal = self.opened(waiting, "true")
        assert terminal.end() == 6
        assert "Nothing changed" in terminal.text and "edit" not in door.ops()

    @pytest.mark.parametrize(
        ("editor", "told"),
        [("false", "exit code 1"), (running("import os; os.kill(os.getpid(), 15)"), "signal 15")],
    )
    def test_an_editor_that_fails_sends_nothing(self, waiting, door, editor, told):
        terminal = self.opened(waiting, editor)
        assert terminal.end() == 2
        assert (
            "[request.editor_failed]" in terminal.text and told in terminal.text and "edit" not in door.ops()
        )

    def test_an_editor_that_fails_after_writing_keeps_the_text(self, waiting, door):
        terminal = self.opened(waiting, running("open(path, 'a').write('# mine'); sys.exit(3)"))
        assert terminal.end() == 2
        kept = kept_file(terminal.text)
        assert kept.read_text(encoding="utf-8").endswith("# mine")
        assert kept.parent.stat().st_mode & 0o77 == 0, "nobody else reads a plan that is edited"

    def test_an_editor_that_is_not_there(self, waiting, door):
        terminal = self.opened(waiting, "no-such-editor-anywhere")
        assert terminal.end() == 2
        assert "[request.no_editor]" in terminal.text and "edit" not in door.ops()

    def test_an_editor_that_cannot_be_read_as_a_command(self, waiting, door):
        terminal = self.opened(waiting, 'vi "')
        assert terminal.end() == 2
        assert "[request.no_editor]" in terminal.text

    @pytest.mark.parametrize(
        "then", ["pass", "os.mkdir(path)", "os.mkfifo(path)", "os.symlink('/dev/zero', path)"]
    )
    def test_an_editor_that_removes_the_file(self, waiting, door, then):
        """What stands in its place is not read, above all where it never ends."""
        terminal = self.opened(waiting, running(f"import os; os.unlink(path); {then}"))
        assert terminal.end() == 2
        assert "[request.editor_failed]" in terminal.text and "edit" not in door.ops()

    @pytest.mark.parametrize(
        "garbage", [b"\\xff\\xfe", b"a: [", b"", b"\\x1b[2J\\x1b[31mAPPROVED", b"steps: 1"]
    )
    def test_garbage_is_told_and_left_without_sending(self, waiting, door, garbage):
        code = f"open(path, 'wb').write(b'{garbage.decode()}')"
        terminal = self.opened(waiting, running(code))
        terminal.until(AGAIN)
        terminal.type("\n")
        assert terminal.end() == 8
        assert "plan.yaml" in "".join(terminal.text.split()) or f"plan-{waiting}" in terminal.text
        assert "\x1b[2J" not in terminal.text and "\x1b[31m" not in terminal.text
        assert kept_file(terminal.text).is_file() and "edit" not in door.ops()

    def test_the_editor_opens_again_with_the_text_as_it_was_left(self, waiting, door, tmp_path):
        first = tmp_path / "first"
        code = (
            f"import pathlib; first = pathlib.Path({str(first)!r}); text = open(path).read(); "
            "open(path, 'w').write(text.replace('allow_partial: false', 'allow_partial: maybe') if not first.exists() "
            "else text.replace('allow_partial: maybe', 'allow_partial: true')); first.touch()"
        )
        terminal = self.opened(waiting, running(code))
        terminal.until(AGAIN)
        assert "allow_partial" in terminal.text and "edit" not in door.ops()
        terminal.type("e\n")
        terminal.until(PROMPT)
        terminal.type("\x04")
        assert terminal.end() == 6
        assert door.asked("edit")["plan"]["allow_partial"] is True

    def test_the_end_of_input_leaves_it(self, waiting, door):
        terminal = self.opened(waiting, running("open(path, 'w').write('x: 1')"))
        terminal.until(AGAIN)
        terminal.type("\x04")
        assert terminal.end() == 8
        assert kept_file(terminal.text).read_text(encoding="utf-8") == "x: 1"

    def test_a_gate_that_was_decided_meanwhile_keeps_the_text(self, waiting, door):
        def late(request: dict[str, Any], reply: Any) -> None:
            raise AuthorityError("gate.already_decided", "This gate was decided already.")

        door.override["edit"] = late
        terminal = self.opened(waiting, swapping("sold most", "too late"))
        assert terminal.end() == 8
        assert "[gate.already_decided]" in terminal.text
        assert "too late" in kept_file(terminal.text).read_text(encoding="utf-8")
