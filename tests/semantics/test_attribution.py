"""The arithmetic of changes: it is exact, and it says when nothing may be said."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duly.protocol.judgement.attribution import (
    Cell,
    Measure,
    Share,
    apart_from,
    change_bounds,
    inseparable,
    shares,
    spread,
    summed,
)

RATE, COUNT = Measure("ratio", 100), Measure("count")


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    population = draw(st.integers(0, 40))
    observed = draw(st.integers(0, population))
    return Cell(population, observed, draw(st.integers(0, observed)))


sides = st.dictionaries(st.sampled_from("abcdef"), cells(), max_size=6)


@given(sides, sides)
def test_segments_sum_exactly_to_the_change(baseline: dict[str, Cell], current: dict[str, Cell]) -> None:
    before, after = RATE.value(summed(baseline.values())), RATE.value(summed(current.values()))
    assume(before is not None and after is not None)
    assert before is not None and after is not None
    found = shares(RATE, baseline, current)
    assert sum(share.contribution for share in found) == after - before
    for share in found:
        assert share.rate_effect is not None and share.mix_effect is not None
        assert share.contribution == share.rate_effect + share.mix_effect


@given(sides, sides)
def test_counts_sum_exactly_to_the_change(baseline: dict[str, Cell], current: dict[str, Cell]) -> None:
    found = shares(COUNT, baseline, current)
    change = summed(current.values()).total - summed(baseline.values()).total
    assert sum(share.contribution for share in found) == change


@given(cells(), cells(), st.data())
def test_bounds_hold_every_outcome_of_the_missing_rows(
    before: Cell, after: Cell, data: st.DataObject
) -> None:
    assume(before.population and after.population)
    bounds = change_bounds(RATE, before, after)
    assert bounds.low is not None and bounds.high is not None
    one = data.draw(st.integers(0, before.missing))
    two = data.draw(st.integers(0, after.missing))
    change = 100 * (
        Fraction(after.total + two, after.population) - Fraction(before.total + one, before.population)
    )
    assert bounds.low <= change <= bounds.high
    if bounds.sign_certain:
        assert change != 0
        assert (change > 0) == (bounds.low > 0)


@given(sides, sides)
def test_an_interval_is_the_widest_of_four(baseline: dict[str, Cell], current: dict[str, Cell]) -> None:
    assume(summed(baseline.values()).observed and summed(current.values()).observed)
    for share in shares(RATE, baseline, current):
        seen = []
        for first in (0, 1):
            for second in (0, 1):
                own = (
                    {share.segment: share.baseline.filled(first)},
                    {share.segment: share.current.filled(second)},
                )
                moved = shares(RATE, baseline | own[0], current | own[1])
                seen.append(next(item.contribution for item in moved if item.segment == share.segment))
        assert (share.low, share.high) == (min(seen), max(seen))
        if share.baseline.missing == share.current.missing == 0:
            assert share.low == share.high == share.contribution


def test_an_absent_side_takes_the_other_periods_rate() -> None:
    found = {
        share.segment: share
        for share in shares(RATE, {"a": Cell(10, 10, 5)}, {"a": Cell(10, 10, 5), "new": Cell(10, 10, 10)})
    }
    assert found["new"].rate_effect == 0
    assert found["new"].mix_effect == Fraction(100) * Fraction(1, 2) * (
        1 - (Fraction(1, 2) + Fraction(3, 4)) / 2
    )


def test_a_mean_without_a_range_is_bounded_only_when_nothing_is_missing() -> None:
    mean = Measure("ratio", 1, None, None)
    whole = Cell(4, 4, Fraction(10))
    assert change_bounds(mean, whole, Cell(4, 4, Fraction(6))).sign_certain
    open_ = change_bounds(mean, whole, Cell(5, 4, Fraction(6)))
    assert (open_.low, open_.high, open_.sign_certain) == (None, None, False)


def test_no_change_has_no_sign() -> None:
    assert not change_bounds(RATE, Cell(4, 4, 2), Cell(8, 8, 4)).sign_certain


def _share(name: str, contribution: int, low: int | None, high: int | None) -> Share:
    bounds = [None if bound is None else Fraction(bound) for bound in (low, high)]
    return Share(name, Cell(1, 1, 1), Cell(1, 1, 1), Fraction(contribution), None, None, *bounds)


def test_touching_intervals_are_not_separable() -> None:
    ranked = [_share("a", -5, -6, -4), _share("b", -4, -4, -3), _share("c", -2, -2, -1)]
    assert inseparable(ranked) == [("a", "b")]
    assert [share.segment for share in apart_from(ranked, ranked[:2])] == ["c"]
    unknown = [_share("a", -5, None, None), _share("b", -1, -1, -1)]
    assert inseparable(unknown) == [("a", "b")]
    assert apart_from(unknown, unknown[:1]) == []


@pytest.mark.parametrize(
    ("baseline", "current", "kind"),
    [
        ({"a": (50, 40), "b": (50, 40)}, {"a": (50, 20), "b": (50, 20)}, "broad"),
        ({"a": (10, 9), "b": (90, 45)}, {"a": (10, 0), "b": (90, 44)}, "concentrated"),
        (
            {"a": (40, 30), "b": (40, 30), "c": (20, 5)},
            {"a": (40, 20), "b": (40, 20), "c": (20, 8)},
            "mixed",
        ),
        ({"a": (50, 40), "b": (50, 20)}, {"a": (50, 40), "b": (50, 20)}, "still"),
        ({"a": (50, 40)}, {"a": (50, 20)}, "mixed"),
    ],
)
def test_spread(baseline: dict[str, tuple[int, int]], current: dict[str, tuple[int, int]], kind: str) -> None:
    both = [{name: Cell(n, n, total) for name, (n, total) in side.items()} for side in (baseline, current)]
    assert spread(RATE, shares(RATE, *both))[0] == kind
