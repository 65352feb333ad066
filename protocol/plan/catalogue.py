"""The catalogue: names, types, coverage and known values of the sources. It is what a planner gets instead of data.

A host reads it (``hosts/tools/catalogue``); everything that binds a request reads only this.
"""

from __future__ import annotations

from pydantic import Field

from ..wire import canon
from ..wire.ids import Digest
from ..wire.model import Model
from .semantics import MONTHS


class Column(Model):
    """A column and its type in the words of the engine."""

    name: str
    type: str


class MonthCoverage(Model):
    """One month that a source has rows of. ``year`` is ``None`` where the source has none."""

    year: int | None
    month: int = Field(ge=1, le=12)
    rows: int = Field(ge=0)

    def period(self) -> dict[str, int | None]:
        """The month as tools take it: ``{year, month}``."""
        return {"year": self.year, "month": self.month}


class SourceCatalogue(Model):
    """One source. ``fingerprint`` tells that its file changed; ``coverage`` is in order of time."""

    name: str
    fingerprint: str
    rows: int
    columns: list[Column] = Field(default_factory=list)
    coverage: list[MonthCoverage] = Field(default_factory=list)


class DimensionValue(Model):
    """A segment of a dimension, its spoken name where it has one, and how many rows fall into it."""

    value: str
    label: str | None = None
    rows: int = 0

    def text(self) -> str:
        return (
            self.value if self.label is None or self.label == self.value else f"{self.label} ({self.value})"
        )


class DimensionCatalogue(Model):
    """The known values of a dimension, the most frequent first; ``complete`` unless more were left out."""

    name: str
    values: list[DimensionValue] = Field(default_factory=list)
    complete: bool = True


class Catalogue(Model):
    """Everything that a planner may know about the data of a package."""

    sources: dict[str, SourceCatalogue] = Field(default_factory=dict)
    dimensions: dict[str, DimensionCatalogue] = Field(default_factory=dict)

    def digest(self) -> Digest:
        return canon.digest("catalogue", self.to_data())

    def coverage_of(self, source: str | None) -> list[MonthCoverage]:
        """The months of a source, in order of time; of every source where none is named."""
        if source is not None:
            return list(self.sources[source].coverage) if source in self.sources else []
        months = {(m.year, m.month): m for entry in self.sources.values() for m in entry.coverage}
        return [months[key] for key in sorted(months, key=lambda key: (key[0] or 0, key[1]))]

    def values_of(self, dimension: str) -> list[DimensionValue]:
        """The known values of a dimension; none for an unknown one."""
        found = self.dimensions.get(dimension)
        return list(found.values) if found is not None else []


def coverage_text(months: list[MonthCoverage]) -> str:
    """Months for a person, in runs: ``January 2013 to December 2013``, ``February, March, May to December``."""
    runs: list[list[MonthCoverage]] = []
    for month in months:
        if runs and _follows(runs[-1][-1], month):
            runs[-1].append(month)
        else:
            runs.append([month])
    texts = []
    for run in runs:
        ends = [_month_text(run[0])] if len(run) == 1 else [_month_text(run[0]), _month_text(run[-1])]
        texts.append(" to ".join(ends))
    return ", ".join(texts) or "no month"


def _follows(before: MonthCoverage, after: MonthCoverage) -> bool:
    if before.year is None or after.year is None:
        return before.year == after.year and after.month == before.month + 1
    return before.year * 12 + before.month + 1 == after.year * 12 + after.month


def _month_text(month: MonthCoverage) -> str:
    name = MONTHS[month.month - 1]
    return name if month.year is None else f"{name} {month.year}"
