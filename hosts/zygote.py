"""The warm process from which workers are forked, and which ends them with everything that they started.

A host starts one zygote by exec, so no key of the host is in its memory, and talks to it over a sequenced-packet socket:

    host → zygote   {"op": "spawn", "worker": n, "preload": [module, …], "scratch": folder}  with one end of a socket pair
                    {"op": "kill", "worker": n}
    zygote → host   {"event": "exit", "worker": n, "status": wait status}

Only the zygote signals processes: it is their parent, so an id that it signals cannot have been given to somebody else.
It adopts orphans; what a dead worker has left behind, in whatever session, is killed before the exit is reported. When
the host goes away, so does everything here.

Run as ``python -m duly.hosts.zygote FD``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
from typing import Any, NoReturn

import msgpack

from . import confinement

PACKET_BYTES_MAX = 1 << 16


class Zygote:
    """Single-threaded on purpose: a fork of a threaded process can deadlock."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: dict[int, int] = {}  # process id → worker number
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)

    def run(self) -> None:
        """Serves until the host closes its end."""
        signal.signal(signal.SIGCHLD, _noted)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        try:
            while True:
                for fd, _ in poll.poll():
                    if fd == self._wake:
                        self._drain()
                    elif not self._serve():
                        return
        finally:
            self._end_all()

    def _serve(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, PACKET_BYTES_MAX, 1)
        if not data:
            return False
        order = msgpack.unpackb(data, raw=False)
        if order["op"] == "spawn":
            self._spawn(order, fds[0])
        else:
            self._kill(order["worker"])
        return True

    def _spawn(self, order: dict[str, Any], fd: int) -> None:
        for name in order["preload"]:
            if name not in sys.modules:
                # A package that is not installed is the tool's business: it will say so when it is called.
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_worker(order, fd, own)
        os.close(fd)
        self._workers[pid] = order["worker"]

    def _become_worker(self, order: dict[str, Any], fd: int, parent: int) -> NoReturn:
        """In the child. Never returns into the zygote's loop."""
        status = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            confinement.die_with_parent(parent)
            os.close(self._wake)
            os.close(self._waker)
            self._control.close()
            null = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(null, standard)
            os.close(null)
            os.chdir(order["scratch"])
            confinement.harden()
            confinement.bound_worker()
            from . import worker

            worker.serve(socket.socket(fileno=fd), order["scratch"])
            status = 0
        finally:
            os._exit(status)

    def _kill(self, worker: int) -> None:
        for pid, number in self._workers.items():
            if number == worker:
                self._kill_group(pid)

    def _kill_group(self, pid: int) -> None:
        # The group exists as soon as the child has called setsid; before that the child alone is everything.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 512):
                continue
        ended = self._reap()
        if ended:
            confinement.end_descendants(spare=self._workers)
        for _, worker, status in ended:
            packet = msgpack.packb({"event": "exit", "worker": worker, "status": status})
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._control.send(packet)

    def _reap(self) -> list[tuple[int, int, int]]:
        """Collects every child that has ended; gives those that were workers. Their groups go while the id is taken."""
        ended = []
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if found is None:
                break
            worker = self._workers.pop(found.si_pid, None)
            if worker is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(found.si_pid, signal.SIGKILL)
            _, status = os.waitpid(found.si_pid, 0)
            if worker is not None:
                ended.append((found.si_pid, worker, status))
        return ended

    def _end_all(self) -> None:
        signal.set_wakeup_fd(-1)
        for pid in self._workers:
            self._kill_group(pid)
        self._workers.clear()
        confinement.end_descendants()


def _noted(number: int, frame: object) -> None:
    """The wake-up descriptor does the work; a handler of our own is what makes Python write to it."""


def main() -> None:
    """Entry of ``python -m duly.hosts.zygote FD``."""
    fd = int(sys.argv[1])
    confinement.harden()
    confinement.adopt_orphans()
    confinement.close_other_files([fd])
    from . import worker  # noqa: F401  (loaded here once, so that each fork has it)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Zygote(socket.socket(fileno=fd)).run()


if __name__ == "__main__":
    main()
