"""The verdict over checks: a truth table, and that nothing unchecked ever passes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.judgement.checks import Check
from duly.protocol.judgement.verdict import judge


def check(outcome: str, mandatory: bool = True, kind: str = "rule") -> Check:
    return Check.model_validate(
        {
            "check_id": f"{kind}:{outcome}",
            "kind": kind,
            "step_id": "s1",
            "outcome": outcome,
            "reason": "why",
            "mandatory": mandatory,
        }
    )


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], "inconclusive"),
        (["pass"], "pass"),
        (["pass", "pass"], "pass"),
        (["fail"], "fail"),
        (["pass", "fail"], "fail"),
        (["not_run", "fail"], "fail"),
        (["not_run"], "inconclusive"),
        (["pass", "not_run"], "inconclusive"),
    ],
)
def test_table(outcomes: list[str], expected: str):
    for order in itertools.permutations(outcomes):
        assert judge([check(one) for one in order])[0] == expected


def test_what_is_not_mandatory_may_stay_open_and_may_not_fail():
    assert judge([check("pass"), check("not_run", mandatory=False)])[0] == "pass"
    assert judge([check("not_run", mandatory=False)])[0] == "inconclusive"
    assert judge([check("pass"), check("fail", mandatory=False)])[0] == "fail"


@given(st.lists(st.tuples(st.sampled_from(["pass", "fail", "not_run"]), st.booleans()), max_size=6))
def test_a_critic_only_lowers(found: list[tuple[str, bool]]):
    rank = {"fail": 0, "inconclusive": 1, "pass": 2}
    checks = [check(outcome, mandatory) for outcome, mandatory in found]
    for word in ("fail", "not_run"):
        assert rank[judge([*checks, check(word, kind="critic")])[0]] <= rank[judge(checks)[0]]


@given(st.lists(st.sampled_from(["pass", "fail", "not_run"]), max_size=6))
def test_a_pass_means_that_everything_mandatory_passed(outcomes: list[str]):
    verdict, reason = judge([check(one) for one in outcomes])
    assert (verdict == "pass") == (bool(outcomes) and set(outcomes) == {"pass"})
    assert (reason == "") == (verdict == "pass")


def test_the_reason_names_the_first_and_counts_the_rest():
    assert judge([check("pass"), check("fail"), check("fail")]) == ("fail", "rule:fail: why (and 1 more)")
