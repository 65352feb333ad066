"""Texts as words: folded tokens with their place, phrases over them, and the words that carry no meaning of a package.

Everything here is linear in the length of the text and needs no clock, locale or dictionary on disk. Matching is over
whole words, without case and accents; a plural ``s`` is no difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_SENTENCE_END = re.compile(r"[.!?;\n]")
T = TypeVar("T")

FUNCTION_WORDS = frozenset(
    """a about above across again all also although am an and any are as ask at be because been before being below
    besides both but by can cannot could d did do does doing done down during each either else etc every few for from
    further get gets give given gives go had has have having he her here him his how however i if in instead into is it
    its itself just kindly know let like ll look many may me might mine more most much must my need neither no nor not
    now of off on once one only onto or other our out over own per please put rather re really s said same say says see
    seen shall she should show since so some still such t tell than thank thanks that the their them then there these
    they this those though through thus to too toward towards under until up upon us use used ve versus very via vs
    want wanted was we well were what whatever when where whether which while who whom whose why will wish with within
    without wonder would yes yet you your""".split()
)
# What people add to a question about a number without changing it.
FILLERS = frozenset(
    """according actual actually all altogether amount approximately around available average basically calculate
    compute correct count counted current data dataset exact exactly figure find flew hello hey hi in just many month
    months number numbers overall please precise precisely quick quickly report roughly simply stand table thanks time
    total totally value values year hundred percent percentage points recorded observed altogether happened occur
    occurred period""".split()
)
# English words of at most three letters that codes also spell; see `is_code_like`.
SHORT_WORDS = frozenset(
    """a add ago aid aim air all am an and any are art as ask at ate bad bag bar be bed big bit box boy bus but buy by
    can car cat cut dad day dec den did die do dog due ear eat end eye far fat few fit fix fly for fun gas get go god
    got gun guy had has hat he her hey hi him his hit hot how i if in ind is it its job key kid las law lay led let lie
    lot low mad man map may me men met mix mom my net new no nor not now nut oak odd of off oh oil ok old on one or our
    out owe own pay per pit put ran raw red rid run sad sat saw say sea see set she sit six so son sun tax tea ten the
    tie to too top try two up us use van via was way we wet who why win yes yet you""".split()
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word: folded, as written, what stands before it, and its place in the text."""

    text: str
    written: str
    gap: str
    start: int
    end: int

    @property
    def stem(self) -> str:
        return stem(self.text)

    @property
    def begins_sentence(self) -> bool:
        return self.start == 0 or _SENTENCE_END.search(self.gap) is not None

    @property
    def is_capitalised(self) -> bool:
        return self.written[:1].isupper()

    @property
    def number(self) -> int | None:
        """The value of a word of at most four ASCII digits."""
        return int(self.text) if len(self.text) <= 4 and self.text.isascii() and self.text.isdigit() else None


def fold(text: str) -> str:
    """A text without case and accents."""
    if text.isascii():
        return text.lower()
    bare = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in bare if not unicodedata.combining(c))


def stem(word: str) -> str:
    """A folded word without a plural ``s``."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def tokens(text: str) -> list[Token]:
    """The words of a text in order. White space, punctuation and ``_`` part words; accents written apart do not."""
    found: list[Token] = []
    last = 0
    for match in _WORD.finditer(text):
        folded = fold(match.group())
        if folded:
            found.append(Token(folded, match.group(), text[last : match.start()], match.start(), match.end()))
            last = match.end()
    return found


@lru_cache(maxsize=16_384)
def stems_of(phrase: str) -> tuple[str, ...]:
    """The words of a phrase of a package, as they are compared. Packages say the same phrases at every request."""
    return tuple(token.stem for token in tokens(phrase))


def is_shouted(found: Sequence[Token]) -> bool:
    """Whether a text has no lower-case letters, so that capitals tell nothing."""
    return not any(c.islower() for token in found for c in token.written)


def span_text(found: Sequence[Token], start: int, end: int) -> str:
    """Words ``start`` to ``end`` (excluded) as they were written, at most 60 characters."""
    text = " ".join(token.written for token in found[start:end])
    return text if len(text) <= 60 else text[:59] + "…"


class Phrases(Generic[T]):
    """Phrases of whole words → values. One phrase may mean several things, one thing have several phrases."""

    def __init__(self) -> None:
        self._table: dict[tuple[str, ...], list[T]] = {}
        self._lengths: dict[str, list[int]] = {}

    def add(self, phrase: str, value: T) -> None:
        """A phrase without any word is left out."""
        key = stems_of(phrase)
        if not key:
            return
        held = self._table.setdefault(key, [])
        if value not in held:
            held.append(value)
        lengths = self._lengths.setdefault(key[0], [])
        if len(key) not in lengths:
            lengths.append(len(key))
            lengths.sort(reverse=True)

    def at(self, stems: Sequence[str], start: int) -> tuple[int, list[T]]:
        """(words, values) of the longest phrase that begins at a word; ``(0, [])`` where none does."""
        for length in self._lengths.get(stems[start], ()):
            key = tuple(stems[start : start + length])
            held = self._table.get(key)
            if held is not None and len(key) == length:
                return length, held
        return 0, []

    def items(self) -> Iterable[tuple[tuple[str, ...], list[T]]]:
        return self._table.items()


def contains(stems: Sequence[str], phrases: Iterable[str]) -> bool:
    """Whether one of the phrases stands in a text."""
    table: Phrases[bool] = Phrases()
    for phrase in phrases:
        table.add(phrase, True)
    return any(table.at(stems, index)[0] for index in range(len(stems)))
