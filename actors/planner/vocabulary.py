"""The words of a package: how its metrics, dimensions and segments are spoken of, from semantics and catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field

from duly.protocol.plan.catalogue import Catalogue, DimensionValue
from duly.protocol.plan.dimension import Dimension
from duly.protocol.plan.semantics import Semantics

from .words import SHORT_WORDS, Phrases, tokens

_COMPANY_WORDS = frozenset(
    ("inc", "incorporated", "co", "corp", "corporation", "company", "ltd", "llc", "plc", "ag", "sa")
)
_ORIGIN_WORDS = frozenset(("origin", "departure", "source", "from", "sender"))
_DESTINATION_WORDS = frozenset(("destination", "dest", "arrival", "target", "receiver"))
_CODE_CHARS_MAX = 3
_FIRST_WORD_CHARS_MIN = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of one dimension."""

    dimension: str
    value: str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Phrases → names. ``spoken`` are names of segments, ``codes`` their short values, which need more care."""

    semantics: Semantics
    catalogue: Catalogue
    metrics: Phrases[str] = field(default_factory=Phrases)
    dimensions: Phrases[str] = field(default_factory=Phrases)
    spoken: Phrases[Segment] = field(default_factory=Phrases)
    derived: Phrases[Segment] = field(default_factory=Phrases)
    codes: Phrases[Segment] = field(default_factory=Phrases)
    guarded: Phrases[Segment] = field(default_factory=Phrases)

    def segment_text(self, segment: Segment) -> str:
        """A segment for a person: ``Delta Air Lines Inc. (DL)``."""
        part = self.semantics.dimensions[segment.dimension]
        for known in self.catalogue.values_of(segment.dimension):
            if known.value == segment.value:
                label = known.label or part.value_labels.get(segment.value)
                return DimensionValue(value=segment.value, label=label).text()
        return segment.value

    def values(self, dimension: str) -> list[Segment]:
        """Every known segment of a dimension, the most frequent first, the unknown bucket last."""
        unknown = self.semantics.dimensions[dimension].unknown
        found = [Segment(dimension, known.value) for known in self.catalogue.values_of(dimension)]
        return sorted(found, key=lambda segment: segment.value == unknown)

    def is_origin(self, dimension: str) -> bool:
        """Whether "from X" speaks of this dimension."""
        return bool(self._name_words(dimension) & _ORIGIN_WORDS)

    def is_destination(self, dimension: str) -> bool:
        """Whether "to X" speaks of this dimension."""
        return bool(self._name_words(dimension) & _DESTINATION_WORDS)

    def _name_words(self, name: str) -> set[str]:
        return {token.text for token in tokens(f"{name} {self.semantics.dimensions[name].label}")}


def vocabulary(semantics: Semantics, catalogue: Catalogue) -> Vocabulary:
    """The vocabulary of a package. Pure; costs one pass over the known segments."""
    words = Vocabulary(semantics, catalogue)
    for name, metric in semantics.metrics.items():
        for phrase in (name, metric.label, *metric.synonyms):
            words.metrics.add(phrase, name)
    for name, part in semantics.dimensions.items():
        for phrase in (name, part.label, part.plural_label(), *part.synonyms):
            words.dimensions.add(phrase, name)
        for known in catalogue.values_of(name):
            _add_value(words, name, part, known)
    return words


def _add_value(words: Vocabulary, name: str, part: Dimension, known: DimensionValue) -> None:
    segment = Segment(name, known.value)
    if known.value == part.unknown:
        words.guarded.add(known.value, segment)
        return
    labels = [text for text in (known.label, part.value_labels.get(known.value)) if text]
    spoken = [*labels, *part.value_synonyms.get(known.value, ())]
    if is_code_like(known.value):
        words.codes.add(known.value, segment)
    else:
        spoken.append(known.value)
    for phrase in spoken:
        # A name that is itself a short or everyday word needs the care of a code.
        (words.codes if is_code_like(phrase) else words.spoken).add(phrase, segment)
    for label in spoken:
        short = _without_company(label)
        if short != label and not is_code_like(short):
            words.derived.add(short, segment)
    for label in [text for text in labels if text not in part.value_labels.values()]:
        first = tokens(label)[0].text if tokens(label) else ""
        if len(first) >= _FIRST_WORD_CHARS_MIN and first not in SHORT_WORDS:
            words.derived.add(first, segment)


def is_code_like(text: str) -> bool:
    """Whether a name is so short that an everyday word could be it: at most three characters, or digits only."""
    found = tokens(text)
    joined = "".join(token.text for token in found)
    return len(found) <= 1 and (len(joined) <= _CODE_CHARS_MAX or joined.isdigit())


def _without_company(label: str) -> str:
    found = [token.written for token in tokens(label)]
    while len(found) > 1 and found[-1].casefold() in _COMPANY_WORDS:
        found.pop()
    return " ".join(found)
