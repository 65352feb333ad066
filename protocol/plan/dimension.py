"""How the rows of a source fall into segments: a column, buckets over a column, or a join to another source.

Every value is a text. A null, a key that the joined source lacks, and a null over there all fall into the bucket that
``unknown`` names, so no row is ever dropped.
"""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, model_validator

Number = StrictInt | StrictFloat
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
_STRICT = ConfigDict(extra="forbid", frozen=True)


class Bucket(BaseModel):
    """A named range: from the bound of the bucket before it (included) to ``below`` (excluded); the last has none."""

    model_config = _STRICT

    name: str = Field(min_length=1)
    below: Number | None = None


class Buckets(BaseModel):
    """Ascending ranges over a numeric column."""

    model_config = _STRICT

    column: str
    ranges: tuple[Bucket, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _ascending(self) -> Buckets:
        bounds = [bucket.below for bucket in self.ranges]
        if bounds[-1] is not None or any(bound is None for bound in bounds[:-1]):
            raise ValueError("every range but the last needs `below`, and the last has none")
        numbers = [bound for bound in bounds if bound is not None]
        if any(right <= left for left, right in itertools.pairwise(numbers)):
            raise ValueError("`below` must ascend from range to range")
        if len({bucket.name for bucket in self.ranges}) != len(self.ranges):
            raise ValueError("two ranges have the same name")
        return self

    def name_of(self, value: float | None, unknown: str) -> str:
        """The bucket of a value; a null is ``unknown``."""
        if value is None:
            return unknown
        return next(bucket.name for bucket in self.ranges if bucket.below is None or value < bucket.below)


class Join(BaseModel):
    """A lookup: ``column`` of the row that ``key`` finds in ``source``, where it equals our ``local`` column."""

    model_config = _STRICT

    source: Name
    local: str
    key: str
    column: str


class Labels(BaseModel):
    """Where the spoken names of the values stand: in ``source``, ``label`` beside ``key``."""

    model_config = _STRICT

    source: Name
    key: str
    label: str


class Dimension(BaseModel):
    """One way to cut a source into segments: exactly one of ``column``, ``buckets``, ``join``."""

    model_config = _STRICT

    label: str
    plural: str | None = None
    synonyms: tuple[str, ...] = ()
    source: Name
    column: str | None = None
    buckets: Buckets | None = None
    join: Join | None = None
    unknown: str = "unknown"
    labels: Labels | None = None
    value_labels: dict[str, str] = Field(default_factory=dict)
    value_synonyms: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_way(self) -> Dimension:
        ways = [way for way in ("column", "buckets", "join") if getattr(self, way) is not None]
        if len(ways) != 1:
            raise ValueError("give exactly one of column, buckets, join")
        if self.buckets is not None and any(bucket.name == self.unknown for bucket in self.buckets.ranges):
            raise ValueError(f"a range has the name of the unknown bucket, {self.unknown!r}")
        return self

    def plural_label(self) -> str:
        return self.plural if self.plural is not None else f"{self.label}s"

    def local_column(self) -> str:
        """The column of the own source that decides the segment."""
        if self.buckets is not None:
            return self.buckets.column
        return self.join.local if self.join is not None else str(self.column)
