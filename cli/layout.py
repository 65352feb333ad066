"""Text laid out for 80 columns: paragraphs, tables, times. Every text from elsewhere is made readable here.

Nothing carries meaning by colour alone; there is bold type on a terminal, and none with ``NO_COLOR``.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterable, Sequence

from duly.protocol.authority.printable import COLUMNS as COLUMNS
from duly.protocol.authority.printable import readable, width_of

LAST_COLUMN_MIN = 20  # of a table, in columns
LABEL = 10  # the column of labels in front of progress and summaries


def paragraph(text: str, first: str = "", then: str | None = None) -> list[str]:
    """A text as lines of at most 80 columns, broken between words; a word that fits on no line is cut.

    ``first`` stands before the first line, ``then`` before the others (as many blanks, if not given).
    """
    then = " " * width_of(first) if then is None else then
    lines: list[str] = []
    line, empty = first, True
    for word in readable(text).split(" "):
        while True:
            room = COLUMNS - width_of(line) - (0 if empty else 1)
            if width_of(word) <= room:
                line, empty = line + ("" if empty else " ") + word, False
                break
            if empty:
                cut = _fitting(word, room)
                lines.append(line + word[:cut])
                word = word[cut:]
            else:
                lines.append(line)
            line, empty = then, True
    return [*lines, line]


def labelled(label: str, text: str, width: int = LABEL) -> list[str]:
    """A paragraph with a label in front, in bold where that is possible."""
    first = padded(readable(label), width)
    lines = paragraph(text, first, " " * width)
    return [bold(first) + lines[0][len(first) :], *lines[1:]]


def _fitting(word: str, room: int) -> int:
    """How many characters of a word fit into ``room`` columns; at least one, so that every line gets on."""
    used = 0
    for index, character in enumerate(word):
        used += width_of(character)
        if used > room:
            return max(index, 1)
    return len(word)


def shortened(text: str, width: int) -> str:
    """A text on one line of at most ``width`` columns; ``...`` says that it goes on."""
    text = readable(" ".join(text.split()))
    return text if width_of(text) <= width else text[: _fitting(text, max(width - 3, 1))] + "..."


def padded(text: str, width: int) -> str:
    return text + " " * max(0, width - width_of(text))


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "", *, whole: bool = False
) -> list[str]:
    """A table of at most 80 columns; its last column takes what the others leave. No rows give no lines.

    With ``whole`` the last column goes on below itself instead of being cut off.
    """
    cells = [list(head), *([readable(" ".join(cell.split())) for cell in row] for row in rows)]
    if len(cells) == 1:
        return []
    widths = [max(width_of(row[index]) for row in cells) for index in range(len(head) - 1)]
    while sum(widths) + 2 * len(widths) + len(indent) > COLUMNS - LAST_COLUMN_MIN:
        widest = max(widths)
        widths[widths.index(widest)] = widest - 1
    room = COLUMNS - len(indent) - sum(widths) - 2 * len(widths)
    lines = []
    for row in cells:
        left = "".join(
            padded(shortened(cell, width), width) + "  " for cell, width in zip(row, widths, strict=False)
        )
        if whole:
            lines += [line.rstrip() for line in paragraph(row[-1], indent + left)]
        else:
            lines.append((indent + left + shortened(row[-1], room)).rstrip())
    return [bold(lines[0]), *lines[1:]]


def bold(text: str) -> str:
    """A heading: bold on a terminal that wants it, else as it is."""
    return f"\x1b[1m{text}\x1b[0m" if is_styled() else text


def is_styled() -> bool:
    """Whether standard output is a terminal that has not been told to stay plain (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def moment(time_ms: int) -> str:
    """A time of day for a person: local, to the second."""
    return datetime.datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def utc(time_ms: int) -> str:
    """RFC 3339 in UTC, to the millisecond: the time of an event for a script."""
    at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(milliseconds: float, *, whole: bool = False) -> str:
    """``0.21 s``, ``48 s``, ``3 min 20 s``; ``whole`` seconds for what is still going on."""
    seconds = milliseconds // 1000 if whole else milliseconds / 1000
    if seconds < 10 and not whole:
        return f"{seconds:.2f} s"
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def count(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
