"""The watch over leftover processes sees what it should: it is the only reason to trust that tests clean up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from process_table import children_of, leftovers, wait_until_gone
from source_tree import CHECKOUT

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
WAITING = "import sys; print('up', flush=True); sys.stdin.read()"
DETACHED = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()', sys.argv[1]], stdin=0)"


def test_a_child_is_seen_while_it_lives(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    assert child.pid in {each.pid for each in children_of(os.getpid())}
    child.communicate(b"")
    assert child.pid not in {each.pid for each in children_of(os.getpid())}


def test_a_detached_process_is_seen_by_its_mark(tmp_path):
    mark = str(tmp_path / "mark")
    read, write = os.pipe()
    subprocess.run([sys.executable, "-c", DETACHED, mark], stdin=read, check=True, timeout=30)
    os.close(read)
    assert [each for each in leftovers([mark]) if mark in each.command]
    os.close(write)  # end of file is what the detached process waits for
    assert not wait_until_gone(lambda: leftovers([mark]), 30.0)


LEAVING = """
import subprocess, sys

def test_leaves_a_child():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.pid
    globals()["kept"] = child  # or the garbage collector closes the pipe and the child ends

def test_leaves_none():
    assert True
"""


@pytest.mark.slow
def test_a_test_that_leaves_a_child_fails(tmp_path):
    (tmp_path / "test_leaving.py").write_text(LEAVING, encoding="utf-8")
    search = os.pathsep.join(str(CHECKOUT / folder) for folder in ("tests", "tests/kit"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    done = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": search, "DULY_TEST_LEAVING_SECONDS": "0.2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "2 passed, 2 errors" in done.stdout, done.stdout
    assert "the test left child processes behind" in done.stdout
    assert "processes outlived the tests" in done.stdout
