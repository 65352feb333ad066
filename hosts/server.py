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
from functools import partial
from pathlib import Path

from . import hosted
from .config import HostConfig
from .connection import Connection, Server
from .dispatch import Dispatch
from .framing import Message
from .host import Host


class ToolConnection(Connection):
    """One executor or verifier: its dispatches, whose reads end when it goes away."""

    def __init__(self, host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._host = host
        self._dispatches: set[Dispatch] = set()
        self.operations = {
            "hello": self._hello,
            "epoch": self._epoch,
            "describe": self._describe,
            "run": self._run,
            "cancel": self._cancel,
            "settle": self._settle,
        }

    def left(self) -> None:
        """Nobody waits for these reads any more. An effect goes on: only its end says what it did."""
        for dispatch in self._dispatches:
            dispatch.cancel(force=False)

    async def _hello(self, message: Message, blobs: list[bytes]) -> None:
        self.send({"op": "ok", "id": message["id"], **self._host.hello()}, [])

    async def _epoch(self, message: Message, blobs: list[bytes]) -> None:
        statement = message.get("statement")
        answer = await self._host.take_epoch(statement if type(statement) is bytes else b"")
        self.send({"op": "ok", "id": message["id"], **answer}, [])

    async def _describe(self, message: Message, blobs: list[bytes]) -> None:
        descriptors = await self._host.describe(str(message.get("package")))
        self.send({"op": "ok", "id": message["id"], "descriptors": descriptors}, [])

    async def _run(self, message: Message, blobs: list[bytes]) -> None:
        begun: list[Dispatch] = []

        def note(dispatch: Dispatch) -> None:
            begun.append(dispatch)
            self._dispatches.add(dispatch)

        try:
            await self._host.run(message, blobs, self.send, note)
        finally:
            self._dispatches.difference_update(begun)
        self.send({"op": "done", "id": message["id"]}, [])

    async def _settle(self, message: Message, blobs: list[bytes]) -> None:
        statement = message.get("statement")
        again: list[tuple[Message, list[bytes]]] = []
        fates = await self._host.settle(
            statement if type(statement) is bytes else b"",
            lambda results, kept: again.append((results, kept)),
        )
        for results, kept in again:
            self.send({**results, "id": message["id"]}, kept)
        self.send({"op": "done", "id": message["id"], "fates": fates}, [])

    async def _cancel(self, message: Message, blobs: list[bytes]) -> None:
        cancelled = self._host.cancel(str(message.get("run_id")), force=message.get("force") is True)
        self.send({"op": "ok", "id": message["id"], "cancelled": cancelled}, [])


async def serve(config: HostConfig, ready_fd: int | None = None) -> None:
    """Runs a host until SIGTERM; writes a byte to ``ready_fd`` when its socket is open."""
    stopped = hosted.told_to_end()
    host = Host(config)
    server = Server(partial(ToolConnection, host))
    try:
        await host.start()
        await server.listen(Path(config.socket))
        hosted.say_ready(ready_fd)
        await stopped.wait()
        server.refuse_more()
        await host.drain()
    finally:
        await server.close()
        await host.close()
        Path(config.socket).unlink(missing_ok=True)


def main() -> None:
    """Entry of ``python -m duly.hosts.server FD PARENT_PID [READY_FD]``."""
    hosted.run(HostConfig, serve, adopts=True)


if __name__ == "__main__":
    main()
