"""At a terminal: the prompt decides only on a clear word, and Ctrl-C ends a run cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from duly.cli.follow import PROMPT
from scripted_harness import writing_plan
from terminal import Terminal

REQUEST = "Open a ticket."


class TestPrompt:
    @pytest.fixture
    def asked(self, door, package):
        door.harness.plan = writing_plan
        terminal = Terminal(["run", package, REQUEST])
        terminal.until(PROMPT)
        yield terminal
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()

    def test_a_approves_and_the_next_gate_asks_again(self, asked, door):
        asked.type("a\n")
        asked.until("ARGUMENTS, exactly as they will be executed")
        assert not door.harness.effects
        asked.until(PROMPT)
        asked.type("approve\n")
        assert asked.end() == 0
        assert door.harness.effects == [{"name": "B6", "note": "sold most"}]

    @pytest.mark.parametrize("typed", ["q\n", "\n", "yes\n", "y\n", "A lot\n", "\x04", "aa\n", "\x1ba\n"])
    def test_anything_but_a_clear_word_leaves_it_waiting(self, asked, door, typed):
        asked.type(typed)
        assert asked.end() == 6
        assert "approve" not in door.ops() and "reject" not in door.ops()

    def test_r_rejects(self, asked, door):
        asked.type("r\n")
        asked.end()
        assert door.asked("reject")["feedback"] is None and not door.harness.effects

    def test_ctrl_c_at_the_prompt_decides_nothing(self, asked, door):
        asked.interrupt()
        assert asked.end() == 6
        assert "approve" not in door.ops() and "cancel" not in door.ops()

    def test_a_terminal_that_goes_away_decides_nothing(self, asked, door):
        asked.process.send_signal(signal.SIGHUP)
        assert asked.end() != 0
        assert "approve" not in door.ops() and "reject" not in door.ops()

    def test_what_was_typed_before_the_text_was_shown_is_no_decision(self, door, package):
        door.harness.plan = writing_plan
        terminal = Terminal(["run", package, REQUEST])
        terminal.type("a\n")
        terminal.until(PROMPT)
        terminal.type("\x04")
        assert terminal.end() == 6
        assert "approve" not in door.ops()

    def test_json_never_asks(self, door, package):
        door.harness.plan = writing_plan
        terminal = Terminal(["run", package, REQUEST, "--json"])
        assert terminal.end() == 6
        assert PROMPT not in terminal.text

    def test_no_color_is_respected_and_progress_is_wiped(self, door, package):
        plain = Terminal(["run", package, "Which sold most?"], {"NO_COLOR": "1"})
        assert plain.end() == 0
        assert "\x1b[1m" not in plain.text and "\r\x1b[2K" in plain.text
        bold = Terminal(["run", package, "Which sold most?"])
        assert bold.end() == 0
        assert "\x1b[1mrun" in bold.text


class TestInterrupt:
    @pytest.fixture
    def running(self, door, package):
        door.hold = door.harness.ask = True
        process = subprocess.Popen(
            [sys.executable, "-m", "duly.cli.entry", "run", package, REQUEST],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert door.followed.wait(30)
        yield process
        if process.poll() is None:
            process.kill()
        process.communicate()

    def test_once_cancels_and_waits_for_the_end(self, running, door):
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=30)
        assert running.returncode == 5
        assert "Cancelling" in out and "CANCELLED" in out.splitlines()
        assert door.asked("cancel")["reason"] == "Ctrl-C"

    def test_twice_leaves_at_once(self, running, door):
        asked = os.pipe()
        door.override["cancel"] = lambda request, reply: os.write(asked[1], b"x")  # and never an answer
        running.send_signal(signal.SIGINT)
        assert os.read(asked[0], 1) == b"x"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
        assert running.returncode == 5
        assert "Traceback" not in err
