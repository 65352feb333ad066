"""The host's end of one worker's socket: messages out, answers to whoever waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from duly.protocol.wire.errors import WireError

from .framing import FrameParser, Message, frame

Answered = Callable[[Message | None, bytes], None]  # None: the worker is gone


class WorkerLink(asyncio.Protocol):
    """Answers are told apart by the ``id`` of their call; each call has one answer, or is lost with the worker."""

    def __init__(self) -> None:
        self._parser = FrameParser(canonical=False)
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, Answered] = {}
        self._number = 0
        self.lost = False

    def expect(self, answered: Answered) -> int:
        """A fresh id under which the worker's answer goes to ``answered``."""
        self._number += 1
        self._pending[self._number] = answered
        return self._number

    def expect_as(self, number: int, answered: Answered) -> None:
        """From now on the answer of a call that is under way goes to ``answered``."""
        self._pending[number] = answered

    def forget(self, number: int) -> None:
        """An answer that nobody waits for any more is dropped when it comes."""
        self._pending.pop(number, None)

    def send(self, message: Message, blobs: Sequence[bytes] = ()) -> None:
        if self._transport is None or self.lost:
            self._lose()
            return
        self._transport.writelines(frame(message, blobs, canonical=False))

    async def ask(self, message: Message, blobs: Sequence[bytes] = ()) -> tuple[Message | None, bytes]:
        """One message, one answer."""
        done: asyncio.Future[tuple[Message | None, bytes]] = asyncio.get_running_loop().create_future()

        def answered(answer: Message | None, output: bytes) -> None:
            if not done.done():
                done.set_result((answer, output))

        number = self.expect(answered)
        try:
            self.send({**message, "id": number}, blobs)
            return await done
        finally:
            self.forget(number)

    def close(self) -> None:
        """Closes the socket; whoever waits learns that the worker is lost."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
        self._lose()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for answer, blobs in self._parser.feed(data):
                answered = self._pending.pop(_id_of(answer), None)
                if answered is not None:
                    answered(answer, blobs[0] if blobs else b"")
        except WireError:
            self.close()  # a worker that does not speak the protocol is as good as dead; its calls are lost

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._lose()

    def _lose(self) -> None:
        pending, self._pending = self._pending, {}
        for answered in pending.values():
            answered(None, b"")


def _id_of(answer: dict[str, Any]) -> int:
    number = answer.get("id")
    return number if type(number) is int else -1
