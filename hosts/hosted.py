"""How every host process begins: closed off first, then told who it is, then on its socket until SIGTERM.

    python -m MODULE FD PARENT_PID [READY_FD]

``FD`` is an inherited file with the configuration; a byte is written to ``READY_FD`` when the socket is open.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from duly.protocol.wire.errors import DulyError

from . import confinement, secrets
from .handed import Handed

C = TypeVar("C", bound=Handed)


def run(
    config_of: type[C], serve: Callable[[C, int | None], Coroutine[Any, Any, None]], *, adopts: bool
) -> None:
    """The life of the process; with ``adopts`` it ends the descendants that lose their parents. Status 1, and the reason
    on standard error, where it cannot serve."""
    fd, parent = int(sys.argv[1]), int(sys.argv[2])
    confinement.harden()
    if adopts:
        confinement.adopt_orphans()
    confinement.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is the supervisor's to handle
    config = config_of.decode(secrets.take_over(fd))
    ready_fd = int(sys.argv[3]) if len(sys.argv) > 3 else None
    confinement.close_other_files([] if ready_fd is None else [ready_fd])
    try:
        asyncio.run(serve(config, ready_fd))
    except DulyError as problem:
        print(problem, file=sys.stderr)
        raise SystemExit(1) from None


def told_to_end() -> asyncio.Event:
    """Set at SIGTERM, from now on."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    return stopped


def say_ready(ready_fd: int | None) -> None:
    """Tells whoever waits that the socket is open."""
    if ready_fd is not None:
        os.write(ready_fd, b"1")
        os.close(ready_fd)
