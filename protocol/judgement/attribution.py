"""How much of a change each segment accounts for: exact arithmetic of a rate, a share, a mean or a count.

Words: a *cell* is one segment in one period, with ``population`` (rows that should have an outcome), ``observed`` (rows
that have one) and ``total`` (rows that count, or the sum of a mean's values). ``missing`` = population − observed. With
w = the segment's share of all observed rows, r = total ÷ observed of the segment, R = the same of everything:

    contribution = rate effect + mix effect
    rate effect  = (w0 + w1)/2 · (r1 − r0)
    mix effect   = (w1 − w0) · ((r0 + r1)/2 − (R0 + R1)/2)

The contributions of all segments add up to R1 − R0. A segment that one period lacks takes its rate from the other. For a
count the contribution is total1 − total0, and there is neither rate nor mix.

An interval (DESIGN 10) is the widest of four: the segment's own missing rows all fail or all pass in each period, while
the others stay as observed. Segments whose closed intervals overlap are *not separable*.

Everything is computed with fractions and rounded by whoever shows it, so equal contributions are equal, intervals that
touch overlap, and a rank never depends on the order of a sum. Values come out multiplied by ``scale`` (100 for percent).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

# One segment is called the seat of a change when it holds half of it and at least twice its share of the rows: less
# could be its size alone.
CONCENTRATED_SHARE_MIN = Fraction(1, 2)
CONCENTRATED_WEIGHT_FACTOR = 2

Exact = Fraction | int


@dataclass(frozen=True, slots=True)
class Cell:
    """One segment in one period."""

    population: int = 0
    observed: int = 0
    total: Exact = 0

    @property
    def missing(self) -> int:
        return self.population - self.observed

    def plus(self, other: Cell) -> Cell:
        return Cell(
            self.population + other.population, self.observed + other.observed, self.total + other.total
        )

    def filled(self, value: Exact) -> Cell:
        """The cell as it would be had every missing row come out as ``value``."""
        return Cell(self.population, self.population, self.total + self.missing * value)


@dataclass(frozen=True, slots=True)
class Measure:
    """How a metric turns cells into a value: its arithmetic, its scale, and what a missing row could have been."""

    kind: Literal["ratio", "count"]
    scale: int = 1
    worst: Exact | None = 0
    best: Exact | None = 1

    def value(self, cell: Cell) -> Fraction | None:
        """The value of a cell; ``None`` where a ratio has nothing observed."""
        if self.kind == "count":
            return Fraction(cell.total * self.scale)
        return None if cell.observed == 0 else Fraction(self.scale * cell.total) / cell.observed

    def fills(self, cells: Iterable[Cell]) -> tuple[Exact, Exact] | None:
        """The two extremes of a missing row; ``None`` where rows are missing and nothing bounds them."""
        if self.worst is not None and self.best is not None:
            return self.worst, self.best
        return (0, 0) if all(cell.missing == 0 for cell in cells) else None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and greatest change when all missing rows fall either way; both ``None`` where nothing bounds them."""

    low: Fraction | None
    high: Fraction | None

    @property
    def sign_certain(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class Share:
    """What one segment accounts for."""

    segment: str
    baseline: Cell
    current: Cell
    contribution: Fraction
    rate_effect: Fraction | None
    mix_effect: Fraction | None
    low: Fraction | None
    high: Fraction | None

    def overlaps(self, other: Share) -> bool:
        """Whether the two cannot be told apart; without an interval nothing can."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return True
        return self.low <= other.high and other.low <= self.high


def summed(cells: Iterable[Cell]) -> Cell:
    total = Cell()
    for cell in cells:
        total = total.plus(cell)
    return total


def change_bounds(measure: Measure, baseline: Cell, current: Cell) -> Bounds:
    """The extremes of the change over every way in which the missing rows could have come out."""
    fills = measure.fills((baseline, current))
    if fills is None:
        return Bounds(None, None)
    worst, best = fills
    low = _difference(measure, baseline.filled(best), current.filled(worst))
    high = _difference(measure, baseline.filled(worst), current.filled(best))
    return Bounds(low, high)


def shares(measure: Measure, baseline: Mapping[str, Cell], current: Mapping[str, Cell]) -> list[Share]:
    """Every segment of either period, the greatest part of the change first, ties by name."""
    whole0, whole1 = summed(baseline.values()), summed(current.values())
    found = []
    for segment in sorted(set(baseline) | set(current)):
        cell0, cell1 = baseline.get(segment, Cell()), current.get(segment, Cell())
        rate, mix = _effects(measure, cell0, cell1, whole0, whole1)
        low, high = _interval(measure, cell0, cell1, whole0, whole1)
        if measure.kind == "count":
            found.append(Share(segment, cell0, cell1, rate, None, None, low, high))
        else:
            found.append(Share(segment, cell0, cell1, rate + mix, rate, mix, low, high))
    change = _difference(measure, whole0, whole1)
    return sorted(
        found, key=lambda share: (share.contribution if change < 0 else -share.contribution, share.segment)
    )


def inseparable(ranked: Sequence[Share]) -> list[tuple[str, str]]:
    """Every pair of the given shares whose intervals overlap, in rank order."""
    return [
        (left.segment, right.segment)
        for index, left in enumerate(ranked)
        for right in ranked[index + 1 :]
        if left.overlaps(right)
    ]


def apart_from(ranked: Sequence[Share], leading: Sequence[Share]) -> list[Share]:
    """The shares whose interval lies apart from that of every leading one, in rank order.

    Every leading interval overlaps the first, so together they are one interval, and one comparison a share is enough.
    """
    lows = [share.low for share in leading if share.low is not None]
    highs = [share.high for share in leading if share.high is not None]
    if len(lows) != len(leading) or len(highs) != len(leading):
        return []
    low, high = min(lows), max(highs)
    return [
        share
        for share in ranked
        if share.low is not None and share.high is not None and (share.low > high or share.high < low)
    ]


def spread(measure: Measure, ranked: Sequence[Share]) -> tuple[str, int, int]:
    """(kind, segments that moved with the change, segments that can be compared).

    A segment can be compared where both periods observed it (a count: always). ``concentrated``: the first segment
    holds at least half of the change and twice its own share of the rows. ``broad``: every comparable segment moved
    with the change. ``mixed``: neither. ``still``: there is no change.
    """
    change = _difference(
        measure, summed(share.baseline for share in ranked), summed(share.current for share in ranked)
    )
    comparable = [share for share in ranked if _both(measure, share)]
    moved = sum(1 for share in comparable if _difference(measure, share.baseline, share.current) * change > 0)
    if change == 0:
        return "still", moved, len(comparable)
    top = ranked[0]
    held = top.contribution / change
    if (
        len(ranked) > 1
        and held >= CONCENTRATED_SHARE_MIN
        and held >= CONCENTRATED_WEIGHT_FACTOR * _weight(top, ranked)
    ):
        return "concentrated", moved, len(comparable)
    broad = len(comparable) > 1 and moved == len(comparable)
    return ("broad" if broad else "mixed"), moved, len(comparable)


def _both(measure: Measure, share: Share) -> bool:
    return measure.kind == "count" or (share.baseline.observed > 0 and share.current.observed > 0)


def _weight(top: Share, ranked: Sequence[Share]) -> Fraction:
    """The segment's mean share of the observed rows over both periods."""
    whole0 = sum(share.baseline.observed for share in ranked)
    whole1 = sum(share.current.observed for share in ranked)
    parts = ((top.baseline.observed, whole0), (top.current.observed, whole1))
    return sum((Fraction(part, whole) for part, whole in parts if whole), Fraction(0)) / 2


def _difference(measure: Measure, baseline: Cell, current: Cell) -> Fraction:
    before, after = measure.value(baseline), measure.value(current)
    return Fraction(0) if before is None or after is None else after - before


def _effects(
    measure: Measure, cell0: Cell, cell1: Cell, whole0: Cell, whole1: Cell
) -> tuple[Fraction, Fraction]:
    """(rate effect, mix effect), scaled; for a count (difference, 0)."""
    if measure.kind == "count":
        return Fraction((cell1.total - cell0.total) * measure.scale), Fraction(0)
    if cell0.observed == 0 and cell1.observed == 0:
        return Fraction(0), Fraction(0)
    known = cell0 if cell0.observed else cell1
    rate0 = Fraction(known.total) / known.observed
    rate1 = Fraction(cell1.total) / cell1.observed if cell1.observed else rate0
    weight0, weight1 = Fraction(cell0.observed, whole0.observed), Fraction(cell1.observed, whole1.observed)
    middle = (Fraction(whole0.total) / whole0.observed + Fraction(whole1.total) / whole1.observed) / 2
    rate = (weight0 + weight1) / 2 * (rate1 - rate0)
    mix = (weight1 - weight0) * ((rate0 + rate1) / 2 - middle)
    return rate * measure.scale, mix * measure.scale


def _interval(
    measure: Measure, cell0: Cell, cell1: Cell, whole0: Cell, whole1: Cell
) -> tuple[Fraction | None, Fraction | None]:
    fills = measure.fills((cell0, cell1))
    if fills is None:
        return None, None
    found = []
    for before in fills:
        for after in fills:
            own0, own1 = cell0.filled(before), cell1.filled(after)
            all0 = _replaced(whole0, cell0, own0)
            all1 = _replaced(whole1, cell1, own1)
            found.append(sum(_effects(measure, own0, own1, all0, all1), Fraction(0)))
    return min(found), max(found)


def _replaced(whole: Cell, old: Cell, new: Cell) -> Cell:
    return Cell(
        whole.population - old.population + new.population,
        whole.observed - old.observed + new.observed,
        whole.total - old.total + new.total,
    )
