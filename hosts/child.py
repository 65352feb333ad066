"""A process that the supervisor starts, watches and ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.limits import CHILD_BACKOFF_SECONDS_MAX, STOP_GRACE_SECONDS

from . import confinement, secrets

_BACKOFF_SECONDS_MIN = 0.1
_STEADY_SECONDS = 10.0  # up this long, a child's next end counts as its first


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to start, and what its end means.

    ``argv`` may hold ``{config_fd}`` (an inherited file with ``handed``), ``{ready_fd}`` (write a byte there when ready;
    without it a child counts as ready when it has started) and ``{parent}`` (the supervisor's process id). ``env`` is
    the whole environment. ``restart``: ``always``; ``stop`` (the supervisor stops when it ends); ``never``.
    ``warded`` puts a warden in between, for a command that leaves processes of its own behind.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    restart: Literal["always", "stop", "never"] = "always"
    handed: bytes | None = None
    ready_seconds_max: float = 60.0
    stop_seconds_max: float = STOP_GRACE_SECONDS
    warded: bool = False


class Child:
    """One child over all its incarnations. ``ended`` is set each time that the present one is gone."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.ended = asyncio.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._lifeline = -1
        self._started = 0.0
        self._backoff = _BACKOFF_SECONDS_MIN

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None else None

    @property
    def backoff_seconds(self) -> float:
        """How long to wait before the next start: twice as long each time that it did not stay up."""
        if time.monotonic() - self._started > _STEADY_SECONDS:
            self._backoff = _BACKOFF_SECONDS_MIN
        wait, self._backoff = self._backoff, min(self._backoff * 2, CHILD_BACKOFF_SECONDS_MAX)
        return wait

    async def start(self) -> None:
        """Starts it and waits until it is ready. Raises ``RuntimeFault``: ``runtime.child_failed``, ``…_late``."""
        self.ended.clear()
        ready, told = os.pipe()
        config = secrets.hand_over(self.spec.handed) if self.spec.handed is not None else -1
        try:
            self._launch(config, told)
        finally:
            os.close(told)
            if config >= 0:
                os.close(config)
        try:
            if any("{ready_fd}" in part for part in self.spec.argv):
                await self._until_ready(ready)
        finally:
            os.close(ready)

    async def stop(self) -> None:
        """Asks politely, waits, kills; returns when it is gone."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.ended.wait(), self.spec.stop_seconds_max)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.ended.wait()

    def _launch(self, config: int, told: int) -> None:
        fds = [fd for fd in (config, told) if fd >= 0]
        values = {"{config_fd}": str(config), "{ready_fd}": str(told), "{parent}": str(os.getpid())}
        argv = [_filled(part, values) for part in self.spec.argv]
        lifeline = -1
        if self.spec.warded:
            lifeline, self._lifeline = os.pipe()
            argv = [sys.executable, "-P", "-m", "duly.hosts.warden", str(lifeline), "--", *argv]
            fds.append(lifeline)
        self._started = time.monotonic()
        try:
            self._process = subprocess.Popen(
                argv,
                env=dict(self.spec.env),
                pass_fds=fds,
                cwd="/",
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        except OSError as error:
            raise RuntimeFault(
                "runtime.child_failed",
                f"{self.spec.name} cannot be started ({error.strerror}).",
                place=argv[0],
            ) from None
        finally:
            if lifeline >= 0:
                os.close(lifeline)
        self._pidfd = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._gone)

    async def _until_ready(self, ready: int) -> None:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[bytes] = loop.create_future()

        def readable() -> None:
            loop.remove_reader(ready)
            if not answered.done():
                answered.set_result(os.read(ready, 1))

        loop.add_reader(ready, readable)
        try:
            said = await asyncio.wait_for(answered, self.spec.ready_seconds_max)
        except TimeoutError:
            await self.stop()
            raise RuntimeFault(
                "runtime.child_late",
                f"{self.spec.name} was not ready within {self.spec.ready_seconds_max:.0f} s.",
            ) from None
        finally:
            loop.remove_reader(ready)
        if not said:
            await self.stop()
            raise RuntimeFault("runtime.child_failed", f"{self.spec.name} ended before it was ready.")

    def _gone(self) -> None:
        assert self._process is not None
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        status = self._process.wait()
        print(
            f"{self.spec.name} (process {self._process.pid}) has ended: {_ending(status)}",
            file=sys.stderr,
            flush=True,
        )
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self._process = None
        self.ended.set()

    def _signal(self, number: int) -> None:
        """To its whole group, which has the child's id; the child was not waited for, so the id is still its own."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def _filled(part: str, values: Mapping[str, str]) -> str:
    for mark, value in values.items():
        part = part.replace(mark, value)
    return part


def _ending(status: int) -> str:
    return f"exit code {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"


def reap_adopted(known: Sequence[Child]) -> None:
    """Collects orphans that this process has adopted and that have ended."""
    own = {child.pid for child in known}
    for pid in confinement.children():
        if pid not in own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
