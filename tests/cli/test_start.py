"""The runtime is started once, found by the next command, and its failure is told with the end of its log."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duly.cli import start
from duly.cli.client import FrontDoor
from duly.cli.supervisor_lock import path_of, supervisor_of
from duly.protocol.wire.errors import RuntimeFault
from duly.storage.home import Home

# Listens like a harness, counts its start, and ends at the first request.
SERVING = """
import socket, sys
path, starts = sys.argv[1:]
with open(starts, "a") as file:
    file.write("started\\n")
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(8)
while True:
    peer, _ = listener.accept()
    if peer.recv(1):
        break
"""

HOLDING = """
import fcntl, os, signal, sys
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.truncate(0)
file.write(f"{os.getpid()}\\n")
file.flush()
print("held", flush=True)
signal.pause()
"""


@pytest.fixture
def serving(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    starts = tmp_path / "starts"
    command = [sys.executable, "-c", SERVING, str(home.socket_path("front")), str(starts)]
    monkeypatch.setattr(start, "supervisor_command", lambda root: command)
    yield starts
    with FrontDoor.connect(home.socket_path("front")) as door:
        door.send("down")


def test_the_first_command_starts_it_and_says_so(serving, home, capsys):
    start.opened(home).close()
    assert "starting the local runtime" in capsys.readouterr().err
    start.opened(home).close()
    assert capsys.readouterr().err == ""
    assert serving.read_text() == "started\n"


def test_two_commands_at_once_start_one(serving, home):
    opened: list[FrontDoor] = []
    threads = [threading.Thread(target=lambda: opened.append(start.opened(home))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(opened) == 4 and serving.read_text() == "started\n"
    for door in opened:
        door.close()


def test_the_command_names_the_home(home):
    assert start.supervisor_command(home.root) == [
        sys.executable,
        "-P",
        "-m",
        "duly.hosts.supervisor",
        "--home",
        str(home.root),
    ]


def test_a_supervisor_that_ends_is_an_error_with_the_end_of_its_log(home, monkeypatch):
    program = "print('one'); print('the \\x1b[2Kport is taken'); raise SystemExit(3)"
    monkeypatch.setattr(start, "supervisor_command", lambda root: [sys.executable, "-c", program])
    with pytest.raises(RuntimeFault) as caught:
        start.opened(home)
    assert caught.value.code == "runtime.start_failed" and "exit code 3" in caught.value.message
    assert caught.value.story[-1] == "the \\u{1b}[2Kport is taken"
    assert caught.value.place == str(home.run / "supervisor.log")


def test_a_late_supervisor_is_an_error(home, monkeypatch):
    program = "import sys; sys.stdin.read(); __import__('signal').sigtimedwait([], 2)"
    monkeypatch.setattr(start, "supervisor_command", lambda root: [sys.executable, "-c", program])
    monkeypatch.setattr(start, "START_SECONDS_MAX", 0.3)
    with pytest.raises(RuntimeFault) as caught:
        start.opened(home)
    assert caught.value.code == "runtime.start_late"


class TestRunning:
    def test_a_lock_file_that_was_left_behind_is_no_supervisor(self, home):
        home.prepare()
        assert supervisor_of(home) is None
        path_of(home).write_text("1\n")
        assert supervisor_of(home) is None

    def test_the_holder_of_the_lock_is_the_supervisor(self, home):
        home.prepare()
        with holding(home) as process:
            assert supervisor_of(home) == process.pid

    def test_down_ends_a_supervisor_whose_harness_does_not_answer(self, home, duly, capsys):
        home.prepare()
        with holding(home) as process:
            assert duly("down") == 0
            assert capsys.readouterr().out == "The runtime is down.\n"
            assert process.wait(10) == -signal.SIGTERM

    def test_a_runtime_that_is_stopping_is_waited_for_and_then_started(self, home, serving, capsys):
        home.prepare()
        with holding(home) as process:
            timer = threading.Timer(0.2, process.terminate)
            timer.start()
            start.opened(home).close()
            timer.join()
        err = capsys.readouterr().err
        assert "starting or stopping" in err and "starting the local runtime" in err


@contextmanager
def holding(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the supervisor's lock, as `hosts/supervisor` does."""
    process = subprocess.Popen([sys.executable, "-c", HOLDING, str(path_of(home))], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()
            process.wait()


class TestConnect:
    def test_no_socket(self, home):
        with pytest.raises(RuntimeFault) as caught:
            FrontDoor.connect(home.socket_path("front"))
        assert caught.value.code == "runtime.absent"

    def test_a_socket_that_was_left_behind(self, home):
        home.prepare()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(home.socket_path("front")))
        with pytest.raises(RuntimeFault) as caught:
            FrontDoor.connect(home.socket_path("front"))
        assert caught.value.code == "runtime.absent"

    @pytest.mark.parametrize(
        ("said", "code"),
        [
            (b"HTTP/1.1 200 OK\r\n\r\n", "runtime.bad_answer"),
            (b"\xff\xff\xff\xff", "runtime.bad_answer"),
            (b"", "runtime.lost"),
            (b"\x00\x00", "runtime.lost"),
        ],
    )
    def test_what_speaks_another_language_is_told(self, home, said, code):
        home.prepare()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(home.socket_path("front")))
            listener.listen(1)
            with FrontDoor.connect(home.socket_path("front")) as door:
                peer, _ = listener.accept()
                door.send("hello")
                peer.sendall(said)
                peer.shutdown(socket.SHUT_WR)
                with pytest.raises(RuntimeFault) as caught:
                    door.receive()
                peer.close()
        assert caught.value.code == code

    def test_another_version_says_what_to_do(self, door, duly, package, capsys):
        error = RuntimeFault("runtime.version", "Versions differ.", hint="Run `duly down`.").to_data()
        door.override["package.open"] = lambda request, reply: reply({"error": error, "last": True})
        assert duly("run", package, "x") == 1
        err = capsys.readouterr().err
        assert "[runtime.version]" in err and "duly down" in err
        assert door.asked("package.open")["version"]
