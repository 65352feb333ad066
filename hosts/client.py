"""How executors and verifiers talk to a host: one connection, many requests on it, a new one when it was lost.

host = HostClient(path)
async for group in host.run(grants, arguments, mode="concurrent"):
    group.receipts, group.nonces, group.outputs, group.errors
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.wire.errors import RuntimeFault, ToolError, WireError, error_from_data

from .framing import READ_BYTES, Frame, FrameParser, Message, frame, peer_uid


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """Some results of a dispatch: the signed receipts, outputs by nonce, and what failed calls said by nonce."""

    receipts: bytes
    nonces: list[str]
    outputs: dict[str, bytes]
    errors: dict[str, dict[str, Any]]


class Channel:
    """A host by the path of its socket. Connects when it is first used, and again after the host was restarted."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._link: Link | None = None
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
            self._link = None

    async def connected(self) -> Link:
        """The open connection. Raises ``RuntimeFault`` ``runtime.host_unreachable``."""
        async with self._connecting:
            if self._link is None or self._link.lost:
                self._link = await Link.connect(self._path)
            return self._link


class HostClient(Channel):
    """A tool host.

    A request in flight when the connection is lost fails with ``RuntimeFault`` ``runtime.host_lost``: it may have run.
    """

    async def hello(self) -> Message:
        """Who the host is: ``host, class, keyid, epoch, pid``."""
        return await self._ask({"op": "hello"})

    async def take_epoch(self, statement: bytes) -> int:
        """Tells the host of a new harness (a signed ``EpochStatement``); gives the host's epoch afterwards."""
        return int((await self._ask({"op": "epoch", "statement": statement}))["epoch"])

    async def describe(self, package: str) -> list[Descriptor]:
        """The descriptors of every tool of a package snapshot."""
        answer = await self._ask({"op": "describe", "package": package})
        return [
            Descriptor.from_data(data, error=ToolError, code="tool.bad_descriptor", what="A descriptor")
            for data in answer["descriptors"]
        ]

    async def cancel(self, run_id: str, *, force: bool = False) -> int:
        """Ends what the host runs for a run; ``force`` ends effects too. Gives how many dispatches that concerned."""
        return int((await self._ask({"op": "cancel", "run_id": run_id, "force": force}))["cancelled"])

    async def run(
        self,
        grants: bytes,
        arguments: Sequence[bytes],
        *,
        mode: Literal["serial", "concurrent"],
        mandate: bytes | None = None,
        approvals: Sequence[bytes] = (),
        templates: Mapping[str, str] | None = None,
    ) -> AsyncIterator[ResultGroup]:
        """Runs granted calls; gives their results in groups as they finish.

        ``grants`` is the envelope of ``Grant.sign_all``, ``arguments`` one blob a grant. For effects: the submitter's
        signed mandate, the signed approvals, and by nonce the digest of the arguments as they stand in the plan where
        that differs from the resolved ones. Raises what the host refused the whole dispatch with.
        """
        message: Message = {
            "op": "run",
            "grants": grants,
            "mode": mode,
            "mandate": mandate,
            "approvals": list(approvals),
            "templates": dict(templates or {}),
        }
        link = await self.connected()
        number, answers = link.open()
        try:
            link.send({**message, "id": number}, arguments)
            while True:
                answer, blobs = checked(await answers.get())
                if answer["op"] == "done":
                    return
                yield _group(answer, blobs)
        finally:
            link.forget(number)

    async def settle(self, statement: bytes) -> tuple[dict[str, str], list[ResultGroup]]:
        """What became of grants (a signed ``Settlement``): fates by nonce, and the results of those that are done."""
        link = await self.connected()
        number, answers = link.open()
        groups: list[ResultGroup] = []
        try:
            link.send({"op": "settle", "id": number, "statement": statement})
            while True:
                answer, blobs = checked(await answers.get())
                if answer["op"] == "done":
                    return dict(answer["fates"]), groups
                groups.append(_group(answer, blobs))
        finally:
            link.forget(number)

    async def _ask(self, message: Message) -> Message:
        link = await self.connected()
        number, answers = link.open()
        try:
            link.send({**message, "id": number})
            return checked(await answers.get())[0]
        finally:
            link.forget(number)


def _group(answer: Message, blobs: list[bytes]) -> ResultGroup:
    outputs = dict(zip(answer["outputs"], blobs, strict=True))
    return ResultGroup(answer["receipts"], answer["nonces"], outputs, answer["errors"])


class Link:
    """One connection to a host: a reader that hands each answer to the request with its id."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._open: dict[int, asyncio.Queue[Frame | None]] = {}
        self._number = 0
        self.lost = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, path: Path) -> Link:
        try:
            reader, writer = await asyncio.open_unix_connection(path)
        except OSError as error:
            raise RuntimeFault(
                "runtime.host_unreachable", f"The host does not answer ({error.strerror}).", place=str(path)
            ) from None
        if peer_uid(writer.get_extra_info("socket")) != os.getuid():
            writer.close()
            raise RuntimeFault("runtime.foreign_host", "The socket belongs to another user.", place=str(path))
        return cls(reader, writer)

    def open(self) -> tuple[int, asyncio.Queue[Frame | None]]:
        self._number += 1
        queue: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._open[self._number] = queue
        return self._number, queue

    def forget(self, number: int) -> None:
        self._open.pop(number, None)

    def send(self, message: Message, blobs: Sequence[bytes] = ()) -> None:
        if self.lost:
            raise _lost()
        self._writer.writelines(frame(message, blobs))

    async def close(self) -> None:
        self._writer.close()
        await self._reading

    async def _read(self) -> None:
        parser = FrameParser()
        try:
            while data := await self._reader.read(READ_BYTES):
                for message, blobs in parser.feed(data):
                    queue = self._open.get(message.get("id", 0))
                    if queue is not None:
                        queue.put_nowait((message, blobs))
                    elif message.get("op") == "error":  # about the connection itself: everybody hears it
                        for one in self._open.values():
                            one.put_nowait((message, blobs))
        except (ConnectionError, WireError):
            self._writer.close()
        finally:
            self.lost = True
            self._writer.close()
            for queue in self._open.values():
                queue.put_nowait(None)


def checked(received: Frame | None) -> Frame:
    """The answer that came; raises the host's error, or ``runtime.host_lost`` where the connection ended."""
    if received is None:
        raise _lost()
    message, _ = received
    if message["op"] == "error":
        raise error_from_data(message["error"])
    return received


def _lost() -> RuntimeFault:
    return RuntimeFault("runtime.host_lost", "The host went away before it answered; the calls may have run.")
