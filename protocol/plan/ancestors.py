"""Which steps of a plan come before which."""

from __future__ import annotations

from .plan import Plan
from .schedule import dependencies, levels_of


class Ancestors:
    """Asked step by step; safe on plans with cycles and dangling names.

    One bit a step: a chain of a thousand steps has half a million pairs.
    """

    def __init__(self, plan: Plan) -> None:
        needs: dict[str, list[str]] = {}
        for step in plan.steps:  # an id that stands twice, a fault of its own, waits for what both wait for
            needs.setdefault(step.step_id, []).extend(dependencies(step))
        self._bits = {name: 1 << index for index, name in enumerate(needs)}
        self._above: dict[str, int] = {}
        for level in levels_of([(name, [n for n in wants if n in needs]) for name, wants in needs.items()]):
            for name in level:
                above = 0
                for need in needs[name]:
                    above |= self._bits.get(need, 0) | self._above.get(need, 0)
                self._above[name] = above

    def come_before(self, name: str, step_id: str) -> bool:
        """Whether the step ``name`` is an ancestor of ``step_id``."""
        return bool(self._bits.get(name, 0) & self._above.get(step_id, 0))
