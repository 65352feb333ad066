"""Stands between the supervisor and a command that starts processes of its own, and ends them all with either of them.

    python -m duly.hosts.warden LIFELINE_FD -- command …

Daemons that the command leaves behind (Ray's do) are adopted, so they can be found. When the supervisor dies, whatever
way, its end of the lifeline closes; when the command ends, so does its purpose: in both cases everything below here is
killed. SIGTERM and SIGINT go on to the command, which may end its own things first.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

from . import confinement


def main() -> None:
    """Entry of ``python -m duly.hosts.warden``; ends with the exit status of the command."""
    lifeline, command = int(sys.argv[1]), sys.argv[3:]
    confinement.adopt_orphans()
    wake, waker = os.pipe()
    for fd in (wake, waker):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, _noted)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    os.set_inheritable(lifeline, False)
    child = subprocess.Popen(command, process_group=0)

    def forward(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    status = _watch(child, lifeline, wake)
    signal.set_wakeup_fd(-1)
    confinement.end_descendants()
    raise SystemExit(status if status >= 0 else 128 - status)


def _watch(child: subprocess.Popen[bytes], lifeline: int, wake: int) -> int:
    """Waits for the end of the command or of the supervisor; gives the exit status to end with."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    poll.register(wake, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == lifeline:
                return 0
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 512)
        status = child.poll()
        if status is not None:
            return status
        _reap_adopted(child.pid)


def _reap_adopted(known: int) -> None:
    """Collects adopted processes that have ended, or they would stay in the process table."""
    for pid in confinement.children():
        if pid != known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _noted(number: int, frame: object) -> None:
    """The wake-up descriptor does the work; a handler of our own is what makes Python write to it."""


if __name__ == "__main__":
    main()
