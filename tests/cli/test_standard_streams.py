"""What commands do with standard streams that are closed, full, or read by nobody."""

from __future__ import annotations

import os
import subprocess

import pytest

from runtime_home import DULY


def shell(redirected: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command under a shell that redirects its streams."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirected}', "sh", *DULY, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [("runs",), ("--version",), ("init", "--help"), ("approve", "r1")])
def test_without_standard_output_nothing_is_done_and_a_sentence_says_why(arguments: tuple[str, ...]):
    done = shell(">&-", *arguments)
    assert done.returncode == 2
    assert "[request.no_output]" in done.stderr and "internal" not in done.stderr


def test_closed_input_and_errors_are_none():
    assert shell("<&-", "--version").stdout.startswith("duly ")
    assert shell("2>&-", "--version").stdout.startswith("duly ")
    assert shell("<&- >&- 2>&-", "--version").returncode == 2


def test_a_full_output_is_an_error():
    done = shell(">/dev/full", "--version")
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.parametrize("command, code", [("doctor", 0), ("run", 141)])
def test_a_reader_that_leaves_ends_a_command_quietly(command: str, code: int):
    """A command that follows a run then has no exit code of a phase: it saw no end."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*DULY, command, "--help"], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (code, b"")
