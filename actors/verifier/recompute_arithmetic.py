"""The verifier's own arithmetic of changes, exact, in another form than the tools use.

With t = total ÷ all observed rows and w = observed ÷ all observed rows of a segment, its contribution is

    (t1 − t0) − (w1 − w0) · (R0 + R1)/2

which is the rate effect (w0 + w1)/2 · (r1 − r0) plus the mix effect; the latter is what the rate effect leaves. Here a
segment that one period lacks needs no rate from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from duly.protocol.plan.semantics import Metric

from .recompute_cells import Counted, added

Range = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class Part:
    """One segment of a change."""

    segment: str
    before: Counted
    after: Counted
    contribution: Fraction
    rate: Fraction | None
    mix: Fraction | None
    interval: Range | None

    def touches(self, other: Part) -> bool:
        """Whether the closed intervals meet; an unknown interval meets every other."""
        if self.interval is None or other.interval is None:
            return True
        return max(self.interval[0], other.interval[0]) <= min(self.interval[1], other.interval[1])


def scale(metric: Metric) -> int:
    return 100 if metric.kind in ("rate", "share") else 1


def value(metric: Metric, counted: Counted) -> Fraction | None:
    """The metric's value, in its unit."""
    if metric.kind == "count":
        return counted.total
    return scale(metric) * counted.total / counted.observed if counted.observed else None


def difference(metric: Metric, before: Counted, after: Counted) -> Fraction | None:
    first, second = value(metric, before), value(metric, after)
    return None if first is None or second is None else second - first


def extremes(metric: Metric, *counts: Counted) -> Range | None:
    """What one missing row could have added to the total; ``None`` where rows are missing and nothing bounds them."""
    if metric.kind != "mean":
        return Fraction(0), Fraction(1)
    if metric.value_range is not None:
        return Fraction(metric.value_range.min), Fraction(metric.value_range.max)
    return None if any(counted.missing for counted in counts) else (Fraction(0), Fraction(0))


def all_known(counted: Counted, each: Fraction) -> Counted:
    """As if every missing row had come out as ``each``."""
    return Counted(counted.population, counted.population, counted.total + each * counted.missing)


def bounds(metric: Metric, before: Counted, after: Counted) -> Range | None:
    """The least and the greatest change over all outcomes of the missing rows."""
    ends = extremes(metric, before, after)
    if ends is None:
        return None
    found = [
        difference(metric, all_known(before, first), all_known(after, second))
        for first in ends
        for second in ends
    ]
    known = [change for change in found if change is not None]
    return (min(known), max(known)) if known else (Fraction(0), Fraction(0))


def parts(metric: Metric, before: Mapping[str, Counted], after: Mapping[str, Counted]) -> list[Part]:
    """Every segment, the greatest part of the change first, equal ones by name."""
    whole = (added(list(before.values())), added(list(after.values())))
    found = []
    for segment in {*before, *after}:
        cell = (before.get(segment, Counted()), after.get(segment, Counted()))
        contribution = _contribution(metric, cell, whole)
        rate = None if metric.kind == "count" else _rate(metric, cell, whole)
        found.append(
            Part(
                segment,
                *cell,
                contribution,
                rate,
                None if rate is None else contribution - rate,
                _interval(metric, cell, whole),
            )
        )
    change = difference(metric, *whole) or Fraction(0)
    return sorted(found, key=lambda part: (part.contribution * (1 if change < 0 else -1), part.segment))


Pair = tuple[Counted, Counted]


def _contribution(metric: Metric, cell: Pair, whole: Pair) -> Fraction:
    if metric.kind == "count":
        return cell[1].total - cell[0].total
    totals = [part.total / all_.observed for part, all_ in zip(cell, whole, strict=True)]
    weights = [Fraction(part.observed, all_.observed) for part, all_ in zip(cell, whole, strict=True)]
    middle = (whole[0].total / whole[0].observed + whole[1].total / whole[1].observed) / 2
    return scale(metric) * ((totals[1] - totals[0]) - (weights[1] - weights[0]) * middle)


def _rate(metric: Metric, cell: Pair, whole: Pair) -> Fraction:
    if not cell[0].observed or not cell[1].observed:
        return Fraction(0)
    weight = (
        sum((Fraction(p.observed, a.observed) for p, a in zip(cell, whole, strict=True)), Fraction(0)) / 2
    )
    return scale(metric) * weight * (cell[1].total / cell[1].observed - cell[0].total / cell[0].observed)


def _interval(metric: Metric, cell: Pair, whole: Pair) -> Range | None:
    ends = extremes(metric, *cell)
    if ends is None:
        return None
    found = []
    for first in ends:
        for second in ends:
            own = (all_known(cell[0], first), all_known(cell[1], second))
            rest = tuple(
                Counted(a.population, a.observed + o.observed - p.observed, a.total + o.total - p.total)
                for a, o, p in zip(whole, own, cell, strict=True)
            )
            found.append(_contribution(metric, own, (rest[0], rest[1])))
    return min(found), max(found)
