"""No secret of the launcher, and no key, file or engine of a host, is in any process of Ray's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from process_table import open_files, tree_below
from runtime_fixture import CANARY, HOST_SECRET
from runtime_home import FLIGHTS, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ACTORS = ("Harness", "Planner", "Verifier", "PlanCache", "AuditJournal", "Executor")
SCANNED_BYTES_MAX = 256 << 20  # of one process: its own pages, not what it maps from files


@pytest.fixture(scope="module")
def after_a_run(runtime: RuntimeHome) -> RuntimeHome:
    """The runtime once its hosts have read, and its verifier's host too."""
    assert runtime.ask(FLIGHTS, "How many flights departed from JFK in March?").code == 0
    return runtime


def readable(pid: int, name: str) -> bytes:
    """A file of /proc; empty for one that this user may not read or that is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def test_the_launchers_environment_reaches_no_process_below_the_supervisor(after_a_run):
    top = after_a_run.supervisor()
    below = [one.pid for one in tree_below(top) if one.pid != top]
    assert len(below) > 10
    for pid in below:
        for name in ("environ", "cmdline"):
            text = readable(pid, name)
            assert CANARY.encode() not in text and HOST_SECRET.encode() not in text, f"{pid} {name}"


def test_no_process_of_rays_holds_a_source_a_sink_or_an_engine(after_a_run):
    hosts = {one["pid"] for one in after_a_run.processes() if one["role"].startswith("host ")}
    actors = {one["pid"]: one["role"] for one in after_a_run.processes() if one["role"] in ACTORS}
    assert set(actors.values()) == set(ACTORS)
    for pid, role in actors.items():
        assert pid not in hosts
        files = open_files(pid)
        assert files, "this user may not look into its own processes"
        held = {
            file for file in files if Path(file).suffix in (".parquet", ".sqlite", ".duckdb", ".key", ".pem")
        }
        assert not held, f"{role} has {held} open"
        assert not any("/keys/" in file or "memfd:duly" in file for file in files), role
        assert b"duckdb" not in readable(pid, "maps"), f"{role} has loaded the engine"


def test_the_credentials_of_a_host_are_not_in_the_memory_of_an_actor(after_a_run):
    """Searched page by page; the search itself is tried on this process, which has the canary."""
    if scanned(os.getpid(), HOST_SECRET.encode()) is None:
        pytest.skip("this system lets nobody read the memory of another process")
    assert scanned(os.getpid(), HOST_SECRET.encode())
    for one in after_a_run.processes():
        if one["role"] in ACTORS:
            for canary in (HOST_SECRET, CANARY):
                assert not scanned(one["pid"], canary.encode()), f"{one['role']} knows a secret"


def test_no_secret_is_in_a_log_or_a_file_of_the_data_directory(after_a_run):
    for path in after_a_run.root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert CANARY.encode() not in data and HOST_SECRET.encode() not in data, path


def scanned(pid: int, wanted: bytes) -> bool | None:
    """Whether the private writable memory of a process holds these bytes; ``None`` where it cannot be read."""
    read = 0
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                span, mode, *rest = line.split()
                if not mode.startswith("rw") or (len(rest) > 3 and rest[3].startswith("/")):
                    continue
                start, end = (int(part, 16) for part in span.split("-"))
                if end - start > SCANNED_BYTES_MAX - read:
                    continue  # reserved address space of the allocator, nearly all of it never touched
                read += end - start
                memory.seek(start)
                try:
                    if wanted in memory.read(end - start):
                        return True
                except OSError:
                    continue  # a page of the kernel's
    except OSError:
        return None
    return False
