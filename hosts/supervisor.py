"""The plain process of a node: starts the hosts, then what runs on them, restarts what dies, and ends it all.

    python -P -m duly.hosts.supervisor --home HOME

It holds the secrets of its launcher's environment and the hosts' keys in memory that no other process of this user may
read. Its children get an environment made from nothing, so a canary in the launcher's environment reaches none of them.
Hosts come first: their public keys are on disk before anything that has to check a receipt is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from duly.protocol.wire.errors import DulyError, RuntimeFault

from . import confinement
from .child import Child, ChildSpec, reap_adopted
from .installation import Installation, host_children, model_children, runtime_children


class Supervisor:
    """Starts children in order, keeps them up, stops them in reverse order."""

    def __init__(self, children: Sequence[ChildSpec]) -> None:
        self._children = [Child(spec) for spec in children]
        self._stopped = asyncio.Event()
        self._failed = False

    def stop(self) -> None:
        """Asks ``run`` to end everything and return."""
        self._stopped.set()

    def processes(self) -> dict[str, int]:
        """Name → process id of the children that run."""
        return {child.spec.name: child.pid for child in self._children if child.pid is not None}

    async def run(self) -> int:
        """Runs until it is stopped or a child ends that nothing works without; gives the exit status."""
        confinement.adopt_orphans()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, reap_adopted, self._children)
        watches: list[asyncio.Task[None]] = []
        try:
            for child in self._children:
                if not await self._started(child):
                    break
                watches.append(asyncio.create_task(self._keep(child)))
            await self._stopped.wait()
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            for child in reversed(self._children):
                await child.stop()
            loop.remove_signal_handler(signal.SIGCHLD)
            confinement.end_descendants()
        return 1 if self._failed else 0

    async def _started(self, child: Child) -> bool:
        """Whether it is up; a stop while it starts counts as no."""
        start = asyncio.create_task(child.start())
        stop = asyncio.create_task(self._stopped.wait())
        await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not start.done():
            start.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await start
            return False
        try:
            await start
        except RuntimeFault as fault:
            print(fault, file=sys.stderr, flush=True)
            self._failed = True
            self._stopped.set()
            return False
        return not self._stopped.is_set()

    async def _keep(self, child: Child) -> None:
        while True:
            await child.ended.wait()
            if child.spec.restart == "never":
                return
            if child.spec.restart == "stop":
                self._failed = True
                self._stopped.set()
                return
            await asyncio.sleep(child.backoff_seconds)
            try:
                await child.start()
            except RuntimeFault as fault:
                print(fault, file=sys.stderr, flush=True)
                child.ended.set()  # a start that failed is an end: the next try waits longer


@contextlib.contextmanager
def held(installation: Installation) -> Iterator[None]:
    """The lock of the one supervisor of a data directory, with its process id.

    Raises ``RuntimeFault`` ``runtime.held``. The kernel lets go of the lock however this process ends, so a file that
    is left behind means nothing.
    """
    run = installation.run
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(run / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            raise RuntimeFault(
                "runtime.held",
                f"The runtime of this data directory is held by process {holder}.",
                place=str(installation.home),
                hint="Use it, or stop it with `duly down`.",
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode("ascii"))
        pid_file = run / "supervisor.pid"
        pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
        for stale in run.glob("*.sock"):
            stale.unlink(missing_ok=True)  # nobody listens: who did had this lock
        try:
            yield
        finally:
            pid_file.unlink(missing_ok=True)
    finally:
        os.close(fd)


async def supervise(children: Sequence[ChildSpec]) -> int:
    """Runs a supervisor until SIGTERM or SIGINT; gives the exit status."""
    supervisor = Supervisor(children)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    return await supervisor.run()


def main(argv: Sequence[str] | None = None) -> None:
    """Entry of ``python -m duly.hosts.supervisor --home HOME``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 2 or arguments[0] != "--home":
        raise SystemExit("usage: python -m duly.hosts.supervisor --home HOME")
    confinement.harden()
    try:
        installation = Installation(Path(os.path.abspath(arguments[1])))
        with held(installation):
            children = [
                *host_children(installation, os.environ),
                *model_children(installation, os.environ),
                *runtime_children(installation, os.environ),
            ]
            raise SystemExit(asyncio.run(supervise(children)))
    except DulyError as problem:
        print(problem, file=sys.stderr, flush=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
