"""A command at a terminal of its own, or with pipes, as a person or a script would have it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

SECONDS_MAX = 30.0


class Terminal:
    """``duly`` with a pseudo-terminal as its standard streams. ``text`` is what it has printed so far."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        self.text = ""
        self._waited = 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "duly.cli.entry", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", **(environment or {})},
            start_new_session=True,
        )
        os.close(slave)

    def until(self, wanted: str) -> str:
        """Reads until a text has been printed after the last one that was waited for.

        Fails when the command ends or takes too long before that.
        """
        deadline = time.monotonic() + SECONDS_MAX
        while (found := self.text.find(wanted, self._waited)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{wanted!r} was not printed:\n{self.text}")
        self._waited = found + len(wanted)
        return self.text

    def type(self, text: str) -> None:
        os.write(self._master, text.encode("utf-8"))

    def interrupt(self) -> None:
        """What the terminal sends for Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Reads what is left and gives the exit code."""
        deadline = time.monotonic() + SECONDS_MAX
        while self._read(deadline):
            continue
        code = self.process.wait(SECONDS_MAX)
        os.close(self._master)
        return code

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            self.process.kill()
            raise AssertionError(f"nothing more came:\n{self.text}")
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other end is closed: the command has ended
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)
