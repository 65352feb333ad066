"""Which tallies a recomputation needs: as few as will do, each built from the semantics and from no plan's definition.

A *need* is a set of dimensions over some months of one metric. A need that another one contains is dropped: the verifier
adds the finer counts up itself. Joins and labels are looked up in tallies of their own sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.predicate import Predicate
from duly.protocol.plan.semantics import ColumnsTime, DateTime, Metric, NamedMonthTime, Semantics

Month = tuple[int | None, int]
YEAR, MONTH, DAY, DATE = "t.year", "t.month", "t.day", "t.date"


@dataclass(frozen=True, slots=True)
class Claim:
    """One step whose output is to be recomputed. ``tool`` is ``kind.name`` of a built-in (``metrics.change``).

    ``arguments`` are resolved: they hold values where the plan held references.
    """

    step_id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Need:
    """Counts of a metric by dimensions. ``months`` ``None`` means everything, without telling months apart."""

    metric: str
    dimensions: frozenset[str]
    months: frozenset[Month] | None
    by_day: bool = False

    def covers(self, other: Need) -> bool:
        """Whether this need's counts, added up, give the other's."""
        if (
            self.metric != other.metric
            or not other.dimensions <= self.dimensions
            or other.by_day > self.by_day
        ):
            return False
        if self.months is None:
            return other.months is None or self.by_day
        return other.months is not None and other.months <= self.months

    @property
    def read_id(self) -> str:
        """A name that two readers of the same claims agree on."""
        months = (
            "all"
            if self.months is None
            else ",".join(f"{year}-{month}" for year, month in _ordered(self.months))
        )
        return f"{self.metric}|{','.join(sorted(self.dimensions))}|{months}|{'day' if self.by_day else ''}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Key → value of another source, for a join or for labels."""

    source: str
    key: str
    column: str

    @property
    def read_id(self) -> str:
        return f"lookup|{self.source}|{self.key}|{self.column}"


def month_of(period: Mapping[str, Any]) -> Month:
    year = period.get("year")
    return (None if year is None else int(year), int(period["month"]))


def needs_of(claim: Claim, semantics: Semantics) -> list[Need]:
    """The needs of one claim, not yet merged. A claim of no metric tool has none."""
    name = claim.tool.removeprefix("metrics.")
    if not claim.tool.startswith("metrics.") or name == "catalogue":
        return []
    metric = str(claim.arguments["metric"])
    filtered = frozenset(str(item["dimension"]) for item in claim.arguments.get("filters") or ())
    if name in ("value", "segments"):
        period = claim.arguments.get("period")
        months = None if period is None else frozenset((month_of(period),))
    else:
        months = frozenset(month_of(claim.arguments[side]) for side in ("baseline", "current"))
    needs = [
        Need(metric, filtered | cut, months, name == "completeness" and _has_days(semantics, metric))
        for cut in _cuts(name, claim.arguments)
    ]
    if name in ("completeness", "decompose", "interact") and _has_days(semantics, metric):
        needs.append(Need(metric, frozenset(), None, True))
    return needs


def merged(needs: Iterable[Need]) -> list[Need]:
    """The fewest of the needs, months of equal ones joined, that cover all of them."""
    joined: dict[tuple[str, frozenset[str], bool, bool], Need] = {}
    for need in needs:
        key = (need.metric, need.dimensions, need.by_day, need.months is None)
        known = joined.get(key)
        if known is None or known.months is None or need.months is None:
            joined[key] = need
        else:
            joined[key] = Need(need.metric, need.dimensions, known.months | need.months, need.by_day)
    unique = list(joined.values())
    kept = [need for need in unique if not any(other != need and other.covers(need) for other in unique)]
    return sorted(kept, key=lambda need: need.read_id)


def lookups_of(claims: Sequence[Claim], semantics: Semantics) -> list[Lookup]:
    """The lookups that the dimensions of these claims need."""
    found: dict[str, Lookup] = {}
    for claim in claims:
        for need in needs_of(claim, semantics):
            for name in need.dimensions:
                part = semantics.dimensions[name]
                if part.join is not None:
                    _add(found, Lookup(part.join.source, part.join.key, part.join.column))
                if part.labels is not None:
                    _add(found, Lookup(part.labels.source, part.labels.key, part.labels.label))
    return sorted(found.values(), key=lambda lookup: lookup.read_id)


def tally_of(need: Need, semantics: Semantics) -> dict[str, Any]:
    """The arguments of ``verify.tally`` for one need."""
    metric = semantics.metrics[need.metric]
    population = _data(metric.population)
    observed = population + _data(metric.denominator)
    if metric.value is not None:
        observed = [*observed, {"column": metric.value, "op": "not_null"}]
    arguments: dict[str, Any] = {
        "source": metric.source,
        "groups": [
            *_time_groups(need, semantics, metric),
            *(_dimension_group(semantics, n) for n in sorted(need.dimensions)),
        ],
        "where": [*_data(metric.where), *_months_where(need, semantics, metric)],
        "counts": {
            "population": population,
            "observed": observed,
            "counted": observed + _data(metric.numerator),
        },
    }
    if metric.value is not None:
        arguments["sums"] = {"total": {"column": metric.value, "where": observed}}
    return arguments


def lookup_tally(lookup: Lookup) -> dict[str, Any]:
    """The arguments of ``verify.tally`` for one lookup."""
    groups = [{"name": "key", "column": lookup.key}, {"name": "value", "column": lookup.column}]
    return {"source": lookup.source, "groups": groups, "counts": {"rows": []}}


def _cuts(name: str, arguments: Mapping[str, Any]) -> list[frozenset[str]]:
    if name in ("value", "change", "completeness"):
        return [frozenset()]
    own = frozenset((str(arguments["dimension"]),))
    others = arguments.get("others" if name == "interact" else "strata") or ()
    return [own, *(own | {str(other)} for other in others)]


def _has_days(semantics: Semantics, metric: str) -> bool:
    return semantics.sources[semantics.metrics[metric].source].has_days()


def _data(predicates: Sequence[Predicate]) -> list[dict[str, Any]]:
    return [
        {
            "column": part.column,
            "op": part.op,
            "value": list(part.value) if isinstance(part.value, tuple) else part.value,
        }
        for part in predicates
    ]


def _time_groups(need: Need, semantics: Semantics, metric: Metric) -> list[dict[str, Any]]:
    time = semantics.sources[metric.source].time
    if time is None or (need.months is None and not need.by_day):
        return []
    if isinstance(time, DateTime):
        return [{"name": DATE, "column": time.column, "part": "day" if need.by_day else "month"}]
    if isinstance(time, NamedMonthTime):
        return [{"name": MONTH, "column": time.column}]
    groups = [{"name": YEAR, "column": time.year}, {"name": MONTH, "column": time.month}]
    return [*groups, {"name": DAY, "column": time.day}] if need.by_day else groups


def _dimension_group(semantics: Semantics, name: str) -> dict[str, Any]:
    part = semantics.dimensions[name]
    group: dict[str, Any] = {"name": f"d.{name}", "column": part.local_column()}
    if part.buckets is not None:
        group["below"] = [bucket.below for bucket in part.buckets.ranges if bucket.below is not None]
    return group


def _months_where(need: Need, semantics: Semantics, metric: Metric) -> list[dict[str, Any]]:
    """No fewer rows than the months need; what is too much is left out when the counts are added up."""
    time = semantics.sources[metric.source].time
    if need.months is None or time is None:
        return []
    months = _ordered(need.months)
    if isinstance(time, NamedMonthTime):
        numbers = {month for _, month in months}
        names = [name for name, number in time.names.items() if number in numbers]
        return [{"column": time.column, "op": "in", "value": names}] if names else []
    if isinstance(time, DateTime):
        return [
            {
                "column": time.column,
                "part": "month",
                "in": [f"{year:04d}-{month:02d}" for year, month in months],
            }
        ]
    assert isinstance(time, ColumnsTime)
    return [
        {"column": time.year, "op": "in", "value": sorted({year for year, _ in months if year is not None})},
        {"column": time.month, "op": "in", "value": sorted({month for _, month in months})},
    ]


def _ordered(months: Iterable[Month]) -> list[Month]:
    return sorted(months, key=lambda month: (month[0] or 0, month[1]))


def _add(found: dict[str, Lookup], lookup: Lookup) -> None:
    found[lookup.read_id] = lookup
