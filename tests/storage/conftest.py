"""Events, keys and broken files for the tests of the stores."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import lmdb
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.storage.journal import Journal

ORIGIN = "duly.test/log"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
START_MS = 1_790_000_000_000

MakeEvent = Callable[..., dict[str, Any]]
Tamper = Callable[[Path, str, bytes, bytes | None], None]


class Child:
    """A program of the tests in a process of its own; lines go in and out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdin is not None and process.stdout is not None
        self.stdin: IO[str] = process.stdin
        self.stdout: IO[str] = process.stdout

    def say(self, line: str) -> None:
        self.stdin.write(line + "\n")
        self.stdin.flush()

    def hear(self) -> str:
        return self.stdout.readline().rstrip("\n")

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Closes its input and gives its exit code."""
        self.stdin.close()
        return self.process.wait()


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Starts ``tests/storage/children/<name>.py`` with arguments; whatever still runs at the end is killed."""
    started: list[Child] = []

    def start(name: str, *arguments: object) -> Child:
        program = Path(__file__).parent / "children" / f"{name}.py"
        process = subprocess.Popen(
            [sys.executable, str(program), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(Child(process))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.stdin.close()
        one.stdout.close()


@pytest.fixture
def forked() -> Callable[..., str]:
    """Runs something in a forked child and gives what it says."""

    def run(work: Callable[[], str], *, as_nobody: bool = False) -> str:
        """What ``work`` says in a forked child; without the privileges of root, who may do everything, if asked for."""
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            said = "?"
            try:
                if as_nobody and os.getuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                said = work()
            except BaseException as error:  # the parent must hear of it
                said = repr(error)
            finally:
                os.write(writing, said.encode())
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(process, 0)
        return said

    return run


@pytest.fixture
def make_event() -> MakeEvent:
    """Events of epoch 0 whose clocks go forward by a millisecond each."""
    clock = itertools.count(START_MS)

    def make(run_id: str = "run-1", kind: str = "step.succeeded", **changes: Any) -> dict[str, Any]:
        event = {
            "v": 1,
            "time_ms": next(clock),
            "run_id": run_id,
            "kind": kind,
            "epoch": 0,
            "cause": "m-1",
            "facts": {"step_id": "s1", "attempt": 1},
            "artifacts": {},
        }
        return {**event, **changes}

    return make


@pytest.fixture
def log_key() -> Ed25519PrivateKey:
    return KEY


@pytest.fixture
def open_journal(tmp_path: Path) -> Iterator[Callable[[], Journal]]:
    """Opens the journal of this test for writing; closed at the end if the test has not."""
    opened: list[Journal] = []

    def open_it() -> Journal:
        opened.append(Journal.open(tmp_path / "journal", KEY, ORIGIN))
        return opened[-1]

    yield open_it
    for journal in opened:
        journal.close()


@pytest.fixture
def tamper() -> Tamper:
    """Puts a value (or, for None, nothing) under a key of a store that nobody has open, past all of duly's checks."""

    def change(folder: Path, database: str, key: bytes, value: bytes | None) -> None:
        with lmdb.open(str(folder), max_dbs=32, map_size=1 << 28) as env:
            handle = env.open_db(database.encode(), create=False)
            with env.begin(write=True, db=handle) as transaction:
                if value is None:
                    assert transaction.delete(key)
                else:
                    transaction.put(key, value)

    return change
