"""The supervisor: hosts come up and come back, nobody inherits the launcher's environment, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duly.hosts.child import Child, ChildSpec
from duly.hosts.client import HostClient
from duly.hosts.config import HostConfig
from duly.hosts.installation import Installation, host_children
from duly.hosts.supervisor import held
from duly.protocol.authority.signing import key_id
from duly.protocol.wire.errors import RuntimeFault
from duly.storage.home import Home
from duly.storage.keys import KeyRing, read_public_file
from process_table import Leftover, wait_until_gone

# A stand-in for the runtime: it says that it runs, leaves two daemons in sessions of their own, and waits.
RUNTIME = (
    "import os, subprocess, sys\n"
    "for _ in range(2):\n"
    "    subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    "near = subprocess.Popen(['sleep', '1000'])\n"
    "with open(sys.argv[1], 'w') as pipe:\n"
    "    pipe.write('up')\n"
    "near.wait()\n"
)
SUPERVISOR = (
    "import asyncio, os, pathlib, sys\n"
    "from duly.hosts import confinement, installation, supervisor\n"
    "from duly.hosts.child import ChildSpec\n"
    "home = installation.Installation(pathlib.Path(sys.argv[1]))\n"
    "confinement.harden()\n"
    "environment = confinement.clean_environment(str(home.home))\n"
    "argv = [sys.executable, '-c', sys.argv[2], str(home.home / 'up')]\n"
    "with supervisor.held(home):\n"
    "    children = [\n"
    "        *installation.host_children(home, os.environ),\n"
    "        ChildSpec('runtime', argv, environment, restart='stop', warded=True),\n"
    "    ]\n"
    "    raise SystemExit(asyncio.run(supervisor.supervise(children)))\n"
)


@contextmanager
def _supervisor(home: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running supervisor whose runtime is up."""
    os.mkfifo(home / "up")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", SUPERVISOR, str(home), RUNTIME], env={**os.environ, **environment}
    )
    try:
        assert _read(home / "up") == b"up"
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _read(pipe: Path) -> bytes:
    fd = os.open(pipe, os.O_RDWR)
    try:
        ready, _, _ = select.select([fd], [], [], 30)
        return os.read(fd, 10) if ready else b""
    finally:
        os.close(fd)


def _family(pid: int) -> dict[int, str]:
    """Every descendant of a process with its command line."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(int(stat[1]), []).append(int(entry))
    found, pending = {}, [pid]
    while pending:
        for child in parents.get(pending.pop(), []):
            pending.append(child)
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def _alive(pids: dict[int, str]) -> set[Leftover]:
    return {Leftover(pid, command) for pid, command in pids.items() if os.path.exists(f"/proc/{pid}/fd")}


def _hello(home: Path, name: str) -> dict:
    async def hello():
        client = HostClient(Installation(home).socket(name))
        try:
            return await client.hello()
        finally:
            await client.close()

    return asyncio.run(hello())


def test_a_node_comes_up_and_goes_down_and_leaves_nothing(duly_home):
    with _supervisor(duly_home, MY_SECRET="canary-1", DULY_WRITE_SECRET_TOKEN="canary-2") as process:
        family = _family(process.pid)
        assert sum("duly.hosts.server" in command for command in family.values()) == 3
        assert sum(command.startswith("sleep") for command in family.values()) == 3
        for pid, command in family.items():
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert b"canary" not in environment, command
            assert "canary" not in command
        for name in ("read", "write", "verify"):
            hello = _hello(duly_home, name)
            assert hello["class"] == name
            assert key_id(read_public_file(duly_home / f"keys/hosts/{name}.pub")) == hello["keyid"]
    assert process.returncode == 0
    assert not wait_until_gone(lambda: _alive(family), 5)
    assert list(duly_home.glob("run/*.sock")) == []
    assert not (duly_home / "run/supervisor.pid").exists()


def test_a_killed_host_comes_back_with_its_key(duly_home):
    with _supervisor(duly_home):
        before = _hello(duly_home, "read")
        watch = os.pidfd_open(before["pid"])
        os.kill(before["pid"], signal.SIGKILL)
        select.select([watch], [], [], 10)
        os.close(watch)
        after = wait_for_hello(duly_home, before["pid"])
        assert after["keyid"] == before["keyid"]


def wait_for_hello(home: Path, old: int) -> dict:
    """The host's answer after its restart; a refused connection means that it is not back yet."""
    found: list[dict] = []

    def look() -> set[Leftover]:
        try:
            found.append(_hello(home, "read"))
        except RuntimeFault:
            return {Leftover(old, "not back yet")}
        return set()

    assert not wait_until_gone(look, 15)
    assert found[-1]["pid"] != old
    return found[-1]


def test_a_killed_supervisor_leaves_nothing_and_can_be_started_again(duly_home):
    with _supervisor(duly_home) as process:
        family = _family(process.pid)
        process.kill()
        process.wait()
        assert not wait_until_gone(lambda: _alive(family), 10)
        (duly_home / "up").unlink()
    with _supervisor(duly_home):
        assert _hello(duly_home, "write")["class"] == "write"


def test_the_end_of_the_runtime_is_the_end_of_the_supervisor(duly_home):
    with _supervisor(duly_home) as process:
        family = _family(process.pid)
        warden = next(pid for pid, command in family.items() if "duly.hosts.warden" in command)
        os.kill(warden, signal.SIGKILL)
        assert process.wait(20) == 1
        assert not wait_until_gone(lambda: _alive(family), 5)


def test_a_second_supervisor_is_told_who_holds_the_directory(duly_home):
    installation = Installation(duly_home)
    with held(installation):
        command = [sys.executable, "-P", "-m", "duly.hosts.supervisor", "--home", str(duly_home)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert second.returncode == 1
        assert f"held by process {os.getpid()}" in second.stderr
        assert "[runtime.held]" in second.stderr
        assert (duly_home / "run/supervisor.pid").read_text() == f"{os.getpid()}\n"
    with held(installation):
        assert True  # the lock is free again


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["/nonexistent/program"], "runtime.child_failed"),
        (["sh", "-c", "exit 3 # {ready_fd}"], "runtime.child_failed"),
    ],
)
def test_a_child_that_does_not_start_is_named(argv, code):
    async def run():
        with pytest.raises(RuntimeFault) as why:
            await Child(ChildSpec("odd", argv, {"PATH": os.environ["PATH"]})).start()
        return why.value

    fault = asyncio.run(run())
    assert fault.code == code
    assert "odd" in fault.message


def test_a_child_that_ignores_the_polite_signal_is_killed():
    async def run():
        argv = ["sh", "-c", "trap '' TERM; echo > /proc/self/fd/{ready_fd}; while :; do sleep 1; done"]
        child = Child(ChildSpec("deaf", argv, {"PATH": os.environ["PATH"]}, stop_seconds_max=0.2))
        await child.start()
        pid = child.pid
        await child.stop()
        return pid, child.pid

    pid, after = asyncio.run(run())
    assert after is None
    assert not os.path.exists(f"/proc/{pid}")


def test_waits_between_starts_grow():
    child = Child(ChildSpec("odd", ["true"], {}))
    child._started = float("inf")
    waits = [child.backoff_seconds for _ in range(8)]
    assert waits == sorted(waits)
    assert waits[0] < waits[3] < 5.0001
    assert waits[-1] == 5


def test_sockets_and_keys_lie_where_the_other_rooms_look(duly_home, tmp_path):
    for root in (duly_home, tmp_path / ("long" * 30)):
        assert Installation(root).socket("read") == Home(root).socket_path("read")
    with _supervisor(duly_home):
        ring = KeyRing(duly_home / "keys")
        assert ring.has("harness")
        ring.private("harness")


def test_a_node_that_was_brought_the_harnesss_key_makes_none(duly_home):
    head, node = Installation(duly_home / "head"), Installation(duly_home / "node")
    host_children(head, {})
    public = KeyRing(head.keys)
    public.private("harness")  # exports the public part, as the harness does when it starts
    (node.keys / "public").mkdir(parents=True)
    (node.keys / "public/harness.pub").write_bytes((head.keys / "public/harness.pub").read_bytes())
    for child in host_children(node, {}):
        assert child.handed is not None
        assert HostConfig.decode(child.handed).harness_keys == [public.public("harness")]
    assert not (node.keys / "harness.key").exists()


def test_each_host_is_handed_the_secrets_of_its_class_only(duly_home):
    environment = {"DULY_READ_SECRET_A": "1", "DULY_WRITE_SECRET_B": "2", "MY_SECRET": "3"}
    found = {}
    for child in host_children(Installation(duly_home), environment):
        assert child.handed is not None
        config = HostConfig.decode(child.handed)
        found[config.name] = config.secrets
        assert not set(child.env) & set(environment)
    assert found == {"read": {"A": "1"}, "write": {"B": "2"}, "verify": {}}
