"""Binding segments: filters ("from JFK", "for United") and the two that are compared ("Delta and US Airways")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.protocol.plan.request import Question
from duly.protocol.wire.limits import STRATA_SEGMENTS_MAX

from .asked import Asked, closest, listed, question
from .recognise import Findings, ValueMention
from .unknown_names import UnknownName, unknown_dimension, unknown_segments
from .vocabulary import Segment, is_code_like
from .words import tokens

Filter = dict[str, str]


def bind_filters(asked: Asked, name: str) -> list[Filter] | Question:
    """Every segment that the request names, those of a compared pair aside; the answer's beside them."""
    chosen: list[Segment] = []
    unclear: list[ValueMention] = []
    for mention in asked.found.values:
        fitting = _fitting(asked, mention)
        if any(segment in asked.used for segment in fitting):
            continue
        if len(fitting) == 1:
            chosen.append(fitting[0])
        elif mention.candidates:
            unclear.append(mention)
    unknown = [] if asked.settled else unknown_segments(asked)
    if name in asked.answers:
        answered = _answered(asked, name, unclear)
        if isinstance(answered, Question):
            return answered
        chosen += answered
    elif unclear and (not unknown or unclear[0].start < unknown[0].start):
        return _which_of(asked, name, unclear[0])
    elif unknown:
        return which_segment(asked, name, unknown[0])
    return [{"dimension": s.dimension, "value": s.value} for s in dict.fromkeys(chosen)]


def _fitting(asked: Asked, mention: ValueMention) -> list[Segment]:
    """The candidates of a mention that the metric can be cut by."""
    allowed = set(asked.dimensions())
    return [segment for segment in mention.candidates if segment.dimension in allowed]


def _answered(asked: Asked, name: str, unclear: Sequence[ValueMention]) -> list[Segment] | Question:
    """The segments of an answer; a dimension alone ("the origin") settles what was unclear."""
    if asked.says_none(name):
        return []
    answer = asked.answer(name)
    assert answer is not None
    segments: list[Segment] = []
    for mention in answer.values:
        fitting = _fitting(asked, mention)
        if len(fitting) > 1:
            return _which_of(asked, name, ValueMention(tuple(fitting), mention.start, mention.end), answer)
        segments += fitting
    if not segments and unclear and answer.dimension_names():
        wanted = answer.dimension_names()[0]
        segments = [s for mention in unclear for s in mention.candidates if s.dimension == wanted]
    if segments:
        return segments
    text = asked.answers[name]
    return which_segment(asked, name, UnknownName(text if len(text) <= 60 else text[:59] + "…", 0, 0))


def _which_of(asked: Asked, name: str, mention: ValueMention, found: Findings | None = None) -> Question:
    """A segment that several dimensions have, or one that the metric cannot be cut by."""
    words = (found or asked.found).words[mention.start : mention.end]
    text = " ".join(word.written for word in words)
    fitting = _fitting(asked, mention)
    if not fitting:
        label = asked.dimension_label(mention.candidates[0].dimension)
        metric = asked.metric
        problem = f"{metric.label if metric is not None else 'The metric'!r} cannot be narrowed by {label}"
        return question(name, f"{problem}, so not to {text!r}. Answer `none` to leave it out.", ["none"])
    choices = [f"{asked.dimension_label(s.dimension)} {asked.vocabulary.segment_text(s)}" for s in fitting]
    return question(name, f"{text!r} can mean {' or '.join(choices)}. Which one is meant?", choices)


def which_segment(asked: Asked, name: str, unknown: UnknownName) -> Question:
    dimensions = likely_dimensions(asked, unknown)
    single = len(dimensions) == 1
    choices = nearest_segments(asked, unknown.text, dimensions, bare=single)
    labels = " or ".join(asked.dimension_label(dimension) for dimension in dimensions)
    which = labels if single else "one"
    text = f"There is no {labels} {unknown.text!r} here. Which {which} is meant: {listed(choices)}?"
    return question(name, text, [*choices[:20], "none"])


def likely_dimensions(asked: Asked, unknown: UnknownName) -> list[str]:
    """The dimensions of which an unknown name is probably meant to be one: those that its place in the text points at;
    else those with codes for a code, those whose segments have spoken names for a name; else every one."""
    allowed = asked.dimensions()
    hinted = [name for name in unknown.dimensions if name in allowed]
    if hinted:
        return hinted
    if is_code_like(unknown.text):
        fitting = [
            name for name in allowed if any(is_code_like(s.value) for s in asked.vocabulary.values(name))
        ]
    else:
        fitting = [name for name in allowed if _name_rank(asked, name) < 2]
    return sorted(fitting or allowed, key=lambda name: _name_rank(asked, name))


def _name_rank(asked: Asked, dimension: str) -> int:
    """0 where a source names the segments, 1 where the semantics do, 2 where they have no spoken names."""
    part = asked.semantics.dimensions[dimension]
    return 0 if part.labels is not None else 1 if part.value_labels else 2


def nearest_segments(asked: Asked, word: str, dimensions: Sequence[str], *, bare: bool) -> list[str]:
    """Known segments as texts, the most alike first; then dimension by dimension, those with spoken names first."""
    known: list[tuple[str, str]] = []
    for dimension in sorted(dimensions, key=lambda name: _name_rank(asked, name)):
        part = asked.semantics.dimensions[dimension]
        for segment in asked.vocabulary.values(dimension):
            shown = asked.vocabulary.segment_text(segment)
            text = shown if bare else f"{part.label} {shown}"
            spoken = [segment.value, shown, *part.value_synonyms.get(segment.value, ())]
            spoken += [token.text for token in tokens(shown)[:1]]
            known += [(name, text) for name in spoken]
    return closest(word, known)


def bind_segment_pair(asked: Asked, name: str) -> dict[str, Any] | Question:
    """``compared_by``, ``segments`` (two values in the order of the text) and ``strata`` (the other dimensions)."""
    groups = _groups(asked, asked.found)
    if name in asked.answers:
        answer = asked.answer(name)
        assert answer is not None
        answered = _groups(asked, answer)
        if not answered:
            return _which_pair(asked, name, groups, asked.answers[name])
        groups = _completed(groups, answered)
        asked.settled = True
    full = {dimension: values for dimension, values in groups.items() if len(values) > 1}
    if len(full) > 1:
        labels = [asked.dimension_label(dimension) for dimension in full]
        return question(name, f"The request names several {listed(labels)}. Which two are compared?", [])
    if not full:
        return _which_pair(asked, name, groups, "")
    dimension, values = next(iter(full.items()))
    if len(values) > 2:
        texts = [asked.vocabulary.segment_text(Segment(dimension, value)) for value in values]
        return question(name, f"Two are compared, and the request names {listed(texts)}. Which two?", texts)
    asked.used |= {Segment(dimension, value) for value in values}
    strata = [other for other in asked.dimensions() if other != dimension and _is_readable(asked, other)]
    return {"compared_by": dimension, "segments": values, "strata": strata}


def _is_readable(asked: Asked, dimension: str) -> bool:
    """Whether a comparison within each segment of a dimension can be taken in by a person."""
    known = asked.vocabulary.catalogue.dimensions.get(dimension)
    return known is not None and known.complete and len(known.values) <= STRATA_SEGMENTS_MAX


def _groups(asked: Asked, found: Findings) -> dict[str, list[str]]:
    """Dimension → the values that are named of it, in order."""
    groups: dict[str, list[str]] = {}
    for mention in found.values:
        for segment in _fitting(asked, mention):
            values = groups.setdefault(segment.dimension, [])
            if segment.value not in values:
                values.append(segment.value)
    return groups


def _completed(groups: dict[str, list[str]], answered: dict[str, list[str]]) -> dict[str, list[str]]:
    """The answer's segments, with the one that the request named already where the answer gives the other."""
    full = {dimension: values for dimension, values in answered.items() if len(values) > 1}
    if full:
        return full
    return {
        dimension: [*[value for value in groups.get(dimension, []) if value not in values], *values]
        for dimension, values in answered.items()
    }


def _which_pair(asked: Asked, name: str, groups: dict[str, list[str]], answer: str) -> Question:
    """The question for the segment that is missing, or for both; it names what of the request is unknown."""
    unknown = UnknownName(answer[:60], 0, 0) if answer else next(iter(unknown_segments(asked)), None)
    if unknown is None and not groups:
        return _which_pair_of(asked, name)
    dimensions = [d for d in groups if d in asked.dimensions()]
    dimensions = dimensions or likely_dimensions(asked, unknown or UnknownName("", 0, 0))
    single = len(dimensions) == 1
    word = unknown.text if unknown is not None else ""
    choices = nearest_segments(asked, word, dimensions, bare=single)
    label = " or ".join(asked.dimension_label(dimension) for dimension in dimensions)
    problem = f"There is no {label} {word!r} here. " if word else ""
    known = [
        asked.vocabulary.segment_text(Segment(d, value)) for d, values in groups.items() for value in values
    ]
    if single and known:
        choices = [text for text in choices if text not in known]
        return question(
            name, f"{problem}Which {label} is compared with {known[0]}: {listed(choices)}?", choices
        )
    return question(name, f"{problem}Which two are compared: {listed(choices)}?", choices)


def _which_pair_of(asked: Asked, name: str) -> Question:
    """No segment is named at all: of the dimension that the request names, or after one that is none."""
    stray = unknown_dimension(asked)
    labels = [asked.dimension_label(dimension) for dimension in asked.dimensions()]
    if stray is not None:
        known = [(label, label) for label in labels]
        labels = closest(stray.text, known)
        text = f"There is no dimension {stray.text!r} here, only {listed(labels)}. Which two segments are compared?"
        return question(name, text, [])
    named = [dimension for dimension in asked.found.dimension_names() if dimension in asked.dimensions()]
    dimensions = named[:1] or likely_dimensions(asked, UnknownName("", 0, 0))
    single = len(dimensions) == 1
    choices = nearest_segments(asked, "", dimensions, bare=single)
    what = f"of {asked.dimension_label(dimensions[0])}" if single else "segments"
    return question(name, f"Which two {what} are compared: {listed(choices)}?", choices)
