"""Two months in many wordings: which is the baseline, which the current one, and which year is meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flights import RATE, bound, month


@pytest.mark.parametrize(
    ("text", "baseline", "current"),
    [
        ("On-time arrivals fell in February compared with January. Find the cause.", 1, 2),
        ("On-time arrivals, December against November", 11, 12),
        ("on time arrivals december vs november", 11, 12),
        ("Why did on-time arrivals change between Oct and Dec 2013?", 10, 12),
        ("Why did punctuality change from December to October?", 12, 10),
        ("Explain on-time arrivals 2013-06 against 2013-05", 5, 6),
        ("Explain on-time arrivals 06/2013 versus 05/2013", 5, 6),
        ("Compared with May, on-time arrivals fell in June. Why?", 5, 6),
        ("Why were on-time arrivals worse in June than in May?", 5, 6),
        ("Why were on-time arrivals lower in June relative to the month before?", 5, 6),
        ("On-time arrivals fell to 69 % in June, down from 78 % in May. Why?", 5, 6),
        ("On-time arrivals fell from 78 % in May to 69 % in June. Why?", 5, 6),
        ("Compare on-time arrivals in June to May", 5, 6),
        ("Compare on-time arrivals in June and May", 5, 6),
        ("On-time arrivals: May → June. What happened?", 5, 6),
        ("On-time arrivals May-June, why?", 5, 6),
        ("Why did on-time arrivals fall in June?", 5, 6),
        ("What may be the cause of the fall of on-time arrivals in June over May?", 5, 6),
        ("Why did on-time arrivals fall in June, with May as the baseline?", 5, 6),
        ("In June on-time arrivals fell. Why was June so bad compared with May?", 5, 6),
        ("WHY DID ON-TIME ARRIVALS FALL IN JUNE COMPARED WITH MAY?", 5, 6),
        ("why did on-time arrivals fall in june compared with may", 5, 6),
        ("Pourquoi (why) did ON-TIME ÀRRIVALS fall in Jun. '13 versus May of 2013?", 5, 6),
        ("on-time arrivals june may", 5, 6),
        ("On-time arrivals fell in March compared with February; March was bad. Why?", 2, 3),
    ],
)
def test_two_months_in_many_wordings(text: str, baseline: int, current: int) -> None:
    binding = bound(text)
    assert binding.question is None
    assert (binding.playbook, binding.metric) == ("metric_diagnosis", RATE)
    assert (binding.parameters["baseline"], binding.parameters["current"]) == (
        month(baseline),
        month(current),
    )


MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
# Wording → whether the first month is the current one.
WORDINGS = {
    "On-time arrivals moved in {0} compared with {1}. Find the cause.": True,
    "Why did on-time arrivals change in {0} against {1}?": True,
    "on-time arrivals {0} vs {1}": True,
    "Why did on-time arrivals change from {0} to {1}?": False,
    "Why did on-time arrivals change between {0} and {1}?": False,
    "Compared to {0}, on-time arrivals moved in {1}. Why?": False,
    "Were on-time arrivals worse in {0} than in {1}, and why?": True,
    "on-time arrivals, {0} 2013 versus {1} 2013": True,
    "Explain on-time arrivals in {0} relative to {1}.": True,
    "Compare on-time arrivals in {0} with {1}": True,
}


@pytest.mark.parametrize("wording", WORDINGS)
def test_every_ordered_pair_of_months(wording: str) -> None:
    for first in range(1, 13):
        for second in range(1, 13):
            for style in (str, str.lower, lambda name: name[:3]):
                text = wording.format(style(MONTHS[first - 1]), style(MONTHS[second - 1]))
                binding = bound(text)
                if first == second:
                    assert binding.question is not None, text
                    continue
                current, baseline = (first, second) if WORDINGS[wording] else (second, first)
                assert binding.question is None, text
                assert binding.playbook == "metric_diagnosis", text
                assert binding.parameters["current"] == month(current), text
                assert binding.parameters["baseline"] == month(baseline), text


NOISE = st.lists(
    st.sampled_from(
        "please dear team honestly quickly, really? ok; hmm … 42 ✈ nevertheless tomorrow's".split()[:-1]
    ),
    max_size=5,
).map(" ".join)


@given(before=NOISE, after=NOISE, pair=st.permutations(range(12)).map(lambda order: order[:2]))
def test_noise_changes_nothing(before: str, after: str, pair: list[int]) -> None:
    current, baseline = pair
    text = f"{before} On-time arrivals fell in {MONTHS[current]} compared with {MONTHS[baseline]} {after}. Find the cause."
    binding = bound(text)
    assert binding.question is None
    assert binding.parameters["current"] == month(current + 1)
    assert binding.parameters["baseline"] == month(baseline + 1)


def test_a_year_is_implied_only_where_there_is_one() -> None:
    question = bound("Why did on-time arrivals fall in June?", None, 2012, 2013).question
    assert question is not None
    assert "several years" in question.text
    shared = bound("Why did on-time arrivals change between Oct and Dec 2012?", None, 2012, 2013)
    assert shared.parameters["baseline"] == month(10, 2012)
    assert shared.parameters["current"] == month(12, 2012)
    years = bound("Why did on-time arrivals fall in June 2013 compared with June 2012?", None, 2012, 2013)
    assert years.parameters["baseline"] == month(6, 2012)
    earlier = bound(
        "Why did on-time arrivals fall in June 2013 compared with a year earlier?", None, 2012, 2013
    )
    assert earlier.parameters["baseline"] == month(6, 2012)
