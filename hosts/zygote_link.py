"""The host's end of the zygote's control socket: orders out, exits of workers in."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgpack

from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.limits import STOP_GRACE_SECONDS

from . import confinement
from .zygote import PACKET_BYTES_MAX

Exited = Callable[[int, int], None]  # number of the worker, wait status
Lost = Callable[[], None]


class ZygoteLink:
    """The host's end of the zygote's control socket."""

    def __init__(self, control: socket.socket, process: asyncio.subprocess.Process) -> None:
        self._control = control
        self._process = process
        self.lost = False

    @classmethod
    async def start(cls, home: str, exited: Exited, lost: Lost) -> ZygoteLink:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "duly.hosts.zygote", str(theirs.fileno()),
                pass_fds=[theirs.fileno()], env=confinement.clean_environment(home), cwd="/",
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        ours.setblocking(False)
        link = cls(ours, process)
        asyncio.get_running_loop().add_reader(ours, link._readable, exited, lost)
        return link

    def send(self, order: Mapping[str, Any], fd: int | None = None) -> None:
        """Orders are a few hundred bytes and rare, and the zygote reads at once: a full buffer means that it is gone."""
        try:
            socket.send_fds(self._control, [msgpack.packb(order)], [fd] if fd is not None else [])
        except OSError as error:
            raise RuntimeFault(
                "runtime.zygote_lost", f"The zygote does not answer: {error.strerror}."
            ) from None

    async def close(self) -> None:
        """Closing the socket makes the zygote end its workers and itself."""
        if not self.lost:
            self._stop()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_GRACE_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _readable(self, exited: Exited, lost: Lost) -> None:
        try:
            data = self._control.recv(PACKET_BYTES_MAX)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._stop()
            lost()
            return
        event = msgpack.unpackb(data)
        exited(event["worker"], event["status"])

    def _stop(self) -> None:
        self.lost = True
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
