"""Which of two months is the baseline and which the current one, from the words around them.

"X compared with / against / versus / than Y": X is current, Y the baseline. "from X to Y", "between X and Y": X is the
baseline, Y current. Without any such word the earlier month is the baseline.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .periods import Mention
from .words import Token

Order = Literal["current_first", "baseline_first", "by_time"]

_AGAINST = frozenset(
    "against versus vs v than relative unlike over above below under exceeding opposed contrast comparison".split()
)
_COMPARED = frozenset("compared comparing comparison relative versus vs against contrast unlike".split())
_ONWARD = frozenset("to until till through into onto".split())
_FROM = frozenset("from between since starting after".split())
_VERBS = frozenset("compare comparing comparison contrast".split())
_WINDOW_WORDS_MAX = 12  # how far before the first month a word may still be about the pair


@dataclass(frozen=True, slots=True)
class Pair:
    """What a text says of two months. ``current`` alone is one named month; ``too_many`` names the months of more."""

    current: Mention | None = None
    baseline: Mention | None = None
    order: Order = "current_first"
    too_many: tuple[str, ...] = ()


def pair_of(words: Sequence[Token], found: Sequence[Mention]) -> Pair:
    """The pair that a text means. A side is any kind of mention; ``by_time`` leaves the order to the dates."""
    useful = [mention for mention in found if mention.kind != "year"] or list(found)
    distinct = _distinct(words, useful)
    if not distinct:
        return Pair()
    if len(distinct) == 1:
        return _single(distinct[0])
    if len(distinct) > 2:
        return Pair(too_many=tuple(mention.text for mention in distinct[:12]))
    orders = [
        (left, right, _order(words, left, right))
        for left, right in itertools.pairwise(useful)
        if not _equal(left, right) or _contrasted(words, left, right)
    ]
    left, right, order = next((item for item in orders if item[2] != "by_time"), orders[0])
    if left.kind in ("month_before", "year_before"):
        return Pair(current=right, baseline=left)
    if right.kind in ("month_before", "year_before"):
        return Pair(current=left, baseline=right)
    left, right = _fullest(left, useful), _fullest(right, useful)
    if order == "baseline_first":
        return Pair(current=right, baseline=left, order=order)
    return Pair(current=left, baseline=right, order=order)


def _single(mention: Mention) -> Pair:
    if mention.kind in ("month_before", "year_before"):
        return Pair(baseline=mention)
    return Pair(current=mention)


def _distinct(words: Sequence[Token], found: Sequence[Mention]) -> list[Mention]:
    """Each month once. "June against June 2012" are two mentions to be told apart: the words around them say so."""
    distinct: list[Mention] = []
    for index, mention in enumerate(found):
        repeated = any(_equal(mention, other) for other in distinct)
        if not repeated or (index and _contrasted(words, found[index - 1], mention)):
            distinct.append(mention)
    return distinct


def _equal(left: Mention, right: Mention) -> bool:
    if left.kind == right.kind == "month":
        return left.same_month(right)
    return left.kind == right.kind and (left.kind != "year" or left.year == right.year)


def _contrasted(words: Sequence[Token], left: Mention, right: Mention) -> bool:
    """Whether the words between two mentions of one month, or before the first, set one against the other."""
    if not _equal(left, right):
        return False
    between = {word.text for word in words[left.end : right.start]}
    near = right.start - left.end <= 4 and bool(between & (_AGAINST | _COMPARED | _ONWARD))
    before = _before(words, left.start)
    ranged = before[-1:] in (["from"], ["between"]) and "and" in between
    return near or ranged or _compared_before(before[-2:])


def _fullest(mention: Mention, found: Sequence[Mention]) -> Mention:
    """The mention of the same month that names the year, where one does."""
    if mention.kind != "month" or mention.year is not None:
        return mention
    same = [
        other
        for other in found
        if other.kind == "month" and other.same_month(mention) and other.year is not None
    ]
    return same[0] if len({other.year for other in same}) == 1 else mention


def _order(words: Sequence[Token], left: Mention, right: Mention) -> Order:
    between = [word.text for word in words[left.end : right.start]]
    before = _before(words, left.start)
    near = before[-2:]
    opening = [word for word in before if word not in ("the", "month", "months", "of", "year")][-1:]
    named = _baseline_word(words, left, right)
    if named is not None:
        return named
    if set(between) & (_AGAINST | _COMPARED):
        return "current_first"
    if opening in (["between"], ["from"]):
        return "baseline_first"
    if _compared_before(near):
        return "baseline_first"  # "compared with May, June was worse"
    if set(before[-_WINDOW_WORDS_MAX:]) & _VERBS and set(between) & {"to", "with"}:
        return "current_first"  # "compare June to May"
    if set(between) & _ONWARD or _is_arrow(words, left, right):
        return "baseline_first"
    if set(between) & _FROM:
        return "current_first"  # "in June, down from May"
    if near and near[-1] in _FROM | {"than"}:
        return "baseline_first"
    return "by_time"


def _before(words: Sequence[Token], start: int) -> list[str]:
    """The words before a month, back to where its sentence begins."""
    found: list[str] = []
    index = start - 1
    while index >= 0 and len(found) < _WINDOW_WORDS_MAX and not words[index + 1].begins_sentence:
        found.append(words[index].text)
        index -= 1
    return found[::-1]


def _compared_before(near: Sequence[str]) -> bool:
    if near and near[-1] in ("against", "versus", "vs", "unlike"):
        return True
    return len(near) == 2 and near[0] in _COMPARED and near[1] in ("with", "to")


def _baseline_word(words: Sequence[Token], left: Mention, right: Mention) -> Order | None:
    """An explicit "baseline May" or "May as the baseline"."""
    sides: tuple[tuple[Mention, Order], ...] = ((left, "baseline_first"), (right, "current_first"))
    for mention, order in sides:
        before = [word.text for word in words[max(0, mention.start - 2) : mention.start]]
        after = [word.text for word in words[mention.end : mention.end + 3]]
        if "baseline" in before[-1:] or (before[-1:] in (["is"], ["of"], ["with"]) and "baseline" in before):
            return order
        if (
            after[:1] == ["baseline"]
            or after[:2] in (["as", "baseline"],)
            or after == ["as", "the", "baseline"]
        ):
            return order
    return None


def _is_arrow(words: Sequence[Token], left: Mention, right: Mention) -> bool:
    """``May → June``, ``May–June``: a dash or an arrow and nothing else between them."""
    if right.start != left.end:
        return False
    gap = words[right.start].gap.strip()
    return gap != "" and all(mark in "-–—>→⇒=" for mark in gap)
