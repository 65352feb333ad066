"""Names in a request that nothing stands behind: "Lufthansa", "from BOS", "by aircraft age". Silence would answer
another question than the one that was asked."""

from __future__ import annotations

from dataclasses import dataclass

from .asked import Asked
from .recognise import Findings
from .vocabulary import Vocabulary
from .words import FILLERS, FUNCTION_WORDS, SHORT_WORDS, Token, span_text, stems_of, tokens

BEFORE_NAME = frozenset("of for from at in to via on by".split())
_JOINING = frozenset("and or with to against versus vs than from".split())
_TELLING = frozenset(
    "report recommend send explain tell say give show present answer talk speak back it this that reply due".split()
)
# "caused by weather" names no dimension; "grouped by weather" does.
_GROUPING = frozenset(
    "grouped sliced segmented sorted ordered decomposed divided compared analysed analyzed split broken down cut".split()
)
_NO_DIMENSION = frozenset("how what which much way means far hour cause itself themselves".split())
_NAME_WORDS_MAX = 4
_TITLE_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class UnknownName:
    """Words ``start`` to ``end`` (excluded), and the dimensions that could be meant."""

    text: str
    start: int
    end: int
    dimensions: tuple[str, ...] = ()


def known_stems(vocabulary: Vocabulary) -> frozenset[str]:
    """Words that labels and definitions of the package use: they are no names of segments."""
    texts: list[str] = []
    for source in vocabulary.semantics.sources.values():
        texts.append(source.label or "")
    for metric in vocabulary.semantics.metrics.values():
        nouns = metric.nouns
        texts += [
            metric.label,
            metric.definition,
            nouns.population,
            nouns.observed,
            nouns.numerator,
            metric.unit,
        ]
        texts += metric.synonyms
    return frozenset(stem for text in texts for stem in stems_of(text))


def unknown_segments(asked: Asked) -> list[UnknownName]:
    """Names where a segment would stand, in order of the text."""
    found = asked.found
    unknown = [
        UnknownName(
            span_text(found.words, mention.start, mention.end),
            mention.start,
            mention.end,
            _hint(asked, mention.start),
        )
        for mention in found.values
        if not mention.candidates
    ]
    capitals_tell = not found.shouted and not _is_title(found.words)
    index = 0
    while index < len(found.words):
        end = _name_end(asked, index) if capitals_tell and _may_begin(asked, index) else index
        if end > index:
            unknown.append(UnknownName(span_text(found.words, index, end), index, end, _hint(asked, index)))
        index = max(end, index + 1)
    unknown += _joined_to_segments(asked, unknown)
    return sorted(unknown, key=lambda name: name.start)


def _is_title(words: list[Token]) -> bool:
    long = [word for word in words if len(word.text) > 3 and word.text.isalpha()]
    return len(long) > 3 and sum(word.is_capitalised for word in long) >= _TITLE_SHARE * len(long)


def _is_content(asked: Asked, index: int) -> bool:
    """Whether a word could name something: free, no function word, no word of the package's own texts or cues."""
    found = asked.found
    if found.taken[index] or found.words[index].text in FUNCTION_WORDS | FILLERS:
        return False
    return found.stems[index] not in asked.known_stems and not found.words[index].text.isdigit()


def _may_begin(asked: Asked, index: int) -> bool:
    found = asked.found
    word = found.words[index]
    if not index or word.begins_sentence or not word.is_capitalised or not _is_content(asked, index):
        return False
    if word.text in SHORT_WORDS and not word.written.isupper():
        return False
    before = found.word(index - 1)
    if before == "to":
        return found.word(index - 2) not in _TELLING
    return before in BEFORE_NAME or before == "compare" or _is_dimension(found, index)


def _is_dimension(found: Findings, end: int) -> bool:
    return any(mention.end == end for mention in found.dimensions)


def _name_end(asked: Asked, start: int) -> int:
    found = asked.found
    end = start + 1
    while end < len(found.words) and end - start < _NAME_WORDS_MAX:
        word = found.words[end]
        if (
            not word.is_capitalised
            or word.gap.strip("-'’. ")
            or word.begins_sentence
            or not _is_content(asked, end)
        ):
            break
        end += 1
    return end


def _joined_to_segments(asked: Asked, already: list[UnknownName]) -> list[UnknownName]:
    """``lufthansa`` in "delta and lufthansa", whatever its case: what is joined to a segment is meant as one."""
    found = asked.found
    covered = {index for name in already for index in range(name.start, name.end)}
    unknown: list[UnknownName] = []
    for mention in found.values:
        dimensions = tuple(dict.fromkeys(segment.dimension for segment in mention.candidates))
        after, before = mention.end + 1, mention.start - 2
        if (
            after < len(found.words)
            and found.word(mention.end) in ("and", "or", "versus", "vs", "against", "than")
            and not found.words[after].begins_sentence
            and after not in covered
            and _is_content(asked, after)
            and not found.words[after].text.endswith(("ed", "ing"))
        ):
            unknown.append(
                UnknownName(span_text(found.words, after, after + 1), after, after + 1, dimensions)
            )
        if (
            before > 0
            and found.word(mention.start - 1) in ("and", "or", "versus", "vs", "against", "than")
            and found.word(before - 1) in BEFORE_NAME | {"compare", "between"}
            and before not in covered
            and _is_content(asked, before)
        ):
            unknown.append(
                UnknownName(span_text(found.words, before, before + 1), before, before + 1, dimensions)
            )
    return unknown


def _hint(asked: Asked, start: int) -> tuple[str, ...]:
    """The dimensions that the words around a name point at; none where they do not tell."""
    found, words = asked.found, asked.vocabulary
    before = found.word(start - 1)
    for mention in found.dimensions:
        if mention.end == start:
            return (mention.name,)
    for value in found.values:
        if before in _JOINING and value.end == start - 1:
            return tuple(dict.fromkeys(segment.dimension for segment in value.candidates))
    if before == "from":
        return tuple(name for name in asked.dimensions() if words.is_origin(name))
    if before == "to":
        return tuple(name for name in asked.dimensions() if words.is_destination(name))
    return ()


def unknown_dimension(asked: Asked) -> UnknownName | None:
    """What stands after "by", "per", "for each" and is no dimension; or before "that contributed most"."""
    found = asked.found
    for index, word in enumerate(found.words):
        start = _dimension_start(found, index)
        if start is not None:
            end = _run_end(asked, start)
            if end > start:
                return UnknownName(span_text(found.words, start, end), start, end)
        if word.text.startswith("contribut") and found.word(index - 1) in ("that", "which", "who"):
            start = index - 1
            while start and index - start <= _NAME_WORDS_MAX and _is_content(asked, start - 1):
                start -= 1
            if start < index - 1:
                return UnknownName(span_text(found.words, start, index - 1), start, index - 1)
    return None


def _dimension_start(found: Findings, index: int) -> int | None:
    word, before = found.words[index].text, found.word(index - 1)
    if word == "by":
        if before.endswith(("ed", "en", "wn")) and before not in _GROUPING:
            return None
    elif not (word == "per" or word in ("each", "every") and before in ("for", "in", "of", "by")):
        return None
    start = index + 1
    if (
        start < len(found.words)
        and found.words[start].is_capitalised
        and not found.shouted
        and not _is_title(found.words)
    ):
        return None  # "by Lufthansa" names a segment
    while found.word(start) in ("the", "each", "every", "a", "an", "type", "of"):
        start += 1
    return start if found.word(start) not in _NO_DIMENSION else None


def _run_end(asked: Asked, start: int) -> int:
    found = asked.found
    end = start
    while end < len(found.words) and end - start < _NAME_WORDS_MAX and not found.taken[end]:
        word = found.words[end]
        own_word = (
            found.stems[end] in asked.known_stems and end == start and not _followed_by_content(asked, end)
        )
        if (
            word.text in FUNCTION_WORDS | {"month", "months"}
            or found.stems[end] in asked.cue_stems
            or own_word
            or word.text[0].isdigit()
        ):
            break
        if end > start and (word.begins_sentence or word.gap.strip("-'’ ")):
            break
        if word.text.endswith("ing") and end == start:
            break
        end += 1
    return end


def _followed_by_content(asked: Asked, index: int) -> bool:
    after = index + 1
    return (
        after < len(asked.found.words)
        and _is_content(asked, after)
        and not asked.found.words[after].begins_sentence
    )


def leftover(asked: Asked) -> UnknownName | None:
    """The first words of a question about a number that no part of the answer would take into account."""
    found = asked.found
    for index in range(len(found.words)):
        if _is_leftover(asked, index):
            end = index + 1
            while end < len(found.words) and end - index < _NAME_WORDS_MAX and _is_leftover(asked, end):
                end += 1
            return UnknownName(span_text(found.words, index, end), index, end, _hint(asked, index))
    return None


def _is_leftover(asked: Asked, index: int) -> bool:
    found = asked.found
    word = found.words[index]
    if found.taken[index] or word.text in FUNCTION_WORDS | FILLERS:
        return False
    return not _is_row_noun(asked, index) and not _is_kind_of_segment(asked, index)


def _is_kind_of_segment(asked: Asked, index: int) -> bool:
    """``aircraft`` in "BOEING aircraft", where the dimension is called aircraft maker."""
    before = next((mention for mention in asked.found.values if mention.end == index), None)
    if before is None:
        return False
    parts = [asked.semantics.dimensions[segment.dimension] for segment in before.candidates]
    names = [name for part in parts for name in (part.label, *part.synonyms)]
    return asked.found.stems[index] in {token.stem for name in names for token in tokens(name)}


def _is_row_noun(asked: Asked, index: int) -> bool:
    """What the rows are called ("flights") adds nothing beside the metric."""
    metric = asked.metric
    nouns = tokens(metric.nouns.population if metric is not None else "")
    return bool(nouns) and asked.found.stems[index] == nouns[-1].stem
