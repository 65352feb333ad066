"""The front door: the Unix socket through which command line and console talk to the harness.

Framing as ``hosts/framing``. One request at a time on a connection: a map with ``op`` and ``version``; any number of
answers, the last one with ``last``. An error is an answer too. Only processes of this user are let in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from duly import __version__
from duly.hosts.framing import READ_BYTES, FrameParser, frame, peer_uid
from duly.protocol.wire.errors import DulyError, RuntimeFault, WireError
from duly.protocol.wire.limits import FRONT_DOOR_CONNECTIONS_MAX

log = logging.getLogger("duly")
Answer = Mapping[str, Any]
WRITE_BYTES = 1 << 18  # as much as the other end reads at once


class Desk(Protocol):
    """Answers requests. The last answer of a request carries ``last``."""

    def serve(self, op: str, fields: Mapping[str, Any]) -> AsyncIterator[Answer]: ...


class FrontDoor:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.last_used = asyncio.get_running_loop().time()

    @property
    def busy(self) -> bool:
        return bool(self._connections)

    async def open(self, path: Path) -> None:
        """Binds the socket with mode 0600, in place of a stale one: the supervisor's lock says that nobody serves it."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = path.with_name(f"{path.name[:12]}.{os.getpid()}")
        aside.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            sock.bind(str(aside))
        finally:
            os.umask(mask)
        self._server = await asyncio.start_unix_server(self._connected, sock=sock)
        os.replace(aside, path)  # whoever finds the path can connect: it listens already

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if (
            peer_uid(writer.get_extra_info("socket")) != os.getuid()
            or len(self._connections) >= FRONT_DOOR_CONNECTIONS_MAX
        ):
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            log.debug("a client went away")
        finally:
            self._connections.discard(task)
            self.last_used = asyncio.get_running_loop().time()
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = FrameParser()
        answers = _Answers(writer)
        while data := await reader.read(READ_BYTES):
            try:
                for message, _ in parser.feed(data):
                    await self._request(message, answers)
            except WireError as error:
                # What is no message leaves no way to find the next one: answer and close.
                await answers.send({"error": error.to_data(), "last": True})
                return

    async def _request(self, message: Mapping[str, Any], answers: _Answers) -> None:
        try:
            op, fields = _read(message)
            async for answer in self._desk.serve(op, fields):
                await answers.send(answer)
        except DulyError as error:
            await answers.send({"error": error.to_data(), "last": True})
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as problem:
            log.exception("a request failed")
            fault = RuntimeFault(
                "runtime.internal", f"The harness failed with {type(problem).__name__}; see its log."
            )
            await answers.send({"error": fault.to_data(), "last": True})


def _read(message: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    op, version = message.get("op"), message.get("version")
    if type(op) is not str:
        raise WireError("wire.bad_request", "A request names its op.")
    if version != __version__ and op != "down":
        raise RuntimeFault(
            "runtime.version",
            f"This command is of version {version}, the runtime of version {__version__}.",
            hint="Stop the runtime with `duly down`; the next command starts one of its own version.",
        )
    return op, {name: value for name, value in message.items() if name not in ("op", "version")}


class _Answers:
    """Answers on their way to one client. Those that are given at one go leave in one write: a group has hundreds."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._parts: list[bytes] = []
        self._bytes = 0

    async def send(self, answer: Answer) -> None:
        """Raises ``ConnectionError`` where the client has gone."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client has gone")
        try:
            parts = frame(dict(answer))
        except WireError as error:
            parts = frame({"error": error.to_data(), "last": True})
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._flush)  # runs when nothing more comes at this go
        self._parts += parts
        self._bytes += sum(map(len, parts))
        if answer.get("last") or self._bytes > WRITE_BYTES:
            self._flush()
            await self._writer.drain()

    def _flush(self) -> None:
        if self._parts:
            self._writer.write(b"".join(self._parts))
            self._parts, self._bytes = [], 0
