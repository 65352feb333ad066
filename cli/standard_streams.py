"""The three standard streams of a process, whatever its parent left of them."""

from __future__ import annotations

import os
import sys

from duly.protocol.wire.errors import RequestError


def open_all() -> None:
    """Gives back streams that came closed, so that no file of duly's own takes their numbers and is written over.

    Raises ``RequestError`` ``request.no_output`` where standard output is one of them: what a command shows, above all
    what it signs, has to go somewhere. Whoever wants none of it says so, with ``> /dev/null``.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        raise RequestError(
            "request.no_output",
            "Standard output is closed, so nothing could be shown.",
            hint="Send it somewhere, to /dev/null for instance.",
        )
