"""The client of the front door: a blocking Unix socket, one request at a time.

A request is a map with ``op`` and ``version``; answers are any number of maps and one with ``last``. An answer with
``error`` is raised as the error that it describes.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from duly import __version__
from duly.hosts.framing import READ_BYTES, FrameParser, Message, frame
from duly.protocol.wire.errors import RuntimeFault, WireError, error_from_data

IDLE_SECONDS = 1.0  # of silence, after which whoever waits is told
CONNECT_SECONDS = 5.0  # the harness accepts at once or its process is stuck


class Readable(Protocol):
    """Something that ``select`` can wait for beside the front door."""

    def fileno(self) -> int: ...


class FrontDoor:
    """A connection to the harness of one data directory."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parser = FrameParser()
        self._ready: list[Message] = []

    @classmethod
    def connect(cls, path: Path) -> Self:
        """Raises ``RuntimeFault`` ``runtime.absent`` where nobody listens (no socket, or one that was left behind)."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(CONNECT_SECONDS)
        try:
            sock.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            sock.close()
            raise RuntimeFault(
                "runtime.absent", "No runtime is running here.", hint="Start one with `duly up`."
            ) from None
        except OSError as error:
            sock.close()
            raise RuntimeFault(
                "runtime.unreachable",
                f"The runtime cannot be reached: {error.strerror or error}.",
                place=str(path),
                hint="Use the account that started it, or stop its processes and try again.",
            ) from None
        sock.settimeout(None)
        return cls(sock)

    def call(self, op: str, *, idle: Callable[[], None] | None = None, **fields: Any) -> Message:
        """The last answer to a request; answers on the way are dropped."""
        return list(self.stream(op, idle=idle, **fields))[-1]

    def stream(self, op: str, *, idle: Callable[[], None] | None = None, **fields: Any) -> Iterator[Message]:
        """Every answer to a request, the last one included. ``idle`` is called after each second of silence."""
        self.send(op, **fields)
        while True:
            answer = self.receive(idle=idle)
            if answer is None:
                continue
            yield answer
            if answer.get("last"):
                return

    def send(self, op: str, **fields: Any) -> None:
        """Sends a request. Raises ``RuntimeFault`` ``runtime.lost`` where the harness has gone."""
        parts = frame({**fields, "op": op, "version": __version__})
        try:
            self._socket.sendall(b"".join(parts))
        except OSError:
            raise _lost() from None

    def receive(
        self, beside: Readable | None = None, idle: Callable[[], None] | None = None
    ) -> Message | None:
        """The next answer, or ``None`` when ``beside`` becomes readable first. Raises the error of the answer.

        ``idle`` is called after each second of silence.
        """
        wanted: list[Readable] = [self._socket] if beside is None else [self._socket, beside]
        while not self._ready:
            readable, _, _ = select.select(wanted, [], [], None if idle is None else IDLE_SECONDS)
            if beside in readable:
                return None
            if readable:
                self._read()
            elif idle is not None:
                idle()
        answer = self._ready.pop(0)
        if isinstance(answer.get("error"), dict):
            raise error_from_data(answer["error"])
        return answer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError:
            data = b""
        if not data:
            raise _lost()
        try:
            self._ready.extend(message for message, _ in self._parser.feed(data))
        except WireError as error:
            raise RuntimeFault(
                "runtime.bad_answer",
                f"What answers at the front door does not speak duly's protocol: {error.message}",
                hint="Stop it with `duly down`, or choose another data directory with --home.",
            ) from None


def _lost() -> RuntimeFault:
    return RuntimeFault(
        "runtime.lost",
        "The runtime closed the connection.",
        hint="Its runs are kept. Try again, or look at them with `duly runs`.",
    )
