"""On which line each key of a TOML text stands; ``tomllib`` does not say.

Reads only what is needed for that: table headers, keys, and where values end. On a text that ``tomllib`` accepts every
key outside of inline tables and arrays is found; nothing here ever fails.
"""

from __future__ import annotations

import re

from .places import Path

_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*""")


def lines_of(text: str) -> dict[Path, int]:
    """Path of every table and key → its line, counted from 1; ``()`` is line 1."""
    found: dict[Path, int] = {(): 1}
    counts: dict[Path, int] = {}
    table: Path = ()
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index].strip()
        if line.startswith("["):
            table = _header(line, counts)
            for length in range(1, len(table) + 1):
                found.setdefault(table[:length], index + 1)
        elif line and not line.startswith("#"):
            key, rest = _keys(line)
            if key and rest.startswith("="):
                for length in range(1, len(key) + 1):
                    found.setdefault((*table, *key[:length]), index + 1)
                index = _value_end(lines, index, lines[index].index("=") + 1)
        index += 1
    return found


def _header(line: str, counts: dict[Path, int]) -> Path:
    is_list = line.startswith("[[")
    keys, _ = _keys(line[2:] if is_list else line[1:])
    path: Path = ()
    for position, key in enumerate(keys):
        path = (*path, key)
        if is_list and position == len(keys) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _keys(text: str) -> tuple[tuple[str, ...], str]:
    """The dotted key at the start of a text, and what follows it."""
    keys: list[str] = []
    while match := _KEY.match(text):
        word = match.group(1)
        keys.append(word[1:-1] if word[0] in "\"'" else word)
        text = text[match.end() :]
        if not text.startswith("."):
            break
        text = text[1:]
    return tuple(keys), text


def _value_end(lines: list[str], index: int, column: int) -> int:
    """The line on which a value that begins at (line, column) ends: brackets closed, long texts closed."""
    depth, quote = 0, ""
    while index < len(lines):
        depth, quote = _scan(lines[index][column:], depth, quote)
        if depth <= 0 and len(quote) < 3:
            return index
        index, column = index + 1, 0
    return len(lines) - 1


def _scan(text: str, depth: int, quote: str) -> tuple[int, str]:
    """Bracket depth and open quote after one line of a value."""
    position = 0
    while position < len(text):
        here = text[position]
        if quote:
            if here == "\\" and quote[0] == '"':
                position += 1
            elif text.startswith(quote, position):
                position += len(quote) - 1
                quote = ""
        elif here in "\"'":
            quote = here * 3 if text.startswith(here * 3, position) else here
            position += len(quote) - 1
        elif here == "#":
            break
        elif here in "[{":
            depth += 1
        elif here in "]}":
            depth -= 1
        position += 1
    return depth, quote if len(quote) == 3 else ""
