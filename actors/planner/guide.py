"""Taking a person's guidance into a binding: the metric, months, dimensions or segments that it names replace the bound ones.

Playbooks do not reason. Guidance that names nothing of the data cannot change a plan of theirs, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.package import Package
from duly.protocol.plan.playbook import Parameter, ParameterKind
from duly.protocol.plan.request import Binding, Question, Request
from duly.protocol.wire.errors import PlanError

from .asked import Asked
from .bind_names import bind_dimension, bind_dimensions, bind_metric
from .bind_values import bind_filters, bind_segment_pair
from .months import resolve
from .pairs import pair_of
from .playbooks import cue_stems, usable
from .recognise import recognise
from .unknown_names import known_stems
from .vocabulary import vocabulary

_SINGLE: dict[str, ParameterKind] = {"metric": "metric", "period": "period", "filters": "filters"}
_BASELINE_WORDS = frozenset("with against to than versus vs baseline".split())
_ONLY = frozenset("only just solely".split())
_WITHOUT = frozenset("without except exclude excluding skip ignore not no".split())
Named = dict[str, Any] | Question


def guided(
    request: Request,
    binding: Binding,
    package: Package,
    catalogue: Catalogue,
    agent: AgentSpec,
    guidance: Sequence[str],
) -> Binding:
    """The binding with every guidance applied in order, or with the question that one of them raises.

    Raises ``PlanError`` ``plan.no_alternative`` where the last one changes nothing.
    """
    if package.semantics is None:
        raise _no_way(guidance[-1])
    words = vocabulary(package.semantics, catalogue)
    cues = cue_stems(usable(package, agent))
    bound = dict(binding.parameters)
    for text in guidance:
        found = recognise(text, words)
        asked = Asked(
            package, package.semantics, words, found, {}, known_stems(words) | cues, cues, dict(bound)
        )
        change: dict[str, Any] = {}
        for name, kind in _kinds(binding, package).items():
            value = _named(asked, name, kind)
            if isinstance(value, Question):
                return binding.model_copy(update={"question": value, "single_value": False})
            change |= value
            asked.bound |= value
        if text == guidance[-1] and bound | change == bound:
            raise _no_way(text)
        bound |= change
    return binding.model_copy(update={"parameters": bound, "metric": bound.get("metric")})


def _kinds(binding: Binding, package: Package) -> Mapping[str, ParameterKind]:
    if binding.playbook is None:
        return _SINGLE
    return {name: parameter.kind for name, parameter in package.playbook(binding.playbook).parameters.items()}


def _named(asked: Asked, name: str, kind: ParameterKind) -> Named:
    """What the guidance says of one parameter; nothing where it does not name any."""
    found = asked.found
    if kind == "metric" and found.metrics:
        return _valued(name, bind_metric(asked, name, None))
    if kind in ("period", "period_pair") and found.periods:
        return _months(asked, name, kind)
    if kind == "dimension" and found.dimensions:
        return _valued(name, bind_dimension(asked, name, Parameter(kind="dimension")))
    if kind == "dimensions" and found.dimensions:
        return _dimensions(asked, name)
    if kind == "segment_pair" and len(found.values) > 1:
        return bind_segment_pair(asked, name)
    if kind == "filters" and found.values:
        chosen = bind_filters(asked, name)
        if isinstance(chosen, Question):
            return chosen
        named = {item["dimension"] for item in chosen}
        kept = [item for item in asked.bound.get(name) or [] if item["dimension"] not in named]
        return {name: kept + chosen}
    return {}


def _valued(name: str, value: str | None | Question) -> Named:
    return value if isinstance(value, Question) else {name: value}


def _months(asked: Asked, name: str, kind: ParameterKind) -> Named:
    """One month replaces one side (the baseline after "with", "against"), two replace both."""
    found, calendar = asked.found, asked.calendar()
    pair = pair_of(found.words, found.periods)
    if pair.current is None or pair.too_many:
        return {}
    if kind == "period":
        period = resolve(pair.current, calendar, name)
        return period if isinstance(period, Question) else {name: period}
    sides = {"current": pair.current, "baseline": pair.baseline}
    if pair.baseline is None:
        before = {found.word(pair.current.start - 1), found.word(pair.current.start - 2)}
        sides = {"baseline" if before & _BASELINE_WORDS else "current": pair.current}
    change: dict[str, Any] = {}
    for side, mention in sides.items():
        if mention is not None:
            period = resolve(mention, calendar, side)
            if isinstance(period, Question):
                return period
            change[side] = period
    return change


def _dimensions(asked: Asked, name: str) -> Named:
    """Only the named ones, all but the named ones, or the named ones first."""
    ordered = bind_dimensions(asked, name)
    if isinstance(ordered, Question):
        return ordered
    named = asked.found.dimension_names()
    words = {word.text for word in asked.found.words}
    if words & _ONLY:
        return {name: named}
    if words & _WITHOUT:
        return {
            name: [dimension for dimension in asked.bound.get(name, ordered) if dimension not in named]
            or named
        }
    return {name: ordered}


def _no_way(text: str) -> PlanError:
    shown = text if len(text) <= 80 else text[:79] + "…"
    return PlanError(
        "plan.no_alternative",
        f"The playbook cannot take this into account: {shown!r}.",
        hint="Name a month, a dimension or a segment of the data, or edit the plan.",
    )
