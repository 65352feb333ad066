"""What of a package a text speaks of: metrics, months, dimensions, segments, and names that nothing stands behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .periods import Mention, mentions
from .vocabulary import Segment, Vocabulary
from .words import FUNCTION_WORDS, SHORT_WORDS, Phrases, Token, is_shouted, tokens

GAPPED_WORDS_MAX = 4  # words that may stand inside of "flights … were scheduled"
_FROM = ("from", "departing", "leaving")
_TO = ("to", "into", "towards", "toward")
_JOINING = frozenset("and or nor with against versus vs than to compared".split())
_BEFORE_CODE = frozenset(
    (*_FROM, *_TO, "for", "of", "at", "in", "with", "by", "and", "or", "versus", "vs", "against")
)


@dataclass(frozen=True, slots=True)
class Named:
    """A metric or dimension at words ``start`` to ``end`` (excluded)."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ValueMention:
    """A segment at words ``start`` to ``end``; several candidates where the text leaves the dimension open."""

    candidates: tuple[Segment, ...]
    start: int
    end: int


@dataclass(slots=True)
class Findings:
    """A text with everything that was recognised in it. ``taken`` marks the words that have a meaning."""

    words: list[Token]
    stems: list[str]
    shouted: bool
    taken: list[bool]
    metrics: list[Named] = field(default_factory=list)
    dimensions: list[Named] = field(default_factory=list)
    values: list[ValueMention] = field(default_factory=list)
    periods: list[Mention] = field(default_factory=list)

    def metric_names(self) -> list[str]:
        return list(dict.fromkeys(found.name for found in self.metrics))

    def dimension_names(self) -> list[str]:
        return list(dict.fromkeys(found.name for found in self.dimensions))

    def take(self, start: int, end: int) -> None:
        self.taken[start:end] = [True] * (end - start)

    def is_free(self, start: int, end: int) -> bool:
        return end <= len(self.taken) and not any(self.taken[start:end])

    def word(self, index: int) -> str:
        """The folded word at an index, ``""`` outside."""
        return self.words[index].text if 0 <= index < len(self.words) else ""


def recognise(text: str, vocabulary: Vocabulary | None, *, lenient: bool = False) -> Findings:
    """Everything that a text names. ``lenient`` is for an answer to a question: a lone ``may`` is the month."""
    words = tokens(text)
    found = Findings(words, [word.stem for word in words], is_shouted(words), [False] * len(words))
    if vocabulary is not None:
        _metrics(found, vocabulary.metrics)
    found.periods = mentions(words, found.taken, shouted=found.shouted, lenient=lenient)
    for mention in found.periods:
        found.take(mention.start, mention.end)
    if vocabulary is not None:
        _segments(found, vocabulary, lenient)
        _settle_joined(found)
    return found


def _metrics(found: Findings, phrases: Phrases[str]) -> None:
    index = 0
    while index < len(found.words):
        length, names = phrases.at(found.stems, index)
        if length:
            found.metrics.append(Named(names[0], index, index + length))
            found.take(index, index + length)
        index += length or 1
    if not found.metrics:
        _gapped(found, phrases)


def _gapped(found: Findings, phrases: Phrases[str]) -> None:
    """Phrases of two or more words with others in between: "flights from JFK were scheduled". The tightest ones win."""
    places: dict[str, list[int]] = {}
    for index, word in enumerate(found.stems):
        places.setdefault(word, []).append(index)
    best: list[tuple[list[int], str]] = []
    least = 0
    for phrase, names in phrases.items():
        for start in places.get(phrase[0], ()) if len(phrase) > 1 else ():
            picked = _subsequence(found, phrase, start)
            if picked is None:
                continue
            loose = picked[-1] - picked[0] - len(phrase)
            if not best or (loose, -len(phrase)) < (least, -len(best[0][0])):
                best, least = [], loose
            if loose == least and (not best or len(phrase) == len(best[0][0])):
                best.append((picked, names[0]))
    for picked, name in best:
        found.metrics.append(Named(name, picked[0], picked[0] + 1))
        for index in picked:
            found.take(index, index + 1)


def _subsequence(found: Findings, phrase: Sequence[str], start: int) -> list[int] | None:
    picked = [start]
    index = start + 1
    end = min(len(found.words), start + len(phrase) + GAPPED_WORDS_MAX)
    for word in phrase[1:]:
        while index < end and found.stems[index] != word:
            if found.words[index].begins_sentence:
                return None
            index += 1
        if index >= end or found.words[index].begins_sentence:
            return None
        picked.append(index)
        index += 1
    return picked


def _segments(found: Findings, words: Vocabulary, lenient: bool) -> None:
    """Dimensions and segments, the longest phrase first; "carrier DL" and "DL carrier" are one mention."""
    index = 0
    while index < len(found.words):
        if found.taken[index]:
            index += 1
            continue
        length, names = words.dimensions.at(found.stems, index)
        if length and not found.is_free(index, index + length):
            length = 0
        value_length, candidates = _value_at(found, words, index, lenient)
        if length >= value_length and length:
            index = _dimension(found, words, index, length, names[0])
        elif value_length:
            index = _value(found, words, index, value_length, candidates)
        else:
            index += 1


def _dimension(found: Findings, words: Vocabulary, start: int, length: int, name: str) -> int:
    after = start + length
    if after < len(found.words) and not found.words[after].begins_sentence:
        value_length, candidates = _any_value_at(found, words, after)
        own = tuple(segment for segment in candidates if segment.dimension == name)
        if own and _is_name(found, after, value_length, own):
            found.values.append(ValueMention(own, start, after + value_length))
            found.take(start, after + value_length)
            return after + value_length
    found.dimensions.append(Named(name, start, after))
    found.take(start, after)
    return after


def _is_name(found: Findings, start: int, length: int, own: Sequence[Segment]) -> bool:
    """Whether words after a dimension's name are its segment, not the sentence going on ("carrier as a whole")."""
    if length > 1 or found.words[start].text not in FUNCTION_WORDS | SHORT_WORDS:
        return True
    return any(found.words[start].written == segment.value for segment in own) and not found.shouted


def _value(found: Findings, words: Vocabulary, start: int, length: int, candidates: Sequence[Segment]) -> int:
    end = start + length
    if end < len(found.words):
        follows, names = words.dimensions.at(found.stems, end)
        own = tuple(segment for segment in candidates if segment.dimension in names)
        if own and found.is_free(end, end + follows):
            candidates, end = own, end + follows
    found.values.append(ValueMention(_directed(found, words, start, candidates), start, end))
    found.take(start, end)
    return end


def _directed(
    found: Findings, words: Vocabulary, start: int, candidates: Sequence[Segment]
) -> tuple[Segment, ...]:
    """The candidates that the word before allows: "from X" is no destination, "to X" is no origin."""
    before = found.word(start - 1)
    if before in _FROM:
        fitting = [segment for segment in candidates if not words.is_destination(segment.dimension)]
    elif before in _TO:
        fitting = [segment for segment in candidates if not words.is_origin(segment.dimension)]
    else:
        return tuple(candidates)
    return tuple(fitting)


def _value_at(found: Findings, words: Vocabulary, start: int, lenient: bool) -> tuple[int, list[Segment]]:
    """The segment that begins at a word, where the text can mean it."""
    length, segments = words.spoken.at(found.stems, start)
    short, derived = words.derived.at(found.stems, start)
    if short > length and len({segment.dimension for segment in derived}) == len(derived):
        length, segments = short, derived
    if length and found.is_free(start, start + length):
        return length, segments
    length, segments = words.codes.at(found.stems, start)
    if length and found.is_free(start, start + length) and (lenient or _means_code(found, start, segments)):
        return length, segments
    length, segments = words.guarded.at(found.stems, start)
    if length and found.is_free(start, start + length) and start + length < len(found.words):
        follows, names = words.dimensions.at(found.stems, start + length)
        own = [segment for segment in segments if segment.dimension in names]
        if follows and own:
            return length, own
    return 0, []


def _settle_joined(found: Findings) -> None:
    """ "JFK and LGA": what is joined to a segment of one dimension is of that dimension where it can be."""
    for index, mention in enumerate(found.values):
        if len(mention.candidates) < 2:
            continue
        for other in (*found.values[max(0, index - 1) : index], *found.values[index + 1 : index + 2]):
            first, second = sorted((mention, other), key=lambda value: value.start)
            between = {word.text for word in found.words[first.end : second.start]}
            shared = [
                segment for segment in mention.candidates if segment.dimension == _only_dimension(other)
            ]
            if shared and between <= _JOINING and second.start - first.end <= 2:
                found.values[index] = ValueMention(tuple(shared), mention.start, mention.end)
                break


def _only_dimension(mention: ValueMention) -> str:
    names = {segment.dimension for segment in mention.candidates}
    return names.pop() if len(names) == 1 else ""


def _any_value_at(found: Findings, words: Vocabulary, start: int) -> tuple[int, list[Segment]]:
    """The segment that begins at a word right after its dimension's name: codes and numbers need no care there."""
    best: tuple[int, list[Segment]] = (0, [])
    for table in (words.spoken, words.codes, words.guarded, words.derived):
        length, segments = table.at(found.stems, start)
        if length > best[0] and found.is_free(start, start + length):
            best = (length, segments)
    return best


def _means_code(found: Findings, start: int, segments: Sequence[Segment]) -> bool:
    """A code counts as written, if it has capitals, or after a word like "from" where it is no everyday word.

    A bare number never counts: it needs the name of its dimension ("channel 8").
    """
    token = found.words[start]
    if token.text.isdigit():
        return False
    before = found.word(start - 1)
    as_written = any(token.written == segment.value for segment in segments)
    if as_written and not found.shouted and token.written.isupper():
        return before != "the"
    everyday = token.text in SHORT_WORDS or token.text in FUNCTION_WORDS
    return not everyday and (
        before in _BEFORE_CODE or len(token.text) == 3 and any(c.isdigit() for c in token.text)
    )
