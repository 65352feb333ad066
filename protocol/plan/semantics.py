"""What the numbers of a package mean: sources with their time, metrics, dimensions. The models; ``semantics_yaml`` reads them.

A metric counts rows of one source inside ``where``:

    population  what should have been observed (``population`` predicates; every row where there are none)
    observed    the rows of the population whose outcome is known (``denominator`` predicates)
    numerator   the observed rows that count (``numerator`` predicates), or for a mean the sum of ``value``
    missing     population − observed

    rate   numerator ÷ observed, in percent      share  the same, for metrics where nothing can be missing
    mean   sum of ``value`` ÷ observed           count  numerator

``Semantics`` is immutable and pure; who has the data is the business of hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..wire.errors import RequestError
from .dimension import Dimension, Name, Number
from .predicate import Predicate, text_of

_STRICT = ConfigDict(extra="forbid", frozen=True)
T = TypeVar("T")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


class ColumnsTime(BaseModel):
    """Year, month and perhaps day stand in integer columns of their own."""

    model_config = _STRICT

    kind: Literal["columns"]
    year: str
    month: str
    day: str | None = None


class NamedMonthTime(BaseModel):
    """A month by name and no year: ``names`` gives the number (1 to 12) of each value of ``column``."""

    model_config = _STRICT

    kind: Literal["named_month"]
    column: str
    names: dict[str, Annotated[int, Field(ge=1, le=12)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _unambiguous(self) -> NamedMonthTime:
        if len(set(self.names.values())) != len(self.names):
            raise ValueError("two names stand for the same month")
        return self


class DateTime(BaseModel):
    """A column of dates (or of timestamps without a zone) carries the day."""

    model_config = _STRICT

    kind: Literal["date"]
    column: str


Time = Annotated[ColumnsTime | NamedMonthTime | DateTime, Field(discriminator="kind")]


class Source(BaseModel):
    """A table that the manifest locates under the same name. Lookup tables have no ``time``."""

    model_config = _STRICT

    label: str | None = None
    time: Time | None = None
    randomised_experiment: bool = False

    def has_days(self) -> bool:
        """Whether a day can be told from another, so that completeness can be judged day by day."""
        return isinstance(self.time, DateTime) or (
            isinstance(self.time, ColumnsTime) and self.time.day is not None
        )


class Completeness(BaseModel):
    """When a day counts as badly observed: less than ``observed_share_min`` of its population has an outcome."""

    model_config = _STRICT

    observed_share_min: float = Field(gt=0, le=1)


class MetricCheck(BaseModel):
    """A check that every plan over this metric gets, whatever it asks for itself.

    ``recompute``: every material value again, by the verifier's own way. ``range``: the value lies in [min, max].
    ``sums_to``: the contributions of the segments sum to the change. ``tolerance`` is in the unit of the value.
    """

    model_config = _STRICT

    kind: Literal["recompute", "range", "sums_to"]
    tolerance: float = Field(default=1e-9, ge=0)
    min: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _bounds_fit(self) -> MetricCheck:
        bounded = self.min is not None or self.max is not None
        if (self.kind == "range") != bounded:
            raise ValueError("min and max belong to the kind range, which needs one of them")
        return self


class Nouns(BaseModel):
    """What a person calls the rows: the population, the observed ones, those that count."""

    model_config = _STRICT

    population: str = "rows"
    observed: str = "observed rows"
    numerator: str = "rows that count"


class ValueRange(BaseModel):
    """The least and greatest value that a missing row of a mean could have had."""

    model_config = _STRICT

    min: Number
    max: Number


class Metric(BaseModel):
    """One defined number. See the module docstring for what population, observed and numerator count."""

    model_config = _STRICT

    label: str
    definition: str
    synonyms: tuple[str, ...] = ()
    kind: Literal["rate", "share", "mean", "count"]
    source: Name
    where: tuple[Predicate, ...] = ()
    numerator: tuple[Predicate, ...] = ()
    denominator: tuple[Predicate, ...] = ()
    population: tuple[Predicate, ...] = ()
    value: str | None = None
    value_range: ValueRange | None = None
    unit: str
    direction: Literal["up", "down", "none"]
    nouns: Nouns = Nouns()
    dimensions: tuple[Name, ...] = ()
    completeness: Completeness | None = None
    checks: tuple[MetricCheck, ...] = ()

    @model_validator(mode="after")
    def _parts_fit_kind(self) -> Metric:
        if (self.kind == "mean") != (self.value is not None):
            raise ValueError("`value` names the column of a mean, and only of a mean")
        if self.kind == "mean" and self.numerator:
            raise ValueError("a mean has no numerator predicates")
        if self.kind in ("rate", "share") and not self.numerator:
            raise ValueError(f"a {self.kind} needs numerator predicates")
        if self.kind in ("rate", "share") and self.unit != "percent":
            raise ValueError(f"the unit of a {self.kind} is percent")
        if self.kind == "share" and self.denominator:
            raise ValueError("a share divides by its whole population; with missing outcomes it is a rate")
        if self.value_range is not None and self.kind != "mean":
            raise ValueError("value_range belongs to a mean")
        return self

    def observed_where(self) -> tuple[Predicate, ...]:
        """What makes a row of the population an observed one; a mean needs its value."""
        extra = (Predicate(column=self.value, op="not_null"),) if self.value is not None else ()
        return self.denominator + extra

    def columns(self) -> frozenset[str]:
        """Every column of the source that the definition reads, time and dimensions aside."""
        named = {part.column for part in self.where + self.numerator + self.denominator + self.population}
        return frozenset(named | ({self.value} if self.value is not None else set()))

    def definition_text(self) -> str:
        """The definition with its predicates, for the person who reads a value."""
        parts = [self.definition.rstrip(".")]
        if self.kind == "mean":
            parts.append(f"mean of {self.value} over rows where {text_of(self.observed_where())}")
        else:
            parts.append(f"counted: {text_of(self.numerator)}")
            if self.kind != "count":
                parts.append(f"out of: {text_of(self.population + self.denominator)}")
        if self.where:
            parts.append(f"only rows where {text_of(self.where)}")
        return "; ".join(parts)


class Semantics(BaseModel):
    """The whole of a package's ``semantics.yaml``."""

    model_config = _STRICT

    version: str
    sources: dict[Name, Source] = Field(min_length=1)
    dimensions: dict[Name, Dimension] = Field(default_factory=dict)
    metrics: dict[Name, Metric] = Field(min_length=1)

    def metric(self, name: str) -> Metric:
        """The metric of that name. Raises ``RequestError`` ``request.unknown_metric``."""
        return _named(self.metrics, name, "metric")

    def dimension(self, name: str) -> Dimension:
        """The dimension of that name. Raises ``RequestError`` ``request.unknown_dimension``."""
        return _named(self.dimensions, name, "dimension")

    def dimension_of(self, metric: str, name: str) -> Dimension:
        """A dimension by which this metric may be cut or filtered; an error as for an unknown one otherwise."""
        allowed = {key: self.dimensions[key] for key in self.metric(metric).dimensions}
        return _named(allowed, name, "dimension")

    def sources_of(self, metric: str) -> tuple[str, ...]:
        """Every source that a value of this metric may read, its own first."""
        own = self.metric(metric)
        found = [own.source]
        for name in own.dimensions:
            part = self.dimensions[name]
            found += [lookup.source for lookup in (part.join, part.labels) if lookup is not None]
        return tuple(dict.fromkeys(found))

    def to_data(self) -> dict[str, Any]:
        """The semantics as plain data, from which ``Semantics.model_validate`` gives an equal one."""
        return self.model_dump(mode="json")


def _named(table: Mapping[str, T], name: str, what: str) -> T:
    found = table.get(name)
    if found is None:
        raise RequestError(
            f"request.unknown_{what}",
            f"There is no {what} {name!r} here.",
            hint=f"Known: {', '.join(sorted(table)) or 'none'}.",
        )
    return found


def period_text(period: Mapping[str, Any] | None) -> str:
    """A period for a person: ``June 2013``, ``June`` where the source has no years, ``all periods`` for ``None``."""
    if period is None:
        return "all periods"
    month = MONTHS[int(period["month"]) - 1]
    return month if period.get("year") is None else f"{month} {period['year']}"
