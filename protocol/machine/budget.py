"""Budgets: reserved before dispatch, settled after. A reservation that a crash left open counts as spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..wire.limits import BUDGET_WARNING_PERCENT

Amounts = Mapping[str, int]
COUNTED = ("steps", "tool_calls")  # of these a plan says beforehand what it takes
METERED = ("rows_scanned", "model_tokens", "cost")


@dataclass(frozen=True, slots=True)
class Budget:
    """Integers by name. ``wall_seconds`` is limited in seconds and spent in milliseconds (``spent["wall_ms"]``)."""

    limits: Amounts = field(default_factory=dict)
    spent: Amounts = field(default_factory=dict)
    reserved: Amounts = field(default_factory=dict)
    warned: frozenset[str] = frozenset()

    def left(self, name: str) -> int | None:
        """What may still be reserved of a budget; ``None`` where it has no limit."""
        limit = self.limits.get(name)
        if limit is None:
            return None
        return limit - self.used(name) - self.reserved.get(name, 0)

    def used(self, name: str) -> int:
        """What is spent, in the unit of the limit."""
        if name == "wall_seconds":
            return self.spent.get("wall_ms", 0) // 1000
        return self.spent.get(name, 0)

    def fits(self, name: str, amount: int) -> int:
        """How many of ``amount`` may still be reserved."""
        left = self.left(name)
        return amount if left is None else max(0, min(amount, left))

    def reserve(self, amounts: Amounts) -> Budget:
        return replace(self, reserved=_add(self.reserved, amounts))

    def settle(self, reserved: Amounts, spent: Amounts) -> Budget:
        """Takes a reservation back and books what was really spent."""
        return replace(
            self,
            reserved=_add(self.reserved, {n: -a for n, a in reserved.items()}),
            spent=_add(self.spent, spent),
        )

    def forfeit(self) -> Budget:
        """Books every open reservation as spent: nobody can say what of it happened."""
        return replace(self, spent=_add(self.spent, self.reserved), reserved={})

    def spend(self, amounts: Amounts) -> Budget:
        return replace(self, spent=_add(self.spent, amounts))

    def to_warn(self) -> list[str]:
        """Budgets that reached the warning line and have not been warned of."""
        return [
            name
            for name, limit in self.limits.items()
            if name not in self.warned
            and limit > 0
            and self._known(name) * 100 >= limit * BUDGET_WARNING_PERCENT
        ]

    def _known(self, name: str) -> int:
        """What is spent, or as good as spent: a call that is reserved is made, the rows that it may scan are a bound."""
        return self.used(name) + (self.reserved.get(name, 0) if name in COUNTED else 0)

    @property
    def wall_ms_left(self) -> int | None:
        """Active milliseconds that are left; ``None`` without a limit."""
        limit = self.limits.get("wall_seconds")
        return None if limit is None else limit * 1000 - self.spent.get("wall_ms", 0)

    @property
    def out_of_time(self) -> bool:
        left = self.wall_ms_left
        return left is not None and left <= 0


def _add(left: Amounts, right: Amounts) -> dict[str, int]:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
        if total[name] == 0:
            del total[name]
    return total
