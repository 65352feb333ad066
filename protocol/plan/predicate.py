"""A typed condition on one column: ``{column, op, value}``. Never SQL text.

A null column satisfies ``is_null`` and nothing else, as in SQL; a list of predicates holds where every one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from ..wire.limits import PREDICATE_VALUES_MAX

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "not_null", "is_null"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr


class Predicate(BaseModel):
    """One condition. ``value`` is a scalar, a list for ``in``, and absent for ``not_null`` and ``is_null``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str
    op: Operator
    value: Scalar | tuple[Scalar, ...] | None = None

    @model_validator(mode="after")
    def _value_fits(self) -> Predicate:
        if self.op in ("not_null", "is_null"):
            if self.value is not None:
                raise ValueError(f"{self.op} takes no value")
        elif self.op == "in":
            if not isinstance(self.value, tuple) or not 0 < len(self.value) <= PREDICATE_VALUES_MAX:
                raise ValueError(f"in takes a list of 1 to {PREDICATE_VALUES_MAX} values")
        elif self.value is None or isinstance(self.value, tuple):
            raise ValueError(f"{self.op} takes one value")
        return self

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row (column → value, null as ``None``) satisfies the condition."""
        return _HOLDS[self.op](row[self.column], self.value)

    def text(self) -> str:
        """The condition for a person, for example ``arr_delay <= 15``."""
        if self.op == "not_null":
            return f"{self.column} is present"
        if self.op == "is_null":
            return f"{self.column} is missing"
        if isinstance(self.value, tuple):
            return f"{self.column} is one of {', '.join(str(value) for value in self.value)}"
        return f"{self.column} {self.op} {self.value}"


def text_of(predicates: Sequence[Predicate], empty: str = "every row") -> str:
    """A list of predicates for a person; ``empty`` is what no condition at all is called."""
    return " and ".join(predicate.text() for predicate in predicates) or empty


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left is not None and left == right,
    "!=": lambda left, right: left is not None and left != right,
    "<": lambda left, right: left is not None and left < right,
    "<=": lambda left, right: left is not None and left <= right,
    ">": lambda left, right: left is not None and left > right,
    ">=": lambda left, right: left is not None and left >= right,
    "in": lambda left, right: left is not None and left in right,
    "not_null": lambda left, right: left is not None,
    "is_null": lambda left, right: left is None,
}
