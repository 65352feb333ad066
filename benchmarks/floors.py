"""What this machine charges before duly does anything: printed with every result, so that figures can be compared.

Each floor is the median of many tries, in microseconds.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_RAY_CALLS = """
import json, statistics, sys, time, ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)

@ray.remote
class Echo:
    async def say(self, data):
        return data

echo = Echo.remote()
data, took = bytes(1024), []
for _ in range(int(sys.argv[1]) + 20):
    began = time.perf_counter()
    ray.get(echo.say.remote(data))
    took.append(time.perf_counter() - began)
print("floor", statistics.median(took[20:]) * 1e6, flush=True)
ray.shutdown()
"""


def floors(folder: Path, *, quick: bool, ray: bool = True) -> dict[str, float]:
    """Microseconds by name: ``flush``, ``sign``, ``socket`` (a round trip of 1 KiB), ``ray_call`` (the same), and
    ``interpreter``, the start and end of a Python that does nothing."""
    tries = 50 if quick else 500
    found = {
        "flush": flush(folder, tries // 5),
        "sign": sign(tries),
        "socket": socket_round_trip(folder, tries),
        "interpreter": interpreter(max(3, tries // 50)),
    }
    if ray:
        found["ray_call"] = ray_call(folder, tries)
    return {name: round(value, 1) for name, value in found.items()}


def flush(folder: Path, tries: int) -> float:
    """A write of 4 KiB with its ``fdatasync``, in the folder that the runtime writes to."""
    path = folder / "flush"
    with path.open("wb") as file:

        def once() -> None:
            file.write(bytes(4_096))
            file.flush()
            os.fdatasync(file.fileno())

        found = _median(once, tries)
    path.unlink()
    return found


def sign(tries: int) -> float:
    """An Ed25519 signature over the text of a checkpoint."""
    key, text = Ed25519PrivateKey.generate(), bytes(80)
    return _median(lambda: key.sign(text), tries)


def socket_round_trip(folder: Path, tries: int) -> float:
    """1 KiB to another process over a Unix socket and back, both ends blocking."""
    path = folder / "echo"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(1)
        echo = subprocess.Popen([sys.executable, "-c", _ECHO, str(path)])
        ours, _ = listening.accept()
        with ours:
            data = bytes(1_024)

            def once() -> None:
                ours.sendall(data)
                left = len(data)
                while left:
                    left -= len(ours.recv(left))

            found = _median(once, tries)
        echo.wait()
    path.unlink()
    return found


def interpreter(tries: int) -> float:
    """A process of this Python that does nothing, as a shell starts it."""
    return _median(lambda: subprocess.run([sys.executable, "-P", "-c", ""], check=True), tries)


_ECHO = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(sys.argv[1])
    while data := sock.recv(4096):
        sock.sendall(data)
"""


def ray_call(folder: Path, tries: int) -> float:
    """1 KiB to an asynchronous actor and back, one call after the other, in a Ray of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _RAY_CALLS, str(tries)],
        cwd=folder,
        env={**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("floor "))


def _median(once: Callable[[], object], tries: int) -> float:
    for _ in range(min(3, tries)):
        once()
    took = []
    for _ in range(tries):
        began = time.perf_counter()
        once()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6
