"""What a request asks of a package: which playbook or metric, and which parameters bind. Deterministic, no model.

Exactly one question at a time is asked: the first parameter, in the order of the playbook, that does not bind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.manifest import MetricTools
from duly.protocol.plan.package import Package
from duly.protocol.plan.playbook import PLACED, Parameter, Playbook
from duly.protocol.plan.request import Binding, Question, Request

from .asked import Asked, listed, question
from .bind_names import bind_dimension, bind_dimensions, bind_metric
from .bind_values import bind_filters, bind_segment_pair, which_segment
from .months import one_month, resolve_pair
from .pairs import Pair, pair_of
from .playbooks import choose, cue_stems, features_of, usable
from .recognise import recognise
from .unknown_names import BEFORE_NAME, known_stems, leftover, unknown_dimension
from .vocabulary import vocabulary
from .words import contains

# How a question about one number begins; only such a question is answered by a single read.
_VALUE_CUES = (
    "how many", "how much", "how high", "how low", "how large", "number of", "what is the", "what was the",
    "what were the", "what are the", "what s the", "whats the", "what share of", "what percentage of", "what proportion of", "give me", "show me", "tell me",
)  # fmt: skip


def bind(
    request: Request,
    package: Package,
    catalogue: Catalogue,
    agent: AgentSpec,
    answers: Mapping[str, str] | None = None,
) -> Binding:
    """The binding of a request. ``answers`` maps the parameters of earlier questions to what the person said.

    An input part whose name is a parameter's counts as an answer where its value is a text.
    """
    given = {part.name: part.value for part in request.parts if isinstance(part.value, str)} | dict(
        answers or {}
    )
    if package.semantics is None:
        only = choose(usable(package, agent), request.text, recognise(request.text, None), None)
        return Binding() if only is None else Binding(playbook=only.playbook.name, parameters=only.values)
    words = vocabulary(package.semantics, catalogue)
    found = recognise(request.text, words)
    playbooks = usable(package, agent)
    cues = cue_stems(playbooks)
    asked = Asked(package, package.semantics, words, found, given, known_stems(words) | cues, cues)
    chosen = choose(playbooks, request.text, found, words)
    if chosen is not None:
        asked.bound |= chosen.values
        return _with_cost(asked, _bind_playbook(asked, chosen.playbook))
    return _with_cost(asked, _bind_value(asked, agent))


def _bind_playbook(asked: Asked, playbook: Playbook) -> Binding:
    for name, parameter in playbook.parameters.items():
        if parameter.kind in PLACED:
            continue  # bound with the request as a whole
        value = _parameter(asked, name, parameter)
        if isinstance(value, Question):
            return Binding(
                playbook=playbook.name,
                metric=asked.bound.get("metric"),
                parameters=asked.bound,
                question=value,
            )
        asked.bound |= value
    return Binding(playbook=playbook.name, metric=asked.bound.get("metric"), parameters=asked.bound)


def _parameter(asked: Asked, name: str, parameter: Parameter) -> dict[str, Any] | Question:
    """What a parameter provides, or the question about it."""
    if parameter.kind == "period_pair":
        return _period_pair(asked, name, parameter)
    if parameter.kind == "segment_pair":
        return bind_segment_pair(asked, name)
    value: Any
    if parameter.kind == "metric":
        value = bind_metric(asked, name, parameter)
    elif parameter.kind == "dimension":
        value = bind_dimension(asked, name, parameter)
    elif parameter.kind == "dimensions":
        value = bind_dimensions(asked, name)
    elif parameter.kind == "period":
        value = _period(asked, name, optional=parameter.optional)
    else:
        value = bind_filters(asked, name)
    return value if isinstance(value, Question) else {name: value}


def _period_pair(asked: Asked, name: str, parameter: Parameter) -> dict[str, Any] | Question:
    """The pair that the request names, with each answered side in place of what it names."""
    sides = (name, "baseline", "current")
    answer = asked.answer(name)
    source = answer if answer is not None else asked.found
    pair = pair_of(source.words, source.periods)
    for side in ("current", "baseline"):
        answered = asked.answer(side)
        if answered is None:
            continue
        own = pair_of(answered.words, answered.periods)
        if own.current is not None and own.baseline is not None:
            pair = own
        elif own.current is None:
            calendar = asked.calendar()
            text = f"{asked.answers[side][:60]!r} is no month. {calendar.text()} Which month is meant?"
            return question(side, text, calendar.choices())
        else:
            current = own.current if side == "current" else pair.current
            baseline = own.current if side == "baseline" else pair.baseline
            order = "current_first" if pair.order == "by_time" and side == "baseline" else pair.order
            pair = Pair(current, baseline, order)
    return resolve_pair(pair, asked.calendar(), sides, single=parameter.single)


def _period(asked: Asked, name: str, *, optional: bool) -> Any:
    answer = asked.answer(name)
    found = answer if answer is not None else asked.found
    if answer is not None and not answer.periods and not asked.says_none(name):
        calendar = asked.calendar()
        text = f"{asked.answers[name][:60]!r} is no month. {calendar.text()} Which month is meant?"
        return question(name, text, calendar.choices())
    return one_month(found.periods, asked.calendar(), name, optional=optional)


def _bind_value(asked: Asked, agent: AgentSpec) -> Binding:
    """One value of one metric, where the whole request asks for nothing else."""
    is_question = contains(asked.found.stems, _VALUE_CUES)
    if value_tool(asked.package, agent) is None:
        return Binding()
    if not asked.found.metrics and "metric" not in asked.answers:
        if is_question and {"period", "segment"} & features_of(asked.found):
            return Binding(question=_as_question(bind_metric(asked, "metric", None)))
        return Binding()
    metric = bind_metric(asked, "metric", None)
    if isinstance(metric, Question) or metric is None:
        return Binding(metric=next(iter(asked.found.metric_names()), None), question=_as_question(metric))
    asked.bound["metric"] = metric
    stray = leftover(asked)
    if not is_question and (stray is not None or not asked.found.words):
        return Binding(metric=metric)
    problem = _bind_value_rest(asked)
    return Binding(metric=metric, parameters=asked.bound, question=problem, single_value=problem is None)


def _bind_value_rest(asked: Asked) -> Question | None:
    """Period and filters of a single value, or what keeps it from being one."""
    filters = bind_filters(asked, "filters")
    if isinstance(filters, Question):
        return filters
    answered = "filters" in asked.answers
    unknown = None if answered else unknown_dimension(asked)
    dimension = next(iter(asked.found.dimension_names()), None)
    if not answered and (unknown is not None or dimension is not None):
        return _one_segment(asked, dimension, unknown.text if unknown is not None else "")
    stray = None if answered else leftover(asked)
    if stray is not None and asked.found.word(stray.start - 1) in BEFORE_NAME:
        return which_segment(asked, "filters", stray)
    if stray is not None:
        text = (
            f"{stray.text!r} would not be taken into account. Say it in words of the data, or answer `none`."
        )
        return question("filters", text, ["none"])
    period = _period(asked, "period", optional=True)
    if isinstance(period, Question):
        return period
    asked.bound |= {"period": period, "filters": filters}
    return None


def _one_segment(asked: Asked, dimension: str | None, unknown: str) -> Question:
    """A value cut by a dimension is more than one value."""
    if dimension is None:
        labels = [asked.dimension_label(name) for name in asked.dimensions()]
        text = f"There is no dimension {unknown!r} here, only {listed(labels)}. Name one segment, or answer `none`."
        return question("filters", text, ["none"])
    label = asked.dimension_label(dimension)
    texts = [asked.vocabulary.segment_text(segment) for segment in asked.vocabulary.values(dimension)]
    text = f"One value is read at a time. Which {label} is meant: {listed(texts)}? Answer `none` for all together."
    return question("filters", text, [*texts[:20], "none"])


def value_tool(package: Package, agent: AgentSpec) -> str | None:
    """The granted tool that reads one value of a metric."""
    for server, tools in package.manifest.tools.items():
        if isinstance(tools, MetricTools) and f"{server}.value" in agent.tools:
            return f"{server}.value"
    return None


def _as_question(value: str | None | Question) -> Question | None:
    return value if isinstance(value, Question) else None


def _with_cost(asked: Asked, binding: Binding) -> Binding:
    """The binding with whether it touches a sensitive source."""
    if binding.metric is None:
        return binding
    sensitive = set(asked.package.manifest.policy.sensitive_sources)
    touched = set(asked.semantics.sources_of(binding.metric))
    return binding.model_copy(update={"sensitive": bool(sensitive & touched)})
