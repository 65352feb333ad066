"""How a host serves its Unix socket: who may connect, and how requests and answers share one connection.

Every request is a map with ``op`` and ``id``; every answer carries the ``id`` back, so many requests share one
connection. What is no message is answered with a ``wire.*`` error and the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from duly.protocol.wire.errors import DulyError, RuntimeFault, WireError
from duly.protocol.wire.limits import HOST_CONNECTIONS_MAX, REQUESTS_PER_CONNECTION_MAX, SOCKET_PATH_BYTES_MAX

from .framing import READ_BYTES, FrameParser, Message, frame, peer_uid

Operation = Callable[[Message, list[bytes]], Awaitable[None]]


class Server:
    """Accepts connections of this user only. ``connect`` makes what serves one from its reader and writer."""

    def __init__(self, connect: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Connection]) -> None:
        self._connect = connect
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._listening: asyncio.Server | None = None

    async def listen(self, path: Path) -> None:
        """Binds the socket, removing a stale one: the supervisor's lock says that no other host serves it."""
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            raise RuntimeFault(
                "runtime.path_too_long", "The path of the socket is too long.", place=str(path)
            )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old = os.umask(0o177)  # the socket has mode 0600 from its first moment
        try:
            sock.bind(str(path))
        finally:
            os.umask(old)
        self._listening = await asyncio.start_unix_server(self._connected, sock=sock)

    def refuse_more(self) -> None:
        """Takes no further connection; those that are open stay."""
        if self._listening is not None:
            self._listening.close()

    async def close(self) -> None:
        """Closes what is open. Executors keep their connections for good, so nobody waits for them to leave."""
        self.refuse_more()
        tasks = list(self._connections.values())
        for writer in self._connections:
            writer.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        if peer_uid(sock) != os.getuid() or len(self._connections) >= HOST_CONNECTIONS_MAX:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections[writer] = task
        try:
            await self._connect(reader, writer).serve()
        finally:
            del self._connections[writer]


class Connection:
    """One peer: reads requests, runs each as a task. A host says which ``operations`` there are."""

    operations: Mapping[str, Operation]

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.tasks: set[asyncio.Task[None]] = set()

    def left(self) -> None:
        """The peer has gone. What is still under way for it is the host's to end."""

    async def serve(self) -> None:
        parser = FrameParser()
        try:
            while data := await self._reader.read(READ_BYTES):
                for message, blobs in parser.feed(data):
                    if len(self.tasks) >= REQUESTS_PER_CONNECTION_MAX:
                        await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
                    task = asyncio.create_task(self._answer(message, blobs))
                    self.tasks.add(task)
                    task.add_done_callback(self.tasks.discard)
        except ConnectionError as problem:
            print(f"a connection was lost: {problem}", file=sys.stderr, flush=True)
        except WireError as problem:
            self.send({"op": "error", "id": 0, "error": problem.to_data()}, [])
        finally:
            self.left()
            with contextlib.suppress(ConnectionError):
                self._writer.close()
                await self._writer.wait_closed()

    async def _answer(self, message: Message, blobs: list[bytes]) -> None:
        number = message.get("id")
        try:
            if type(number) is not int:
                raise WireError("wire.bad_body", "A request has a whole number as its `id`.")
            operation = self.operations.get(str(message.get("op")))
            if operation is None:
                raise WireError("wire.unknown_kind", "There is no such operation here.")
            await operation(message, blobs)
        except DulyError as problem:
            number = number if type(number) is int else 0
            self.send({"op": "error", "id": number, "error": problem.to_data()}, [])
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def send(self, message: Message, blobs: Sequence[bytes] = ()) -> None:
        if not self._writer.is_closing():
            self._writer.writelines(frame(message, blobs))
