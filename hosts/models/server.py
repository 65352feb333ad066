"""A model host on its Unix socket. Started by the supervisor as ``python -m duly.hosts.models.server FD PARENT_PID [READY_FD]``.

``FD`` is an inherited file with the configuration (``config``). Framing and answers are those of the tool hosts
(``hosts/connection``):

    hello  {}                                → {host, pid}
    which  {package}                         → {model}        ``provider:name``, or "" where no model is set
    ask    {package, run_id, call, mandate}  → {use, value | error [, unfit]} + the bytes of the last request and its answer
    cancel {run_id [, ended_until_ms]}       → {cancelled}     with it the run makes no further call
    drop   {of}                              → {}             ends the request with this id: its answer is not wanted
    check  {package}                         → {model, mode, error?}

``call`` is a ``ModelCall``, ``use`` a ``ModelUse``; ``unfit`` is a value that breaks the call's schema, told with the
error so that the model can be shown what is wrong with it. A call whose peer goes away ends: nobody waits for it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from .. import hosted
from ..connection import Connection, Server
from ..framing import Message
from .config import ModelHostConfig
from .host import ModelHost


class ModelConnection(Connection):
    """One planner, verifier or doctor."""

    def __init__(self, host: ModelHost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._host = host
        self._asks: dict[int, asyncio.Task[None]] = {}
        self.operations = {
            "hello": self._hello,
            "which": self._which,
            "ask": self._ask,
            "cancel": self._cancel,
            "drop": self._drop,
            "check": self._check,
        }

    def left(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def _hello(self, message: Message, blobs: list[bytes]) -> None:
        self._tell(message, self._host.hello())

    async def _which(self, message: Message, blobs: list[bytes]) -> None:
        self._tell(message, self._host.which(str(message.get("package"))))

    async def _ask(self, message: Message, blobs: list[bytes]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._asks[message["id"]] = task
        try:
            answer, recorded = await self._host.ask(message)
        finally:
            del self._asks[message["id"]]
        self._tell(message, answer, recorded)

    async def _cancel(self, message: Message, blobs: list[bytes]) -> None:
        until = message.get("ended_until_ms")
        ended = until if type(until) is int else 0
        self._tell(message, {"cancelled": self._host.cancel(str(message.get("run_id")), ended)})

    async def _drop(self, message: Message, blobs: list[bytes]) -> None:
        of = message.get("of")
        if type(of) is int and of in self._asks:
            self._asks[of].cancel()
        self._tell(message, {})

    async def _check(self, message: Message, blobs: list[bytes]) -> None:
        self._tell(message, await self._host.check(str(message.get("package"))))

    def _tell(self, message: Message, answer: Message, blobs: list[bytes] | None = None) -> None:
        self.send({"op": "ok", "id": message["id"], **answer}, blobs or [])


async def serve(config: ModelHostConfig, ready_fd: int | None = None) -> None:
    """Runs a model host until SIGTERM; writes a byte to ``ready_fd`` when its socket is open."""
    stopped = hosted.told_to_end()
    host = ModelHost(config)
    server = Server(partial(ModelConnection, host))
    try:
        await server.listen(Path(config.socket))
        hosted.say_ready(ready_fd)
        await stopped.wait()
    finally:
        await server.close()
        await host.close()
        Path(config.socket).unlink(missing_ok=True)


def main() -> None:
    """Entry of ``python -m duly.hosts.models.server FD PARENT_PID [READY_FD]``."""
    hosted.run(ModelHostConfig, serve, adopts=False)


if __name__ == "__main__":
    main()
