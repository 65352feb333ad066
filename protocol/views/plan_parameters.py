"""Which values of a plan are the request's own: what becomes a parameter when the plan is kept as a playbook.

A value counts as the request's where it stands in the request's words (a metric's label, a month's name, a segment) and
the plan uses one and the same everywhere. What the model chose by itself stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..plan.manifest import MetricTools
from ..plan.package import Package
from ..plan.plan import Plan
from ..plan.semantics import MONTHS, Semantics, period_text
from ..wire import canon
from .plan_slots import Slot, Slots

_WORD = re.compile(r"[^\W_]+")
_PLACES = ("metric", "baseline", "current", "period", "dimension", "filters")


@dataclass(frozen=True, slots=True)
class Parameters:
    """``declared`` as a playbook's file says it; ``values`` by argument name, each to be written as ``{$param: name}``."""

    declared: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    spoken: dict[str, str] = field(
        default_factory=dict
    )  # how a parameter's value reads in an objective -> its name

    slots: tuple[Slot, ...] = ()  # texts and numbers, wherever they are arguments

    def placed(self, slots: Slots) -> Parameters:
        """These, and the texts and numbers of the request."""
        kinds = {slot.name: {"kind": slot.kind, **_words(slot.value)} for slot in slots.found}
        said = {str(slot.value): slot.name for slot in slots.found}
        return Parameters(self.declared | kinds, self.values, said | self.spoken, tuple(slots.found))

    def templated(self, arguments: Any, name: str = "") -> Any:
        """Arguments with the request's values as placeholders."""
        if name in self.values and arguments == self.values[name]:
            return {"$param": name}
        for slot in self.slots:
            if type(slot.value) is type(arguments) and slot.value == arguments:
                return {"$param": slot.name}
        if isinstance(arguments, dict) and "$ref" not in arguments:
            return {key: self.templated(value, key) for key, value in arguments.items()}
        return [self.templated(one, name) for one in arguments] if isinstance(arguments, list) else arguments

    def objective(self, text: str) -> str | list[str | dict[str, str]]:
        """An objective with the request's values as placeholders; the text itself where none stands in it."""
        if not self.spoken:
            return text
        pattern = "|".join(re.escape(word) for word in sorted(self.spoken, key=len, reverse=True))
        parts: list[str | dict[str, str]] = []
        for part in re.split(rf"\b({pattern})\b", text):
            if part in self.spoken:
                parts.append({"$param": self.spoken[part]})
            elif part.strip():
                parts.append(part.strip())
        return parts if any(isinstance(part, dict) for part in parts) else text


def _words(value: Any) -> dict[str, int]:
    """How many words a text has, where they are not one."""
    count = len(value.split()) if isinstance(value, str) else 1
    return {"words": count} if count > 1 else {}


def parameters_of(plan: Plan, package: Package) -> Parameters:
    """What of a plan the request itself named."""
    found = Parameters()
    if package.semantics is None:
        return found
    said = [word.casefold() for word in _WORD.findall(plan.objective)]
    used = _used(plan, package)
    metric = used.get("metric")
    if not isinstance(metric, str) or metric not in package.semantics.metrics:
        return found  # months, dimensions and segments are those of a metric
    _periods(found, used, said)
    _dimension(found, used, said, package.semantics)
    _filters(found, used, said, package.semantics)
    _metric(found, metric, said, package.semantics)
    order = sorted(found.declared, key=lambda name: name != "metric")
    return Parameters({name: found.declared[name] for name in order}, found.values, found.spoken)


def _used(plan: Plan, package: Package) -> Mapping[str, Any]:
    """The arguments of metric tools that have one and the same value in every step that gives them."""
    seen: dict[str, dict[bytes, Any]] = {name: {} for name in _PLACES}
    for step in plan.steps:
        tool, arguments = step.tool_contract.tool, step.tool_contract.arguments
        if tool is None or arguments is None:
            continue
        if isinstance(package.manifest.tools.get(tool.server), MetricTools):
            for name in _PLACES:
                if name in arguments:
                    seen[name][canon.encode(arguments[name])] = arguments[name]
    return {name: next(iter(values.values())) for name, values in seen.items() if len(values) == 1}


def _stands(phrase: str, said: list[str]) -> bool:
    wanted = [word.casefold() for word in _WORD.findall(phrase)]
    return bool(wanted) and any(
        said[start : start + len(wanted)] == wanted for start in range(len(said) - len(wanted) + 1)
    )


def _metric(found: Parameters, name: str, said: list[str], semantics: Semantics) -> None:
    """The metric: where the request names it, and where another parameter needs it. By default it is this plan's."""
    metric = semantics.metrics[name]
    if found.declared or any(_stands(one, said) for one in (name, metric.label, *metric.synonyms)):
        found.declared["metric"] = {"kind": "metric", "default": name}
        found.values["metric"] = name
        found.spoken[metric.label] = "metric"


def _periods(found: Parameters, used: Mapping[str, Any], said: list[str]) -> None:
    baseline, current, period = (_month(used.get(name)) for name in ("baseline", "current", "period"))
    if current is not None and baseline is not None and current != baseline and _named(current, said):
        single = not _named(baseline, said)
        if single and (current["month"] - baseline["month"]) % 12 != 1:
            return
        declared = {"kind": "period_pair", **({"single": "month_before"} if single else {})}
        found.declared["periods"] = declared
        for name, one in (("baseline", baseline), ("current", current)):
            found.values[name] = one
            found.spoken.update(_spoken(name, one))
    elif period is not None and current is None and baseline is None and _named(period, said):
        found.declared["period"] = {"kind": "period"}
        found.values["period"] = period
        found.spoken.update(_spoken("period", period))


def _month(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict) and type(value.get("month")) is int and 1 <= value["month"] <= 12:
        return value
    return None


def _named(period: Mapping[str, Any], said: list[str]) -> bool:
    name = MONTHS[period["month"] - 1].casefold()
    return name in said or name[:3] in said


def _spoken(name: str, period: Mapping[str, Any]) -> dict[str, str]:
    return {period_text(period): name, MONTHS[period["month"] - 1]: name}


def _dimension(found: Parameters, used: Mapping[str, Any], said: list[str], semantics: Semantics) -> None:
    name = used.get("dimension")
    dimension = semantics.dimensions.get(name) if isinstance(name, str) else None
    if dimension is not None and any(
        _stands(one, said)
        for one in (str(name), dimension.label, dimension.plural_label(), *dimension.synonyms)
    ):
        found.declared["dimension"] = {"kind": "dimension", "default": name}
        found.values["dimension"] = name
        found.spoken[dimension.label] = "dimension"


def _filters(found: Parameters, used: Mapping[str, Any], said: list[str], semantics: Semantics) -> None:
    filters = used.get("filters")
    if not isinstance(filters, list) or not filters:
        return
    if all(
        isinstance(one, dict) and any(_stands(w, said) for w in _names(one, semantics)) for one in filters
    ):
        found.declared["filters"] = {"kind": "filters"}
        found.values["filters"] = filters


def _names(one: Mapping[str, Any], semantics: Semantics) -> Iterator[str]:
    """What a segment may be called in a request."""
    value = str(one.get("value"))
    yield value
    dimension = semantics.dimensions.get(str(one.get("dimension")))
    if dimension is not None:
        yield dimension.value_labels.get(value, value)
        yield from dimension.value_synonyms.get(value, ())
