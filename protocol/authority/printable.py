"""Text from elsewhere, made harmless before a person reads it.

Two strengths. ``escape`` is for what somebody signs: printable ASCII stays, everything else becomes ``\\u{202e}``, and a
letter of another script stands with its escape beside it (``é\\u{e9}``). A backslash is doubled, so the text can be
read back and two different texts never look alike. ``readable`` is for everything else that is printed: letters,
digits and signs of other scripts stay as they are; what moves a cursor, reorders, hides or joins is escaped as well.

Letters of right-to-left scripts are escaped alone: a terminal that knows the bidirectional algorithm would move their
neighbours. So are letters without ink (Hangul fillers) and combining marks. What is a letter is asked of Unicode 3.2,
which every Python carries unchanged: the same bytes give the same text everywhere, also in ten years.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from unicodedata import ucd_3_2_0 as ucd

COLUMNS = 80
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Hangul fillers and vowels that join, two Mongolian marks, the soft hyphen and the blank Braille pattern.
_WITHOUT_INK = frozenset((*range(0x115F, 0x1200), 0x3164, 0xFFA0, 0x1885, 0x1886, 0xAD, 0x2800))
_KEPT_SIGNS = frozenset(("Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "So"))
_BREAK_WITHIN = 30  # columns at the end of a line in which a blank is looked for


def escape(text: str) -> str:
    """The text in the form that an approver signs; see the module's docstring."""
    return "".join(units(text))


def units(text: str) -> list[str]:
    """``escape`` character by character, so that a line is never broken inside an escape."""
    return [_unit(character) for character in text]


def quoted(text: str) -> list[str]:
    """The units of a text in double quotes; a quote inside is escaped, so the closing one is the last."""
    return ['"', *('\\"' if unit == '"' else unit for unit in units(text)), '"']


def readable(text: str) -> str:
    """The text for reading: printable signs of all left-to-right scripts stay, the rest is escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_readable(character) for character in text)


def is_plain_letter(character: str) -> bool:
    """Whether a character beyond ASCII is a letter that has ink and does not reorder its neighbours."""
    return (
        ucd.category(character)[0] == "L"
        and ucd.bidirectional(character) == "L"
        and ord(character) not in _WITHOUT_INK
    )


def columns(unit: str) -> int:
    """The width of one unit on a terminal: East Asian wide letters take two columns."""
    return len(unit) + (0 if unit.isascii() else sum(ucd.east_asian_width(c) in "WF" for c in unit))


def wrapped(pieces: Sequence[str], first: str, then: str) -> list[str]:
    """Units as lines of at most 80 columns, ``first`` before the first line and ``then`` before each further one.

    Breaks stand before a blank where one is near (a blank at the end of a line could not be seen), else anywhere
    between units. The lines without their prefixes, put together, are the pieces.
    """
    lines: list[str] = []
    prefix, start, used, blank = first, 0, len(first), -1
    for index, piece in enumerate(pieces):
        width = columns(piece)
        if used + width > COLUMNS:
            near = blank > start and width_of(pieces[blank:index]) <= _BREAK_WITHIN
            cut = blank if near else index
            lines.append(prefix + "".join(pieces[start:cut]))
            prefix, start, blank = then, cut, -1
            used = len(then) + width_of(pieces[cut:index])
        if piece == " ":
            blank = index
        used += width
    return [*lines, prefix + "".join(pieces[start:])]


def width_of(pieces: Iterable[str]) -> int:
    """The width of several units in columns."""
    return sum(columns(piece) for piece in pieces)


@lru_cache(maxsize=4096)
def _unit(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if " " <= character <= "~":
        return character
    mark = f"\\u{{{ord(character):x}}}"
    return character + mark if is_plain_letter(character) else mark


@lru_cache(maxsize=4096)
def _readable(character: str) -> str:
    if " " <= character <= "~":
        return character
    kept = is_plain_letter(character) or (
        ucd.category(character) in _KEPT_SIGNS
        and ucd.bidirectional(character) not in ("R", "AL", "AN")
        and ord(character) not in _WITHOUT_INK
    )
    return character if kept else _SHORT.get(character) or f"\\u{{{ord(character):x}}}"
