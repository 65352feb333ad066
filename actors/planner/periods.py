"""Months in a text. No clock is asked: "last month" is a mention that only a person can date."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from duly.protocol.plan.semantics import MONTHS

from .words import Token, fold

MentionKind = Literal["month", "month_before", "year_before", "relative", "unsupported", "year"]
_NUMBERS = {fold(name): number for number, name in enumerate(MONTHS, start=1)}
_NUMBERS |= {name[:3]: number for name, number in list(_NUMBERS.items())} | {"sept": 9}
_NAMES = tuple(fold(name) for name in MONTHS)
_MISSPELT_CHARS_MIN = 5
_MISSPELT_RATIO_MIN = 0.8
# Names of months that are everyday words too.
_EVERYDAY = frozenset(("may", "march", "mar"))
_CONNECTORS = frozenset(
    "against versus vs v compared compare than with relative and or to until through".split()
)
_BEFORE_MONTH = _CONNECTORS | frozenset(
    "in of from between for since over during after before by last early late mid this next both".split()
)
_AFTER_VERB = frozenset("be have not we i you also well seem as it".split())
_RELATIVE = frozenset("last previous past this current next prior preceding coming".split())
_UNITS = frozenset("month week year quarter day weekend".split())
_CLOCK = frozenset("yesterday today tomorrow recently lately nowadays".split())
_PARTS = frozenset("q1 q2 q3 q4 h1 h2 quarter summer winter spring autumn".split())
_YEAR_MIN, _YEAR_MAX = 1900, 2100
_EARLIER = frozenset("before earlier prior previously".split())


@dataclass(frozen=True, slots=True)
class Mention:
    """A period at words ``start`` to ``end`` (excluded). ``has_day`` says that a day of that month was named."""

    kind: MentionKind
    start: int
    end: int
    text: str
    year: int | None = None
    month: int = 0
    has_day: bool = False

    def same_month(self, other: Mention) -> bool:
        """Whether both may mean one month: a year that only one of them names is no difference."""
        years = {self.year, other.year} - {None}
        return self.month == other.month and len(years) <= 1


def mentions(
    words: Sequence[Token], taken: Sequence[bool], *, shouted: bool = False, lenient: bool = False
) -> list[Mention]:
    """Every mention of a period, in order; words that are ``taken`` by another meaning are left alone."""
    found: list[Mention] = []
    index = 0
    while index < len(words):
        mention = None
        if not taken[index]:
            mention = (
                _numeric(words, index)
                or _named(words, index, shouted, lenient)
                or _spoken(words, index)
                or _year_alone(words, index)
                or _misspelt(words, index)
            )
        if mention is not None:
            found.append(mention)
        index = mention.end if mention is not None else index + 1
    return found


def _made(
    words: Sequence[Token],
    kind: MentionKind,
    start: int,
    end: int,
    year: int | None = None,
    month: int = 0,
    has_day: bool = False,
) -> Mention:
    text = words[start].written + "".join(word.gap + word.written for word in words[start + 1 : end])
    return Mention(kind, start, end, text, year, month, has_day)


def _year(words: Sequence[Token], index: int) -> int | None:
    """The year at a word: ``2013``, or ``'13``."""
    if not 0 <= index < len(words):
        return None
    number = words[index].number
    if number is None:
        return None
    if len(words[index].text) == 4 and _YEAR_MIN <= number <= _YEAR_MAX:
        return number
    if len(words[index].text) == 2 and words[index].gap.endswith(("'", "’")):
        return 2000 + number
    return None


def _joined(words: Sequence[Token], index: int) -> bool:
    return index < len(words) and words[index].gap in ("-", "/", ".")


def _numeric(words: Sequence[Token], index: int) -> Mention | None:
    """``2013-06``, ``2013/6``, ``06/2013``, and dates, whose day is noted."""
    if not _joined(words, index + 1) or words[index].number is None:
        return None
    year, month = _year(words, index), words[index + 1].number
    if year is not None and month is not None and len(words[index + 1].text) <= 2:
        has_day = _joined(words, index + 2) and _day(words, index + 2)
        if 1 <= month <= 12:
            return _made(words, "month", index, index + (3 if has_day else 2), year, month, has_day)
        return None
    month, year = words[index].number, _year(words, index + 1)
    if year is not None and month is not None and 1 <= month <= 12 and len(words[index].text) <= 2:
        return _made(words, "month", index, index + 2, year, month)
    return None


def _named(words: Sequence[Token], index: int, shouted: bool, lenient: bool) -> Mention | None:
    """``June``, ``June 2013``, ``Jun of '13``, ``2013 June``, ``8 June``, ``June 8th``."""
    start = index
    leading = _year(words, index)
    if leading is not None and index + 1 < len(words) and words[index + 1].text in _NUMBERS:
        if words[index + 1].gap.strip(" ,"):
            return None
        index += 1
    month = _NUMBERS.get(words[index].text)
    if month is None:
        return None
    end = index + 1
    year = leading
    day = False
    if leading is None and _day(words, index - 1):
        day, start = True, index - 1
    elif leading is None and index >= 2 and words[index - 1].text == "of" and _day(words, index - 2, True):
        day, start = True, index - 2
    if year is None and _day(words, end) and not words[end].begins_sentence and words[end].gap in (" ", "-"):
        day, end = True, end + 1
    if year is None:
        after = end + 1 if end < len(words) and words[end].text == "of" else end
        year = _year(words, after)
        if year is not None and not words[after].begins_sentence:
            end = after + 1
        else:
            year = None
    surely = year is not None or lenient
    if not surely and words[index].text in _EVERYDAY and not _means_month(words, index, shouted):
        return None
    return _made(words, "month", start, end, year, month, bool(day))


def _day(words: Sequence[Token], index: int, ordinal: bool = False) -> bool:
    """Whether a word is a day of a month: 1 to 31, or 1st to 31st."""
    if not 0 <= index < len(words):
        return False
    text = words[index].text
    digits = text[:-2] if text.endswith(("st", "nd", "rd", "th")) else "" if ordinal else text
    return digits.isascii() and digits.isdigit() and len(digits) <= 2 and 1 <= int(digits) <= 31


def _means_month(words: Sequence[Token], index: int, shouted: bool) -> bool:
    """Whether ``may`` or ``march`` is the month here: by its capital, or by the words around it."""
    word = words[index]
    before = words[index - 1].text if index else ""
    after = words[index + 1].text if index + 1 < len(words) else ""
    if after in _AFTER_VERB:
        return False
    if word.is_capitalised and not shouted and not word.begins_sentence:
        return True
    near = after in _CONNECTORS or after in _NUMBERS or before in _NUMBERS
    return (before in _BEFORE_MONTH and not word.begins_sentence) or near or len(words) == 1


def _spoken(words: Sequence[Token], index: int) -> Mention | None:
    """``last month``, ``the month before``, ``a year earlier``, ``the same month of last year``, ``yesterday``, ``Q2``."""
    here = words[index].text
    after = words[index + 1].text if index + 1 < len(words) else ""
    if here == "same" and after == "month":
        for end in range(index + 3, min(len(words), index + 6) + 1):
            if words[end - 1].text == "year" and words[end - 2].text in _RELATIVE:
                return _made(words, "year_before", index, end)
            if words[end - 1].text in _EARLIER and words[end - 2].text == "year":
                return _made(words, "year_before", index, end)
    if here in ("month", "year") and after in _EARLIER:
        return _made(words, "month_before" if here == "month" else "year_before", index, index + 2)
    if here in ("previous", "preceding", "prior") and after in ("month", "year"):
        return _made(words, "month_before" if after == "month" else "year_before", index, index + 2)
    if here in _RELATIVE and after in _UNITS:
        return _made(words, "relative", index, index + 2)
    if here in _UNITS and after == "ago":
        return _made(words, "relative", index, index + 2)
    if here in _CLOCK:
        return _made(words, "relative", index, index + 1)
    if here in _PARTS and not (here == "spring" and words[index].begins_sentence):
        return _made(words, "unsupported", index, index + 1)
    return None


def _year_alone(words: Sequence[Token], index: int) -> Mention | None:
    year = _year(words, index)
    before = words[index - 1].text if index else ""
    if year is None or before not in _BEFORE_MONTH | {"year", "calendar"}:
        return None
    return _made(words, "year", index, index + 1, year)


def _misspelt(words: Sequence[Token], index: int) -> Mention | None:
    """``Febuary``, ``Smarch``: where a month would stand and a word stands that is almost one."""
    word = words[index].text
    if not index or len(word) < _MISSPELT_CHARS_MIN or words[index - 1].text not in _BEFORE_MONTH:
        return None
    return _made(words, "unsupported", index, index + 1) if _almost_month(word) else None


@lru_cache(maxsize=4_096)
def _almost_month(word: str) -> bool:
    near = [name for name in _NAMES if abs(len(name) - len(word)) <= 2]
    return any(difflib.SequenceMatcher(None, word, name).ratio() >= _MISSPELT_RATIO_MIN for name in near)
