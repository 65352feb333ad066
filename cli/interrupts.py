"""Ctrl-C while a run is followed: the first press is a wish to cancel, the second leaves at once.

The first press must not raise where it happens to land, in the middle of a message: it makes a socket readable that
the loop waits for together with the front door.
"""

from __future__ import annotations

import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """While entered, SIGINT is counted. ``fileno`` becomes readable at the first; the second is a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.pressed = 0
        self._reader, self._writer = socket.socketpair()
        self._before: Any = None

    def fileno(self) -> int:
        return self._reader.fileno()

    def taken(self) -> None:
        """The first press was seen: stop being readable."""
        self._reader.recv(16)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals to no other
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self._reader.close()
        self._writer.close()

    def _press(self, number: int, frame: FrameType | None) -> None:
        self.pressed += 1
        if self.pressed > 1:
            raise KeyboardInterrupt
        self._writer.send(b"!")
