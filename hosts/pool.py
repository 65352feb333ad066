"""The workers of one host: started when needed, kept warm, killed at a deadline.

A worker belongs to one (package, tool server), so it sees the secrets of that server and no others. An *exclusive*
worker has one message at a time; a *shared* one (tools declared ``concurrent``) has as many as it has threads.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duly.protocol.wire.errors import ToolError, error_from_data
from duly.protocol.wire.limits import (
    CONCURRENT_CALLS_PER_WORKER_MAX,
    PACKAGE_OPEN_SECONDS_MAX,
    WORKER_IDLE_SECONDS,
    WORKERS_IDLE_MAX,
    WORKERS_PER_HOST_MAX,
)

from .worker_link import WorkerLink
from .zygote_link import ZygoteLink


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """Which calls may go to a worker: of this package snapshot and this tool server ("" for all, for describing)."""

    package: str
    server: str


@dataclass(slots=True, eq=False)
class PooledWorker:
    number: int
    kind: WorkerKind
    shared: bool
    link: WorkerLink
    scratch: str
    busy: int = 0
    doomed: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Task[None] | None = None
    idle_timer: asyncio.TimerHandle | None = field(default=None)


class WorkerPool:
    """``borrow`` a worker, talk over its ``link``; a worker that was killed or died is not handed out again."""

    def __init__(self, scratch: Path, home: str) -> None:
        self._scratch = scratch
        self._home = home
        self._zygote: ZygoteLink | None = None
        self._workers: dict[int, PooledWorker] = {}
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()
        self._number = 0
        self._starting = asyncio.Lock()
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)

    async def start(self) -> None:
        """Starts the zygote, so that the first call does not wait for it."""
        await self._running_zygote()

    @contextlib.asynccontextmanager
    async def borrow(
        self,
        kind: WorkerKind,
        *,
        opening: Mapping[str, Any],
        preload: tuple[str, ...] = (),
        shared: bool = False,
    ) -> AsyncIterator[PooledWorker]:
        """A worker of a kind for one message; waits while too many run. ``opening`` is what a new one is told first."""
        worker = await self._take(kind, opening, preload, shared)
        try:
            assert worker.opened is not None
            await asyncio.shield(worker.opened)
            yield worker
        finally:
            self._give_back(worker)

    def kill(self, worker: PooledWorker) -> None:
        """Ends a worker with everything that it has started; its pending calls fail as lost."""
        worker.doomed = True
        if self._zygote is not None and not self._zygote.lost:
            self._zygote.send({"op": "kill", "worker": worker.number})

    async def close(self) -> None:
        """Ends every worker and the zygote."""
        if self._zygote is not None:
            await self._zygote.close()
        for worker in list(self._workers.values()):
            self._forget(worker)
        shutil.rmtree(self._scratch, ignore_errors=True)

    async def _take(
        self, kind: WorkerKind, opening: Mapping[str, Any], preload: tuple[str, ...], shared: bool
    ) -> PooledWorker:
        while True:
            worker = self._free(kind, shared)
            if worker is not None:
                break
            if len(self._workers) < WORKERS_PER_HOST_MAX or self._evict_idle():
                worker = self._spawn(kind, opening, preload, shared)
                break
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        return worker

    def _free(self, kind: WorkerKind, shared: bool) -> PooledWorker | None:
        room = CONCURRENT_CALLS_PER_WORKER_MAX if shared else 1
        for worker in self._workers.values():
            fits = (
                worker.kind == kind and worker.shared == shared and not worker.doomed and not worker.link.lost
            )
            if fits and worker.busy < room:
                self._occupy(worker)
                return worker
        return None

    def _occupy(self, worker: PooledWorker) -> None:
        worker.busy += 1
        if worker.idle_timer is not None:
            worker.idle_timer.cancel()
            worker.idle_timer = None

    def _evict_idle(self) -> bool:
        for worker in self._workers.values():
            if worker.busy == 0 and not worker.doomed:
                self._retire(worker)
                return True
        return False

    def _spawn(
        self, kind: WorkerKind, opening: Mapping[str, Any], preload: tuple[str, ...], shared: bool
    ) -> PooledWorker:
        """Counted at once, ready when its task ``opened`` is done: others may share it before that."""
        self._number += 1
        scratch = tempfile.mkdtemp(prefix=f"{self._number}-", dir=self._scratch)
        worker = PooledWorker(self._number, kind, shared, WorkerLink(), scratch, busy=1)
        self._workers[worker.number] = worker
        worker.opened = asyncio.create_task(self._open(worker, opening, preload))
        return worker

    async def _open(self, worker: PooledWorker, opening: Mapping[str, Any], preload: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                zygote = await self._running_zygote()
                order = {
                    "op": "spawn",
                    "worker": worker.number,
                    "preload": list(preload),
                    "scratch": worker.scratch,
                }
                zygote.send(order, theirs.fileno())
            ours.setblocking(False)
            await asyncio.get_running_loop().create_connection(lambda: worker.link, sock=ours)
            question = worker.link.ask({"op": "open", "concurrent": worker.shared, **opening})
            answer, _ = await asyncio.wait_for(question, PACKAGE_OPEN_SECONDS_MAX)
        except TimeoutError:
            self._discard(worker)
            raise ToolError("tool.package_broken", "Loading the package's tools does not end.") from None
        except BaseException:
            ours.close()
            self._discard(worker)
            raise
        if answer is None or answer["outcome"] != "ok":
            self._discard(worker)
            if answer is None:
                raise ToolError("tool.package_broken", "Loading the package's tools ended its process.")
            raise error_from_data({"code": answer["code"], "message": answer["message"]})

    async def _running_zygote(self) -> ZygoteLink:
        async with self._starting:
            if self._zygote is None or self._zygote.lost:
                self._zygote = await ZygoteLink.start(self._home, self._exited, self._zygote_lost)
            return self._zygote

    def _discard(self, worker: PooledWorker) -> None:
        self.kill(worker)
        self._forget(worker)

    def _give_back(self, worker: PooledWorker) -> None:
        worker.busy -= 1
        if worker.busy == 0 and not worker.doomed and not worker.link.lost:
            idle = [one for one in self._workers.values() if one.busy == 0 and not one.doomed]
            if len(idle) > WORKERS_IDLE_MAX:
                self._retire(idle[0])
            else:
                loop = asyncio.get_running_loop()
                worker.idle_timer = loop.call_later(WORKER_IDLE_SECONDS, self._retire, worker)
        self._wake_all()

    def _retire(self, worker: PooledWorker) -> None:
        """Ends a worker that has nothing to do. Killing is as clean as closing: it holds nothing."""
        if worker.busy == 0:
            self._discard(worker)

    def _forget(self, worker: PooledWorker) -> None:
        if worker.number in self._workers:
            self._bury(worker)
        worker.link.close()

    def _wake_all(self) -> None:
        """Everybody who waits looks again: several may share what has become free."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def _exited(self, number: int, status: int) -> None:
        """A worker has ended, with everything that it had started. Its last answers may still wait in the socket."""
        worker = self._workers.get(number)
        if worker is not None:
            self._bury(worker)

    def _zygote_lost(self) -> None:
        """Workers die with their zygote; the next call starts another."""
        for worker in list(self._workers.values()):
            self._bury(worker)

    def _bury(self, worker: PooledWorker) -> None:
        worker.doomed = True
        worker.gone.set()
        del self._workers[worker.number]
        if worker.idle_timer is not None:
            worker.idle_timer.cancel()
        shutil.rmtree(worker.scratch, ignore_errors=True)
        self._wake_all()
