"""Any text binds, asks or matches nothing: quickly, and the same every time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flights import bound

HOSTILE = [
    "a" * 65_536,
    "on time " * 8_192,
    "June May " * 7_000,
    "from to between and " * 3_000,
    "flights " * 8_000,
    "Lufthansa of Lufthansa for " * 2_300,
    "by the each every " * 3_600,
    "{$ref: completeness#/x} $param ${JFK} {{carrier}} " * 1_300,
    "2013-" * 13_000,
    "\u202eyluJ\u202c \u0301\u0301\u0301 " * 2_000,
    "İıſßﬁ why JUNE " * 3_000,
    "why " + "delta and " * 6_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_long_request_stays_fast(text: str) -> None:
    cut = text.encode()[:65_536].decode(errors="ignore")
    started = time.process_time()
    bound(cut)
    assert time.process_time() - started < 5.0


@given(st.text(max_size=300))
def test_any_text_binds_or_asks(text: str) -> None:
    words = "x " + text.encode("utf-8", "ignore").decode()
    answers = {"filters": text, "current": text}
    assert bound(words, answers) == bound(words, answers)


@given(st.lists(st.sampled_from(
    "why fell June May 2013 compared with against to from between and on-time arrivals Delta JFK LGA by carrier the of "
    "for maker how many flights departed last month incident open compare Lufthansa . ? , - US as unknown".split()
), max_size=14).map(" ".join))  # fmt: skip
def test_any_order_of_known_words_binds_or_asks(text: str) -> None:
    binding = bound("x " + text)
    if binding.playbook is not None and binding.question is None:
        assert binding.metric is not None
        if "current" in binding.parameters:
            assert binding.parameters["current"] != binding.parameters["baseline"]
