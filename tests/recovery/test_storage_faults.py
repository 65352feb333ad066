"""Faults of the disk under a real runtime: a clear error with its code, no effect, and later everything goes on.

One data directory through all of it, in the order of this file: what an earlier fault left behind must not matter.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duly.actors.runtime.settings import LOG_KEY, ORIGIN
from duly.protocol.wire.errors import StorageError
from duly.storage import journal_schema
from duly.storage.journal import Journal
from duly.storage.keys import KeyRing
from duly.storage.lmdb_env import Environment
from holding import PACKAGE, Holding, holding
from runtime_fixture import short_home, stop
from runtime_home import RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]
FREE = ("--tier", "bounded_autonomous")
FAILS_SECONDS_MAX = 60
ROOM_BYTES = 4 << 20
READER = """
import sys
from pathlib import Path
from duly.storage.lmdb_env import Environment
from duly.storage import journal_schema as schema
env = Environment.open(Path(sys.argv[1]), schema.FORMAT, schema.VERSION, schema.DATABASES, writer=False)
def hold(transaction):
    print("reading", flush=True)
    sys.stdin.read()
env.read(hold)
"""


@pytest.fixture(scope="module")
def home() -> Iterator[RuntimeHome]:
    one = RuntimeHome(short_home("disk"))
    assert one.duly("up").code == 0
    yield one
    stop(one)


@pytest.fixture
def held(home: RuntimeHome) -> Iterator[Holding]:
    with holding(home.root / "tests" / "holding") as one:
        yield one


def down(home: RuntimeHome) -> None:
    stop(home)
    assert home.duly("status").code == 8


def works(home: RuntimeHome, held: Holding) -> None:
    """A run with an effect goes through, and the whole log still verifies."""
    before = len(held.sink)
    outcome = home.ask(PACKAGE, "note it", *FREE)
    assert outcome.code == 0, outcome.err
    assert len(held.sink) == before + 1
    home.verified()


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[None]:
    """Something mounted over a folder; skips where this system lets nobody mount."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a disk that is full or read-only")
    done = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this system lets nobody mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def journal_on_a_small_disk(home: RuntimeHome) -> Iterator[Path]:
    """The journal on a disk of its own. Gives the file whose growth fills it."""
    place = home.home.journal
    aside = place.with_name("journal.aside")
    place.rename(aside)
    place.mkdir(mode=0o700)
    try:
        size = sum(file.stat().st_size for file in aside.iterdir()) + ROOM_BYTES
        with mounted(place, "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs"):
            for file in aside.iterdir():
                shutil.copy(file, place)
            yield place.parent / "journal" / "ballast"
            down(home)
            kept = place.with_name("journal.kept")
            shutil.copytree(place, kept, ignore=shutil.ignore_patterns("ballast"))
        place.rmdir()
        kept.rename(place)
        place.chmod(0o700)
        shutil.rmtree(aside)
    finally:
        if aside.exists():
            shutil.rmtree(place, ignore_errors=True)
            aside.rename(place)


def fill(ballast: Path) -> None:
    """Takes every byte that is left."""
    with open(ballast, "wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


def failure_of(home: RuntimeHome) -> str:
    """The code of what the harness says is wrong, once it says so."""
    deadline = time.monotonic() + FAILS_SECONDS_MAX
    while time.monotonic() < deadline:
        failure = home.json("status").get("failure")
        if failure:
            return str(failure["code"])
    raise AssertionError("the harness does not say that its disk is full")


class TestDisk:
    def test_a_full_disk(self, home: RuntimeHome, held: Holding):
        """In the middle of a run: the effect's start cannot be recorded, so it does not begin before there is room."""
        down(home)
        with journal_on_a_small_disk(home) as ballast:
            assert home.duly("up").code == 0
            held.hold("left")
            waiting = home.begin("run", str(PACKAGE), "look around", "--json")
            held.arrived()
            fill(ballast)
            held.release("left")
            assert failure_of(home) == "storage.full"
            refused = home.ask(PACKAGE, "note it", *FREE)
            assert (refused.code, held.sink) == (1, []), refused.out
            assert "storage.full" in refused.err
            ballast.unlink()
            outcome = home.finish(waiting)
            assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED"), outcome.err
            works(home, held)
        works(home, held)

    def test_a_read_only_disk(self, home: RuntimeHome, held: Holding):
        down(home)
        place = home.home.journal
        with mounted(place, "--bind", str(place)):
            done = subprocess.run(
                ["mount", "-o", "remount,ro,bind", str(place)], capture_output=True, check=False
            )
            if done.returncode != 0:
                pytest.skip("this system remounts nothing read-only")
            refused = home.ask(PACKAGE, "note it", *FREE)
            assert refused.code == 1 and held.sink == []
            assert "storage." in refused.err, refused.err
            assert home.duly("runs").code == 0, "what is recorded can still be read"
        works(home, held)

    def test_a_newer_schema(self, home: RuntimeHome, held: Holding):
        down(home)
        place = home.home.journal
        aside = place.with_name("journal.aside")
        place.rename(aside)
        newer = Environment.open(
            place, journal_schema.FORMAT, journal_schema.VERSION + 1, journal_schema.DATABASES, writer=True
        )
        newer.close()
        try:
            read, refused = home.duly("runs"), home.ask(PACKAGE, "note it", *FREE)
            assert (read.code, refused.code, held.sink) == (1, 1, [])
            for said in (read.err, refused.err):
                assert "storage.schema" in said and f"version {journal_schema.VERSION + 1}" in said, said
        finally:
            shutil.rmtree(place)
            aside.rename(place)
        works(home, held)

    @pytest.mark.parametrize("part", [0, 5_000, 0.5])
    def test_a_truncated_file(self, home: RuntimeHome, held: Holding, part: float):
        down(home)
        file = home.home.journal / "data.mdb"
        whole = file.read_bytes()
        os.truncate(file, int(part * len(whole)) if part < 1 else int(part))
        try:
            for said in (
                home.duly("runs"),
                home.duly("audit", "verify"),
                home.ask(PACKAGE, "note it", *FREE),
            ):
                assert said.code in (1, 8), "an exit code, and no signal"
                assert "storage." in said.err or "log." in said.err, said.err
            assert held.sink == []
        finally:
            file.write_bytes(whole)
        works(home, held)


class TestOtherProcesses:
    def test_a_second_writer_is_told_who_writes(self, home: RuntimeHome, held: Holding):
        works(home, held)
        with pytest.raises(StorageError) as refused:
            Journal.open(home.home.journal, KeyRing(home.home.keys).private(LOG_KEY), ORIGIN)
        assert refused.value.code == "storage.held"
        assert str(home.pid("AuditJournal")) in str(refused.value)
        works(home, held)

    def test_a_second_runtime_is_told_who_runs(self, home: RuntimeHome):
        second = subprocess.run(
            [sys.executable, "-P", "-m", "duly.hosts.supervisor", "--home", str(home.root)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 1 and "runtime.held" in second.stderr
        assert str(home.supervisor()) in second.stderr

    def test_a_reader_that_stands_still_stops_nobody(self, home: RuntimeHome, held: Holding):
        reader = subprocess.Popen(
            [sys.executable, "-P", "-c", READER, str(home.home.journal)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert reader.stdout is not None and reader.stdout.readline() == b"reading\n"
        os.kill(reader.pid, signal.SIGSTOP)
        try:
            for _ in range(3):
                works(home, held)
        finally:
            reader.kill()
            reader.communicate()

    def test_nothing_of_all_this_was_lost(self, home: RuntimeHome, held: Holding):
        """Every run that was ever accepted has ended, and as its command was told."""
        works(home, held)
        phases = {one["run_id"]: one["phase"] for one in json.loads(home.duly("runs", "--json").out)["runs"]}
        assert set(phases.values()) == {"COMPLETED"}
        assert set(home.results) <= set(phases)
