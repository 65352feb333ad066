"""One request under binding: what it names, what has been bound so far, and how a question about it is put."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.plan.package import Package
from duly.protocol.plan.request import Question
from duly.protocol.plan.semantics import Metric, Semantics
from duly.protocol.wire.limits import QUESTION_CHOICES_MAX

from .months import Calendar
from .recognise import Findings, recognise
from .vocabulary import Segment, Vocabulary
from .words import FUNCTION_WORDS, fold, tokens

_NONE = frozenset("none no nothing all any every skip ignore without neither".split())
_NAMED_IN_TEXT_MAX = 8


@dataclass(slots=True)
class Asked:
    """The request, the package's words, the answers given so far (parameter → text), and what is bound."""

    package: Package
    semantics: Semantics
    vocabulary: Vocabulary
    found: Findings
    answers: Mapping[str, str]
    known_stems: frozenset[str]
    cue_stems: frozenset[str] = frozenset()
    bound: dict[str, Any] = field(default_factory=dict)
    used: set[Segment] = field(default_factory=set)
    settled: bool = False  # a person has answered about the names that nothing stands behind

    @property
    def metric(self) -> Metric | None:
        name = self.bound.get("metric")
        return self.semantics.metrics[name] if isinstance(name, str) else None

    def dimensions(self) -> list[str]:
        """The dimensions that the request may use: the metric's, or all where no metric is bound."""
        return list(self.metric.dimensions) if self.metric is not None else list(self.semantics.dimensions)

    def calendar(self) -> Calendar:
        """The months of the metric's source."""
        source = self.metric.source if self.metric is not None else None
        return Calendar(tuple(self.vocabulary.catalogue.coverage_of(source)))

    def answer(self, name: str) -> Findings | None:
        """What the answer about a parameter names, ``None`` where nobody answered."""
        text = self.answers.get(name)
        return None if text is None else recognise(text, self.vocabulary, lenient=True)

    def says_none(self, name: str) -> bool:
        """Whether the answer is that there is no such thing."""
        words = {token.text for token in tokens(self.answers.get(name, ""))}
        return bool(words & _NONE) and words <= FUNCTION_WORDS | _NONE | {"filter", "filters", "segment"}

    def dimension_label(self, name: str) -> str:
        return self.semantics.dimensions[name].label


def closest(word: str, known: Iterable[tuple[str, str]]) -> list[str]:
    """The texts of (what is compared, text) pairs, the most alike to ``word`` first, the others in their order."""
    folded = fold(word)[:80]
    matcher = difflib.SequenceMatcher(b=folded)
    rated: dict[str, float] = {}
    order: list[str] = []
    for spoken, text in known:
        if text not in rated:
            rated[text] = 0.0
            order.append(text)
        matcher.set_seq1(fold(spoken)[:80])
        if matcher.real_quick_ratio() >= 0.6 and matcher.ratio() >= 0.6:
            rated[text] = max(rated[text], matcher.ratio())
    return sorted(order, key=lambda text: (-rated[text], order.index(text)))


def listed(texts: list[str]) -> str:
    """Texts for a sentence, cut after a few."""
    shown = ", ".join(texts[:_NAMED_IN_TEXT_MAX])
    more = len(texts) - _NAMED_IN_TEXT_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def question(name: str, text: str, choices: list[str]) -> Question:
    return Question(parameter=name, text=text, choices=choices[:QUESTION_CHOICES_MAX])
