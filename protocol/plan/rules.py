"""Typed acceptance rules of a step. Their evaluation is ``judgement/checks``.

``path`` is a JSON Pointer (RFC 6901) into the step's output; ``""`` is the whole output.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..wire.model import Model

Scalar = str | int | float | bool | None


class RangeRule(Model):
    """The number at ``path`` lies in [min, max]; a bound left out does not bound."""

    rule: Literal["range"] = "range"
    path: str
    min: float | int | None = None
    max: float | int | None = None


class EqualsRule(Model):
    """The value at ``path`` equals ``value``; numbers within the step's tolerance."""

    rule: Literal["equals"] = "equals"
    path: str
    value: Scalar


class NotNullRule(Model):
    """The value at ``path`` is there and not null."""

    rule: Literal["not_null"] = "not_null"
    path: str


class UniqueRule(Model):
    """The items of the list at ``path`` (their ``field``, where given) are all different."""

    rule: Literal["unique"] = "unique"
    path: str
    field: str | None = None


class CountRule(Model):
    """The list or map at ``path`` has between ``min`` and ``max`` entries."""

    rule: Literal["count"] = "count"
    path: str
    min: int = 0
    max: int | None = None


class SumsToRule(Model):
    """The numbers ``field`` of the list at ``path`` add up to the number at ``total``, within the tolerance."""

    rule: Literal["sums_to"] = "sums_to"
    path: str
    field: str
    total: str


class AgreesRule(Model):
    """The numbers at ``path`` and at ``other`` differ by no more than the tolerance."""

    rule: Literal["agrees"] = "agrees"
    path: str
    other: str


Rule = Annotated[
    RangeRule | EqualsRule | NotNullRule | UniqueRule | CountRule | SumsToRule | AgreesRule,
    Field(discriminator="rule"),
]
