"""A tool host on its Unix socket. Started by the supervisor as ``python -m duly.hosts.server FD PARENT_PID [READY_FD]``.

``FD`` is an inherited file with the configuration (``config``). Every request is a map with ``op`` and ``id``; every
answer carries the ``id`` back, so many requests share one connection:

    hello                            → {host, class, keyid, epoch, pid}
    epoch     {statement}            → {epoch}
    describe  {package}              → {descriptors: [data, …]}
    run       {grants, mode, mandate?, approvals?, templates?} + one argument blob a grant
                                     → results {receipts, nonces, errors, outputs} + one blob an output … → done {}
    cancel    {run_id, force?}       → {cancelled}
    settle    {statement}            → results … → done {fates: {nonce: void | done | unknown}}

An answer has ``op`` ``ok``, ``results``, ``done`` or ``error`` (with the error as data). What is no message is answered
with a ``wire.*`` error and the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from duly.protocol.wire.errors import DulyError, RuntimeFault, WireError
from duly.protocol.wire.limits import HOST_CONNECTIONS_MAX, REQUESTS_PER_CONNECTION_MAX, SOCKET_PATH_BYTES_MAX

from . import confinement, secrets
from .config import HostConfig
from .dispatch import Dispatch
from .framing import READ_BYTES, FrameParser, Message, frame, peer_uid
from .host import Host


class Server:
    """Accepts connections of this user only and hands their requests to the host."""

    def __init__(self, host: Host) -> None:
        self._host = host
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
            await _Connection(self._host, reader, writer).serve()
        finally:
            del self._connections[writer]


class _Connection:
    """One peer: reads requests, runs each as a task, ends its reads when it goes away."""

    def __init__(self, host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._dispatches: set[Dispatch] = set()
        self._operations: dict[str, Callable[[Message, list[bytes]], Awaitable[None]]] = {
            "hello": self._hello,
            "epoch": self._epoch,
            "describe": self._describe,
            "run": self._run,
            "cancel": self._cancel,
            "settle": self._settle,
        }

    async def serve(self) -> None:
        parser = FrameParser()
        try:
            while data := await self._reader.read(READ_BYTES):
                for message, blobs in parser.feed(data):
                    if len(self._tasks) >= REQUESTS_PER_CONNECTION_MAX:
                        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    task = asyncio.create_task(self._answer(message, blobs))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except ConnectionError as problem:
            print(f"a connection was lost: {problem}", file=sys.stderr, flush=True)
        except WireError as problem:
            self._send({"op": "error", "id": 0, "error": problem.to_data()}, [])
        finally:
            self._dispatches_end()
            with contextlib.suppress(ConnectionError):
                self._writer.close()
                await self._writer.wait_closed()

    def _dispatches_end(self) -> None:
        """Nobody waits for these reads any more. An effect goes on: only its end says what it did."""
        for dispatch in self._dispatches:
            dispatch.cancel(force=False)

    async def _answer(self, message: Message, blobs: list[bytes]) -> None:
        number = message.get("id")
        try:
            if type(number) is not int:
                raise WireError("wire.bad_body", "A request has a whole number as its `id`.")
            operation = self._operations.get(str(message.get("op")))
            if operation is None:
                raise WireError("wire.unknown_kind", "There is no such operation here.")
            await operation(message, blobs)
        except DulyError as problem:
            number = number if type(number) is int else 0
            self._send({"op": "error", "id": number, "error": problem.to_data()}, [])
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def _send(self, message: Message, blobs: list[bytes]) -> None:
        if not self._writer.is_closing():
            self._writer.writelines(frame(message, blobs))

    async def _hello(self, message: Message, blobs: list[bytes]) -> None:
        self._send({"op": "ok", "id": message["id"], **self._host.hello()}, [])

    async def _epoch(self, message: Message, blobs: list[bytes]) -> None:
        statement = message.get("statement")
        answer = await self._host.take_epoch(statement if type(statement) is bytes else b"")
        self._send({"op": "ok", "id": message["id"], **answer}, [])

    async def _describe(self, message: Message, blobs: list[bytes]) -> None:
        descriptors = await self._host.describe(str(message.get("package")))
        self._send({"op": "ok", "id": message["id"], "descriptors": descriptors}, [])

    async def _run(self, message: Message, blobs: list[bytes]) -> None:
        begun: list[Dispatch] = []

        def note(dispatch: Dispatch) -> None:
            begun.append(dispatch)
            self._dispatches.add(dispatch)

        try:
            await self._host.run(message, blobs, self._send, note)
        finally:
            self._dispatches.difference_update(begun)
        self._send({"op": "done", "id": message["id"]}, [])

    async def _settle(self, message: Message, blobs: list[bytes]) -> None:
        statement = message.get("statement")
        again: list[tuple[Message, list[bytes]]] = []
        fates = await self._host.settle(
            statement if type(statement) is bytes else b"",
            lambda results, kept: again.append((results, kept)),
        )
        for results, kept in again:
            self._send({**results, "id": message["id"]}, kept)
        self._send({"op": "done", "id": message["id"], "fates": fates}, [])

    async def _cancel(self, message: Message, blobs: list[bytes]) -> None:
        cancelled = self._host.cancel(str(message.get("run_id")), force=message.get("force") is True)
        self._send({"op": "ok", "id": message["id"], "cancelled": cancelled}, [])


async def serve(config: HostConfig, ready_fd: int | None = None) -> None:
    """Runs a host until SIGTERM; writes a byte to ``ready_fd`` when its socket is open."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    host = Host(config)
    server = Server(host)
    try:
        await host.start()
        await server.listen(Path(config.socket))
        if ready_fd is not None:
            os.write(ready_fd, b"1")
            os.close(ready_fd)
        await stopped.wait()
        server.refuse_more()
        await host.drain()
    finally:
        await server.close()
        await host.close()
        Path(config.socket).unlink(missing_ok=True)


def main() -> None:
    """Entry of ``python -m duly.hosts.server FD PARENT_PID [READY_FD]``."""
    fd, parent = int(sys.argv[1]), int(sys.argv[2])
    confinement.harden()
    confinement.adopt_orphans()
    confinement.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is the supervisor's to handle
    config = HostConfig.decode(secrets.take_over(fd))
    ready_fd = int(sys.argv[3]) if len(sys.argv) > 3 else None
    confinement.close_other_files([] if ready_fd is None else [ready_fd])
    try:
        asyncio.run(serve(config, ready_fd))
    except DulyError as problem:
        print(problem, file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
