"""A command that serves until it is told to end: Ctrl-C, SIGTERM and a closed terminal are one wish, taken once.

The signal must not raise where it happens to land: it makes a socket readable that the command waits for.
"""

from __future__ import annotations

import signal
import socket
from types import FrameType, TracebackType
from typing import Any, Self

WISHES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndSignals:
    """While entered, the signals are taken; ``fileno`` is readable from the first on, and ``wished`` says so."""

    def __init__(self) -> None:
        self.wished = False
        self._reader, self._writer = socket.socketpair()
        self._before: dict[signal.Signals, Any] = {}

    def fileno(self) -> int:
        return self._reader.fileno()

    def __enter__(self) -> Self:
        for wish in WISHES:
            if signal.getsignal(wish) != signal.SIG_IGN:  # under nohup a closed terminal means nothing
                self._before[wish] = signal.signal(wish, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for wish, before in self._before.items():
            signal.signal(wish, before)
        self._reader.close()
        self._writer.close()

    def _take(self, number: int, frame: FrameType | None) -> None:
        if not self.wished:
            self.wished = True
            self._writer.send(b"!")
