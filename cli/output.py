"""What the command line prints: results on standard output, everything about itself on standard error."""

from __future__ import annotations

import base64
import json
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from duly.protocol.authority.printable import readable
from duly.protocol.wire.errors import DulyError, StorageError

from . import exit_codes
from .layout import paragraph

FAULTS_SHOWN_MAX = 50


def prepare() -> None:
    """Standard streams that never fail on a letter that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def say(lines: str | Iterable[str] = "") -> None:
    """Lines of a result. They were made readable when they were laid out."""
    for line in [lines] if isinstance(lines, str) else lines:
        print(line)
    sys.stdout.flush()


def emit(value: Any) -> None:
    """One JSON document on one line, ASCII only: nothing in it can reach the terminal as a control character."""
    print(json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=_plain), flush=True)


def note(text: str) -> None:
    """A sentence about what the command does, on standard error."""
    print("\n".join(paragraph(text, "duly: ", "      ")), file=sys.stderr, flush=True)


def fail(error: BaseException, *, debug: bool) -> int:
    """Says what went wrong (code, sentence, place, hint; a traceback only for ``--debug``) and gives the exit code."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    known = as_duly_error(error)
    for line in told(known):
        print(line, file=sys.stderr)
    sys.stderr.flush()
    return exit_codes.of_error(known)


def told(error: DulyError) -> list[str]:
    """An error as lines: the sentence with its code, then place, every fault, and what to do."""
    lines = paragraph(f"{error.message} [{error.code}]", "duly: ", "      ")
    if error.place:
        lines += paragraph(error.place, "      at ", "         ")
    if len(error.faults) > 1 or any(fault.message not in error.message for fault in error.faults):
        for fault in error.faults[:FAULTS_SHOWN_MAX]:
            lines += paragraph(str(fault), "      - ", "        ")
        if len(error.faults) > FAULTS_SHOWN_MAX:
            lines.append(f"      - and {len(error.faults) - FAULTS_SHOWN_MAX} more")
    for entry in error.story:
        lines += paragraph(entry, "      | ", "      | ")
    if error.hint:
        lines += paragraph(error.hint, "      ", "      ")
    return lines


def as_duly_error(error: BaseException) -> DulyError:
    """The error with a code: its own, or that of an operating system's refusal, or ``internal``."""
    if isinstance(error, DulyError):
        return error
    if isinstance(error, OSError):
        place = str(error.filename) if error.filename is not None else None
        return StorageError("storage.system", f"{error.strerror or type(error).__name__}.", place=place)
    message = f"Something in duly itself went wrong: {type(error).__name__}: {readable(str(error))}"
    return DulyError(
        "internal", message, hint="Run the command again with --debug and report what it prints."
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} has no JSON form")
