"""The runtime on top of the hosts: Ray's head, then the actors, in a process of the supervisor's.

    python -P -m duly.actors.runtime.start --home HOME

This process imports no Ray. It starts the head with an environment made from nothing, lets a second process create the
actors and leave, and stays for as long as the head does.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from duly.hosts.confinement import clean_environment
from duly.protocol.wire.errors import DulyError
from duly.storage.home import Home
from duly.storage.keys import KeyRing

from .node import Node, read_node
from .settings import (
    CONTROL_RESOURCE,
    EXECUTORS_PER_NODE,
    HARNESS_KEY,
    LOG_KEY,
    READY_FILE,
    TOKEN_FILE,
    node_resource,
)
from .stores import check_stores

HEAD_SECONDS_MAX = 60
ATTACH_SECONDS_MAX = 120
STOP_SECONDS_MAX = 10
IDLE_SECONDS_DEFAULT = 30 * 60
OBJECT_STORE_BYTES = 80_000_000
WORKERS_PRESTARTED = 7  # about the number of actors: each then starts in a tenth of a second
RAY_TEMP_CHARS_MAX = 40  # Ray appends about 60 characters for its sockets, and 107 is the kernel's limit


def main() -> None:
    """Entry; ends with the head's exit status."""
    if len(sys.argv) != 3 or sys.argv[1] != "--home":
        raise SystemExit("usage: python -m duly.actors.runtime.start --home HOME")
    home = Home(Path(os.path.abspath(sys.argv[2])))
    os.chdir(
        home.run
    )  # workers have the driver's working directory first on their path: one that holds no module
    if read_node(home).mode == "head":
        for role in (HARNESS_KEY, LOG_KEY):
            KeyRing(home.keys).private(role)  # made before the actors that need the public parts
        try:
            check_stores(home)
        except DulyError as error:
            print(error, file=sys.stderr, flush=True)
            raise SystemExit(1) from None
    environment = ray_environment(home)
    node = read_node(home)
    address = f"{node.ip}:{node.port or free_port()}" if node.mode == "head" else node.address
    head = subprocess.Popen(
        ray_command(home, node, address), env=environment, stdin=subprocess.DEVNULL, process_group=0
    )

    def stop(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(head.pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if wait_for_head(head, address):
        attach(home, environment, address, head)
    raise SystemExit(head.wait())


def attach(home: Home, environment: dict[str, str], address: str, head: subprocess.Popen[bytes]) -> None:
    """Creates the actors in a process of its own; where that fails the head ends too."""
    idle = os.environ.get("DULY_IDLE_SECONDS", "")
    command = [
        sys.executable,
        "-P",
        "-m",
        "duly.actors.runtime.attach",
        str(home.root),
        str(supervisor_pid(home)),
        idle if idle.isdigit() else str(IDLE_SECONDS_DEFAULT),
        address,
    ]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, timeout=ATTACH_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        print("the actors did not start in time", file=sys.stderr, flush=True)
        head.terminate()
        return
    if done.returncode != 0:
        print(f"the actors could not be started (exit code {done.returncode})", file=sys.stderr, flush=True)
        head.terminate()
        return
    ready = {"supervisor": supervisor_pid(home), "address": address}
    (home.run / READY_FILE).write_text(json.dumps(ready), "utf-8")


def supervisor_pid(home: Home) -> int:
    """The process that ``duly down`` ends. Raises where there is none: nothing could stop this runtime."""
    return int((home.run / "supervisor.pid").read_text("ascii"))


def ray_command(home: Home, node: Node, address: str) -> list[str]:
    """Ray's processes of this node, with nothing that a laptop does not need."""
    port = address.rpartition(":")[2]
    mode = ["--head", f"--port={port}", "--include-dashboard=false", "--no-monitor"]
    if node.mode == "worker":
        mode = [f"--address={address}"]
    control = {CONTROL_RESOURCE: 1} if node.mode == "head" else {}
    resources = {**control, **node.resources, node_resource(node.name): 1}
    return [
        sys.executable,
        "-P",
        "-m",
        "ray.scripts.scripts",
        "start",
        *mode,
        "--block",
        f"--node-ip-address={node.ip}",
        "--include-log-monitor=false",
        "--disable-usage-stats",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        f"--num-cpus={WORKERS_PRESTARTED if node.mode == 'head' else EXECUTORS_PER_NODE}",
        f"--resources={json.dumps(resources)}",
        f"--temp-dir={ray_temp(home)}",
    ]


def ray_environment(home: Home) -> dict[str, str]:
    """A clean environment with what Ray is told. The token keeps other users' processes out; it opens no host."""
    return {
        **clean_environment(str(home.root)),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_file(home)),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TASK_EVENTS_REPORT_INTERVAL_MS": "0",
        "RAY_enable_metrics_collection": "0",
        "RAY_timeout_ms_task_wait_for_death_info": "0",
        "RAY_worker_niceness": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAY_DEDUP_LOGS": "0",
    }


def token_file(home: Home) -> Path:
    """The cluster's token with mode 0600; Ray's own file would be readable by everybody."""
    path = home.run / TOKEN_FILE
    if not path.exists():
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
    return path


def ray_temp(home: Home) -> Path:
    """A folder for Ray's session, short enough for its sockets."""
    path = home.run / "ray"
    if len(os.fsencode(path)) > RAY_TEMP_CHARS_MAX or not str(path).isascii() or " " in str(path):
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        path = Path(tempfile.gettempdir()) / f"duly-{os.getuid()}" / name
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_head(head: subprocess.Popen[bytes], address: str) -> bool:
    """Whether the head answers at its address before this node's Ray ends or is late."""
    host, _, port = address.rpartition(":")
    watch = os.pidfd_open(head.pid)
    deadline = time.monotonic() + HEAD_SECONDS_MAX
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return True
            if select.select([watch], [], [], 0.05)[0]:
                return False
    finally:
        os.close(watch)
    print("Ray's head did not answer in time", file=sys.stderr, flush=True)
    head.terminate()
    return False


if __name__ == "__main__":
    main()
