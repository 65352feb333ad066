"""From tallies to counts by segment: dimensions, buckets, joins, labels and months evaluated in Python."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from duly.protocol.plan.semantics import DateTime, NamedMonthTime, Semantics, Time

from .recompute_needs import DATE, DAY, MONTH, YEAR, Lookup, Month, Need

Tally = Mapping[str, Any]
Key = tuple[str, ...]


class Missing(Exception):
    """A tally that the recomputation needs was not made; ``args[0]`` says why."""


class Counted(NamedTuple):
    """The rows of one segment in one period, exactly."""

    population: int = 0
    observed: int = 0
    total: Fraction = Fraction(0)

    @property
    def missing(self) -> int:
        return self.population - self.observed

    def with_(self, other: Counted) -> Counted:
        return Counted(
            self.population + other.population, self.observed + other.observed, self.total + other.total
        )


def added(counts: Sequence[Counted]) -> Counted:
    return Counted(
        sum(count.population for count in counts),
        sum(count.observed for count in counts),
        sum((count.total for count in counts), Fraction(0)),
    )


Filters = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Recount:
    """Everything that was tallied for a set of claims; a text in place of a tally says why there is none."""

    semantics: Semantics
    needs: Mapping[Need, Tally | str]
    tables: Mapping[Lookup, Mapping[str, str] | str]

    def cells(
        self, metric: str, month: Month | None, filters: Filters, dimensions: Sequence[str] = ()
    ) -> dict[Key, Counted]:
        """Segment of each dimension → counts, in a month (``None``: in all). Raises ``Missing``."""
        months = None if month is None else frozenset((month,))
        wanted = Need(metric, frozenset(dimensions) | _filtered(filters), months)
        found: dict[Key, Counted] = {}
        for segments, _, counted in self._rows(wanted, month, filters):
            key = tuple(segments[name] for name in dimensions)
            found[key] = found.get(key, Counted()).with_(counted)
        return found

    def days(self, metric: str, month: Month | None, filters: Filters) -> dict[datetime.date, Counted]:
        """Day → counts, in a month or over everything. Raises ``Missing``."""
        months = None if month is None else frozenset((month,))
        found: dict[datetime.date, Counted] = {}
        for _, day, counted in self._rows(Need(metric, _filtered(filters), months, True), month, filters):
            if day is not None:
                found[day] = found.get(day, Counted()).with_(counted)
        return found

    def labels(self, dimension: str, segments: Sequence[str]) -> dict[str, str]:
        """The spoken name of each segment that has one. Raises ``Missing``."""
        part = self.semantics.dimensions[dimension]
        found = dict(part.value_labels)
        if part.labels is not None:
            table = self._table(Lookup(part.labels.source, part.labels.key, part.labels.label))
            found = {name: table[name] for name in segments if name in table and name != part.unknown} | found
        return {name: found[name] for name in segments if name in found}

    def _rows(
        self, wanted: Need, month: Month | None, filters: Filters
    ) -> Iterator[tuple[dict[str, str], datetime.date | None, Counted]]:
        """(dimension → segment, day, counts) of every group of rows in the month that passes the filters."""
        need, tally = self._tally(wanted)
        time = self._time(wanted.metric)
        groups, measures = tally["groups"], tally["measures"]
        segments = {name: self._segments(name, groups[f"d.{name}"]["values"]) for name in wanted.dimensions}
        allowed = _allowed(filters)
        totals = measures["total"] if "total" in measures else measures["counted"]
        clock = {name: groups[name] for name in (YEAR, MONTH, DAY, DATE) if name in groups}
        for index in range(int(tally["rows"])):
            when = {name: column["values"][column["codes"][index]] for name, column in clock.items()}
            if month is not None and _month(time, when) != month:
                continue
            row = {name: found[groups[f"d.{name}"]["codes"][index]] for name, found in segments.items()}
            if any(row[name] not in values for name, values in allowed.items()):
                continue
            counted = Counted(
                measures["population"][index], measures["observed"][index], _exact(totals[index])
            )
            yield row, _day(time, when) if wanted.by_day and need.by_day else None, counted

    def _time(self, metric: str) -> Time | None:
        return self.semantics.sources[self.semantics.metrics[metric].source].time

    def _tally(self, wanted: Need) -> tuple[Need, Tally]:
        reason = "no tally was asked for this"
        for need, tally in self.needs.items():
            if need.covers(wanted):
                if not isinstance(tally, str):
                    return need, tally
                reason = tally
        raise Missing(reason)

    def _segments(self, name: str, values: Sequence[str | None]) -> list[str]:
        """The segment of each distinct raw value of a dimension."""
        part = self.semantics.dimensions[name]
        if part.buckets is not None:
            names = [bucket.name for bucket in part.buckets.ranges]
            return [part.unknown if value is None else names[int(value)] for value in values]
        if part.join is not None:
            table = self._table(Lookup(part.join.source, part.join.key, part.join.column))
            return [part.unknown if value is None else table.get(value, part.unknown) for value in values]
        return [part.unknown if value is None else value for value in values]

    def _table(self, lookup: Lookup) -> Mapping[str, str]:
        table = self.tables.get(lookup, "no tally was asked for this")
        if isinstance(table, str):
            raise Missing(table)
        return table


def table_of(tally: Tally) -> dict[str, str]:
    """Key → value of a lookup; of several values of one key the least counts, as the semantics say."""
    keys, values = tally["groups"]["key"], tally["groups"]["value"]
    found: dict[str, str] = {}
    for code, other in zip(keys["codes"], values["codes"], strict=True):
        key, value = keys["values"][code], values["values"][other]
        if key is not None and value is not None:
            found[key] = min(value, found.get(key, value))
    return found


def _filtered(filters: Filters) -> frozenset[str]:
    return frozenset(str(item["dimension"]) for item in filters)


def _allowed(filters: Filters) -> dict[str, set[str]]:
    """Dimension → the values that pass; two filters of one dimension let either pass."""
    allowed: dict[str, set[str]] = {}
    for item in filters:
        allowed.setdefault(str(item["dimension"]), set()).add(str(item["value"]))
    return allowed


def _month(time: Time | None, when: Mapping[str, str | None]) -> Month | None:
    if isinstance(time, DateTime):
        text = when[DATE]
        return None if text is None else (int(text[:4]), int(text[5:7]))
    if isinstance(time, NamedMonthTime):
        name = when[MONTH]
        return None if name is None or name not in time.names else (None, time.names[name])
    year, month = when[YEAR], when[MONTH]
    return None if year is None or month is None else (_whole(year), _whole(month))


def _day(time: Time | None, when: Mapping[str, str | None]) -> datetime.date | None:
    if isinstance(time, DateTime):
        text = when[DATE]
        return None if text is None else datetime.date.fromisoformat(text)
    known = [_whole(part) for part in (when[YEAR], when[MONTH], when[DAY]) if part is not None]
    return datetime.date(*known) if len(known) == 3 else None


@functools.lru_cache(maxsize=1_024)
def _whole(text: str) -> int:
    """A number that an engine wrote as a text: ``5``, or ``5.0`` where the column is no integer."""
    return int(Fraction(text))


def _exact(value: int | float | Decimal | None) -> Fraction:
    return Fraction(0) if value is None else Fraction(value)
