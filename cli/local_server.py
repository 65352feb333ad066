"""The llama.cpp server of ``duly model serve`` as its parent sees it: started, waited for, ended."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from duly.protocol.wire.errors import ModelError

from .end_signals import EndSignals
from .output import note

LIBRARY = "xllamacpp"
LOOPBACK = "127.0.0.1"
END_SECONDS_MAX = 5.0
SAID_EVERY_SECONDS = 3.0
LOG_BYTES_READ = 1 << 14
LINES_SHOWN_MAX = 5


def check_library() -> None:
    """Raises ``ModelError`` ``model.extra_missing`` where the extra is not installed."""
    if importlib.util.find_spec(LIBRARY) is None:
        raise ModelError(
            "model.extra_missing",
            "Serving a model needs llama.cpp, which is not installed.",
            hint='Install it: `pip install "duly[local]"`.',
        )


def check_port(port: int) -> None:
    """Raises ``ModelError`` ``model.port_taken`` where nobody can listen there; 0 stands for any free one."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as error:
            raise _port_taken(port, str(error.strerror)) from None


class LocalServer:
    """One server process. ``address`` is its URL once ``wait_ready`` has returned."""

    def __init__(self, file: Path, name: str, *, port: int, context: int, threads: int, log: Path) -> None:
        """Starts the process. It has none of duly's secrets in its environment, and a session of its own: Ctrl-C in
        the terminal is for the parent, which ends it in order."""
        self.file, self.log, self.port, self.context = file, log, port, context
        self.address = ""
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        options = {"--port": port, "--context": context, "--threads": threads, "--name": name}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "duly.hosts.llama_server", str(file)]
            + [part for option, value in options.items() for part in (option, str(value))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd="/",
            env={name: value for name, value in os.environ.items() if not name.startswith("DULY_")},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self, wishes: EndSignals) -> bool:
        """Waits until the model is loaded, and says every few seconds how far it is. ``False`` where a signal came first.

        Raises ``ModelError``: ``model.port_taken``, ``model.load_failed``.
        """
        began, size = time.monotonic(), self.file.stat().st_size
        assert self.process.stdout is not None
        while True:
            readable, _, _ = select.select(
                [self.process.stdout.fileno(), wishes.fileno()], [], [], SAID_EVERY_SECONDS
            )
            if wishes.wished:
                return False
            if readable:
                break
            held = f"{_resident(self.pid) >> 20:,} MiB in memory, the file has {size >> 20:,} MiB"
            note(f"Loading for {time.monotonic() - began:.0f} s: {held}.")
        said = self._said(self.process.stdout.readline())
        if said.get("state") != "ready":
            raise self._failure()
        self.address = str(said["address"])
        return True

    def wait_end(self, wishes: EndSignals) -> bool:
        """Waits until a signal comes, then ``True``, or until the server ends by itself, then ``False``."""
        assert self.process.stdout is not None
        # The pipe says nothing more: it ends with the process.
        select.select([self.process.stdout.fileno(), wishes.fileno()], [], [])
        return wishes.wished

    def lost(self) -> ModelError:
        """What there is to say of a server that ended by itself."""
        return ModelError(
            "model.server_ended",
            f"The model server ended by itself ({self._how()}).",
            place=str(self.log),
            story=self._last_lines(),
            hint="Serve the model again; where memory is short, with a smaller --context.",
        )

    def end(self) -> None:
        """Ends the process and waits for it. Nothing to do where it has ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()  # it ends with its input
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        os.close(self._log)

    def _said(self, line: bytes) -> dict[str, Any]:
        """What the process said; nothing where it ended without a word."""
        try:
            said = json.loads(line)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    def _failure(self) -> ModelError:
        """Why the server did not come up, from what llama.cpp wrote."""
        told = " ".join(self._last_lines())
        if "couldn't bind" in told:
            return _port_taken(self.port, "Address already in use")
        if "failed to create_context" in told:
            message = f"The model cannot be used with a context of {self.context:,} tokens."
            hint = "Give a smaller --context."
        elif self._ended_by_signal():
            message = f"The model server died while it loaded the model ({self._how()})."
            hint = "Most often memory is short: take a smaller model or a smaller --context."
        else:
            message = "llama.cpp cannot load this file."
            hint = "It may be cut off, or of a kind that this version does not know; its log says more."
        place = f"{self.file}; log: {self.log}"
        return ModelError("model.load_failed", message, place=place, story=self._last_lines(), hint=hint)

    def _ended_by_signal(self) -> bool:
        try:
            return self.process.wait(END_SECONDS_MAX) < 0
        except subprocess.TimeoutExpired:
            return False

    def _how(self) -> str:
        try:
            status = self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return "it says nothing more"
        return f"signal {-status}" if status < 0 else f"status {status}"

    def _last_lines(self) -> list[str]:
        """The last errors of the log, without llama.cpp's times."""
        with self.log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - LOG_BYTES_READ))
            lines = stream.read().decode("utf-8", "replace").splitlines()
        found = [line.partition(" E ")[2].strip() for line in lines if " E " in line]
        return found[-LINES_SHOWN_MAX:]


def _port_taken(port: int, why: str) -> ModelError:
    return ModelError(
        "model.port_taken",
        f"Nobody can listen on port {port} of {LOOPBACK} now: {why}.",
        hint="Give another --port, or none for a free one.",
    )


def _resident(pid: int) -> int:
    """Bytes of a process that are in memory, 0 where nobody tells."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
