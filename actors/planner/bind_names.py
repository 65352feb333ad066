"""Binding a metric and dimensions by name, or asking for them."""

from __future__ import annotations

from duly.protocol.plan.playbook import Parameter
from duly.protocol.plan.request import Question

from .asked import Asked, closest, listed, question
from .unknown_names import unknown_dimension
from .words import FILLERS, FUNCTION_WORDS, span_text

_RUN_WORDS_MAX = 5


def bind_metric(asked: Asked, name: str, parameter: Parameter | None) -> str | None | Question:
    """The one metric that the answer or the request names, else the default, else ``None`` (optional) or a question."""
    answer = asked.answer(name)
    named = (answer if answer is not None else asked.found).metric_names()
    if answer is not None and not named:
        words = asked.answers[name]
        return _which_metric(asked, name, f"{_short(words)!r} is none of the metrics here.", words)
    if len(named) == 1:
        return named[0]
    if len(named) > 1:
        labels = [asked.semantics.metrics[metric].label for metric in named]
        return question(
            name, f"The request names several metrics: {listed(labels)}. Which one is meant?", labels
        )
    if parameter is not None and parameter.default is not None:
        return parameter.default
    if parameter is not None and parameter.optional:
        return None
    words = _unknown_run(asked)
    problem = f"There is no metric {words!r} here." if words else "The request names no metric."
    return _which_metric(asked, name, problem, words)


def _which_metric(asked: Asked, name: str, problem: str, words: str) -> Question:
    known = [
        (spoken, metric.label)
        for metric in asked.semantics.metrics.values()
        for spoken in (metric.label, *metric.synonyms)
    ]
    labels = closest(words, known)
    return question(name, f"{problem} Which metric is meant: {listed(labels)}?", labels)


def _unknown_run(asked: Asked) -> str:
    """The first run of words that mean nothing here: what the person probably takes for a metric."""
    found = asked.found
    index = 0
    while index < len(found.words):
        end = index
        while (
            end < len(found.words)
            and end - index < _RUN_WORDS_MAX
            and _is_meaningless(asked, end, end > index)
        ):
            end += 1
        if end > index:
            return span_text(found.words, index, end)
        index += 1
    return ""


def _is_meaningless(asked: Asked, index: int, inside: bool) -> bool:
    found = asked.found
    word = found.words[index]
    if found.taken[index] or word.text in FUNCTION_WORDS | FILLERS or (inside and word.begins_sentence):
        return False
    return found.stems[index] not in asked.cue_stems


def bind_dimension(asked: Asked, name: str, parameter: Parameter) -> str | None | Question:
    """The one dimension that the answer or the request names, else the default, else a question."""
    answer = asked.answer(name)
    named = (answer if answer is not None else asked.found).dimension_names()
    if answer is not None and not named:
        return _which_dimension(asked, name, asked.answers[name])
    if len(named) > 1:
        labels = [asked.dimension_label(dimension) for dimension in named]
        return question(
            name, f"The request names several dimensions: {listed(labels)}. Which one is meant?", labels
        )
    if len(named) == 1:
        return named[0] if named[0] in asked.dimensions() else _not_of_metric(asked, name, named[0])
    unknown = unknown_dimension(asked)
    if unknown is not None:
        return _which_dimension(asked, name, unknown.text)
    if parameter.default is not None:
        return parameter.default
    return None if parameter.optional else _which_dimension(asked, name, "")


def bind_dimensions(asked: Asked, name: str) -> list[str] | Question:
    """Every dimension of the metric that is not narrowed to one segment, those that the request names first.

    One that is not there is asked about.
    """
    answer = asked.answer(name)
    named = (answer if answer is not None else asked.found).dimension_names()
    if answer is None:
        unknown = unknown_dimension(asked)
        if unknown is not None:
            return _which_dimension(asked, name, unknown.text)
    elif not named and not asked.says_none(name):
        return _which_dimension(asked, name, asked.answers[name])
    for dimension in named:
        if dimension not in asked.dimensions():
            return _not_of_metric(asked, name, dimension)
    fixed = _fixed(asked)
    cut = [dimension for dimension in dict.fromkeys([*named, *asked.dimensions()]) if dimension not in fixed]
    return cut or list(asked.dimensions())


def _fixed(asked: Asked) -> set[str]:
    """The dimensions that the filters narrow to one segment: cutting by them says nothing."""
    narrowed: dict[str, set[str]] = {}
    for value in asked.bound.values():
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict) and item.keys() == {"dimension", "value"}:
                narrowed.setdefault(item["dimension"], set()).add(item["value"])
    return {dimension for dimension, values in narrowed.items() if len(values) == 1}


def _which_dimension(asked: Asked, name: str, words: str) -> Question:
    known = [
        (spoken, asked.dimension_label(dimension))
        for dimension in asked.dimensions()
        for spoken in (asked.dimension_label(dimension), *asked.semantics.dimensions[dimension].synonyms)
    ]
    labels = closest(words, known)
    problem = f"There is no dimension {_short(words)!r} here." if words else "The request names no dimension."
    return question(name, f"{problem} Which one is meant: {listed(labels)}?", labels)


def _not_of_metric(asked: Asked, name: str, dimension: str) -> Question:
    metric = asked.metric
    labels = [asked.dimension_label(known) for known in asked.dimensions()]
    text = (
        f"The metric {metric.label if metric is not None else ''!r} is not cut by {asked.dimension_label(dimension)!r}. "
        f"Which dimension is meant: {listed(labels)}?"
    )
    return question(name, text, labels)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
