"""Filling a playbook's templates: placeholders become bound values and references. Structure only, never text."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.playbook import ADVICE, ITEM, OTHERS, Playbook, StepTemplate
from duly.protocol.plan.semantics import Semantics, period_text
from duly.protocol.wire.errors import PlanError


@dataclass(frozen=True, slots=True)
class Expansion:
    """One step to be: its template, and its item where the template has a ``foreach``."""

    template: StepTemplate
    item: str | None = None

    @property
    def step_id(self) -> str:
        return self.template.id if self.item is None else f"{self.template.id}-{self.item}"


@dataclass(frozen=True, slots=True)
class Filling:
    """A playbook with the values of its parameters."""

    playbook: Playbook
    values: Mapping[str, Any]
    semantics: Semantics | None

    def expansions(self) -> list[Expansion]:
        """Every step to be, in the order of the playbook and of the list."""
        found: list[Expansion] = []
        for template in self.playbook.steps:
            items = [None] if template.foreach is None else list(self.value(template.foreach, None))
            found += [Expansion(template, item) for item in items]
        return found

    def value(self, name: str, expansion: Expansion | None) -> Any:
        """The value of ``$param``. Raises ``PlanError`` ``plan.unbound`` where the binding lacks it."""
        if expansion is not None and expansion.item is not None and expansion.template.foreach is not None:
            if name == ITEM:
                return expansion.item
            if name == OTHERS:
                return [
                    item for item in self.value(expansion.template.foreach, None) if item != expansion.item
                ]
        if name in ADVICE:
            return [advice.to_data() for advice in getattr(self.playbook, name)]
        if name not in self.values:
            raise PlanError(
                "plan.unbound",
                f"The playbook {self.playbook.name} needs {name!r}, which the request does not give.",
                hint="Say it in the request.",
            )
        return copy.deepcopy(self.values[name])

    def filled(self, template: Any, expansion: Expansion) -> Any:
        """A template with every placeholder replaced by what it stands for."""
        if type(template) is dict:
            for key, fill in (("$param", self.value), ("$ref", self._ref), ("$all", self._all)):
                if key in template:
                    return fill(str(template[key]), expansion)
            if "$evidence" in template:
                return self._evidence(template["$evidence"])
            return {key: self.filled(item, expansion) for key, item in template.items()}
        if type(template) is list:
            return [self.filled(item, expansion) for item in template]
        return template

    def step_ids(self, name: str) -> list[str]:
        """The ids of every expansion of a template."""
        return [expansion.step_id for expansion in self.expansions() if expansion.template.id == name]

    def target(self, name: str, expansion: Expansion) -> str:
        """The step that a reference of an expansion means: the same item's where both run over the same list."""
        template = next(step for step in self.playbook.steps if step.id == name)
        return name if template.foreach is None else Expansion(template, expansion.item).step_id

    def _ref(self, text: str, expansion: Expansion) -> dict[str, str]:
        name, mark, pointer = text.partition("#")
        return {"$ref": f"{self.target(name, expansion)}{mark}{pointer}"}

    def _all(self, text: str, expansion: Expansion) -> list[dict[str, str]]:
        name, mark, pointer = text.partition("#")
        return [{"$ref": f"{step_id}{mark}{pointer}"} for step_id in self.step_ids(name)]

    def _evidence(self, names: list[str]) -> list[dict[str, Any]]:
        return [
            {"step": step_id, "output": {"$ref": f"{step_id}#"}}
            for name in names
            for step_id in self.step_ids(name)
        ]

    def objective(self, expansion: Expansion) -> str:
        """The objective of a step for a person: texts and the spoken names of parameters, joined."""
        written = expansion.template.objective
        if isinstance(written, str):
            return written
        parts = [
            part if isinstance(part, str) else self._spoken(self.filled(part, expansion)) for part in written
        ]
        text = " ".join(part for part in parts if part)
        return text.replace(" ?", "?").replace(" ,", ",").replace(" .", ".")

    def _spoken(self, value: Any) -> str:
        """A value in words: a metric's or dimension's label, a month, a list of these."""
        if isinstance(value, dict) and "month" in value:
            return period_text(value)
        if isinstance(value, list):
            return ", ".join(self._spoken(item) for item in value)
        if self.semantics is not None and value in self.semantics.metrics:
            return self.semantics.metrics[value].label
        if self.semantics is not None and value in self.semantics.dimensions:
            return self.semantics.dimensions[value].label
        return "" if value is None else str(value)
