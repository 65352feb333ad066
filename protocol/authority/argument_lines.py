"""Arguments as lines for a person: every value on a line of its own, with its whole path, nothing left out.

    | carrier = "B6"
    | filters[0].dimension = "origin"
    | detail = text of 2 lines and 31 characters
    | 1: "first line\\n"
    | 2: "and the second"
    | rate <- output of step s1 at /rows/0/rate

Each line begins with ``| `` and each continuation of a long one with ``|>``; nothing else in a rendering begins with
``|``. Texts are quoted and escaped, so no text can end its line, start another or pose as a number or a reference.
Different values give different lines.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .printable import escape, quoted, units, wrapped

LINE = "| "
CONTINUED = "|>"
_PLAIN_CHARS_MAX = 240  # a longer text says how long it is before it begins
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


def value_lines(value: Any, name: str = "") -> list[str]:
    """The lines of a value made of canonical or tagged data. ``name`` is the path's first part, duly's own word."""
    lines: list[str] = []
    for path, leaf in leaves(value, tuple(name)):
        lines.extend(leaf_lines(path, leaf))
    return lines


Path = tuple[str, ...]  # units, so that a line is never broken inside the escape of a key


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every (path, leaf): scalars, references, empty containers and lists of scalars are leaves."""
    if type(value) is dict and value and not _is_reference(value) and hidden_text(value) is None:
        for key in sorted(value):
            part = list(key) if _BARE_KEY.match(key) else quoted(key)
            yield from leaves(value[key], (*path, ".", *part) if path else tuple(part))
    elif type(value) is list and not all(_is_short(item) for item in value):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, *f"[{index}]"))
    else:
        yield path, value


def text_lines(text: str) -> list[str]:
    """The lines of one text that stands alone, such as an objective."""
    return leaf_lines((), text)


def hidden_text(value: Any) -> str | None:
    """The text of a ``$text`` tag (not in normal form, so kept as base64), for an approver must not see base64."""
    if type(value) is not dict or set(value) != {"$text"} or type(value["$text"]) is not str:
        return None
    try:
        data = base64.b64decode(value["$text"], validate=True)
        text = data.decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return None
    return text if base64.b64encode(data).decode("ascii") == value["$text"] else None


def leaf_lines(path: Path, leaf: Any, sign: str = "") -> list[str]:
    """The lines of one leaf; ``sign`` (``+ `` or ``- `` of a difference) stands before the path."""
    mark = " <- " if _is_reference(leaf) else " = "
    head = [*sign, *path, *(mark if path else "")]
    hidden = hidden_text(leaf)
    text = leaf if type(leaf) is str else hidden
    if text is None:
        return wrapped(head + _pieces(leaf), LINE, CONTINUED)
    if hidden is not None:
        head += [*"text outside normal form "]
    if "\n" not in text and len(text) <= _PLAIN_CHARS_MAX:
        return wrapped(head + quoted(text), LINE, CONTINUED)
    return _block(head, text)


def _block(head: list[str], text: str) -> list[str]:
    rows = text.split("\n")
    parts = [row + "\n" for row in rows[:-1]] + ([rows[-1]] if rows[-1] else [])
    noun = "line" if len(parts) == 1 else "lines"
    count = f"text of {len(parts):,} {noun} and {len(text):,} characters"
    lines = wrapped(head + list(count), LINE, CONTINUED)
    digits = len(str(len(parts)))
    for number, part in enumerate(parts, 1):
        lines.extend(wrapped(quoted(part), f"{LINE}{number:>{digits}}: ", CONTINUED + " " * (digits + 2)))
    return lines


def _pieces(leaf: Any) -> list[str]:
    if type(leaf) is str:
        return quoted(leaf)
    if _is_reference(leaf):
        step, _, pointer = leaf["$ref"].partition("#")
        return [*"output of step ", *units(step), *" at ", *(units(pointer) or "/")]
    if type(leaf) is list:
        return [*"[", *_joined(leaf), *"]"]
    if leaf is None or type(leaf) is bool:
        return list({None: "null", True: "true", False: "false"}[leaf])
    if type(leaf) is bytes:
        return list(f"{len(leaf):,} bytes, base64 {base64.b64encode(leaf).decode('ascii')}")
    if type(leaf) in (int, float):
        return list(repr(leaf))
    if leaf == {}:
        return list("{}")
    raise TypeError(f"{type(leaf).__name__} is no canonical value")


def _joined(items: Sequence[Any]) -> Iterator[str]:
    for index, item in enumerate(items):
        if index:
            yield from ", "
        yield from _pieces(item)


def _is_short(item: Any) -> bool:
    """Whether an item may stand in a list on one line: a number, a truth value, null, or a text of a few words."""
    return item is None or type(item) in (bool, int, float) or (type(item) is str and len(escape(item)) <= 40)


def _is_reference(value: Any) -> bool:
    return type(value) is dict and set(value) == {"$ref"} and type(value["$ref"]) is str
