"""Checks of single outputs: schema, every rule on its borders, read-backs; odd outputs fail and never crash."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.judgement.checks import STATED, check_output, check_read_back, check_rules
from duly.protocol.plan.rules import (
    AgreesRule,
    CountRule,
    EqualsRule,
    NotNullRule,
    RangeRule,
    Rule,
    SumsToRule,
    UniqueRule,
)
from duly.protocol.wire.tagged import to_tagged
from plans import step, tool

A = tool("a")
W = tool("w", "write")


def outcome(rule: Rule, output: Any, tolerance: Any = None) -> str:
    one = step("s1", A, rules=[rule])
    if tolerance is not None:
        one = one.model_copy(
            update={"verification": one.verification.model_copy(update={"tolerance": tolerance})}
        )
    check = check_output(one, to_tagged(output), None)[-1]
    assert check.kind == "rule" and check.mandatory and (check.outcome == "pass") == (check.reason == "")
    return check.outcome


P = "pass"
F = "fail"
ROWS = {"rows": [{"n": 1, "k": "a"}, {"n": 2, "k": "b"}], "total": 3}


@pytest.mark.parametrize(
    ("rule", "output", "expected"),
    [
        (RangeRule(path="/n", min=0, max=1), {"n": 0}, P),
        (RangeRule(path="/n", min=0, max=1), {"n": 1}, P),
        (RangeRule(path="/n", min=0, max=1), {"n": 1.0000001}, F),
        (RangeRule(path="/n", min=0), {"n": 10**30}, P),
        (RangeRule(path="/n", max=0), {"n": 10**400}, F),
        (RangeRule(path="/n"), {"n": Decimal("1.10")}, P),
        (RangeRule(path="/n", max=1), {"n": Decimal("1.10")}, F),
        (RangeRule(path="/n"), {"n": float("inf")}, F),
        (RangeRule(path="/n"), {"n": float("nan")}, F),
        (RangeRule(path="/n"), {"n": True}, F),
        (RangeRule(path="/n"), {"n": "1"}, F),
        (RangeRule(path="/n"), {"n": None}, F),
        (RangeRule(path="/n"), {"n": date(2013, 6, 1)}, F),
        (RangeRule(path="/n"), {}, F),
        (RangeRule(path="/n"), [], F),
        (RangeRule(path=""), 5, P),
        (RangeRule(path="/rows/1/n", min=2, max=2), ROWS, P),
        (EqualsRule(path="/n", value=1), {"n": 1.0}, P),
        (EqualsRule(path="/n", value=1), {"n": Decimal("1")}, P),
        (EqualsRule(path="/n", value=1), {"n": True}, F),
        (EqualsRule(path="/n", value=True), {"n": True}, P),
        (EqualsRule(path="/n", value=True), {"n": 1}, F),
        (EqualsRule(path="/n", value=None), {"n": None}, P),
        (EqualsRule(path="/n", value=None), {}, F),
        (EqualsRule(path="/n", value="a"), {"n": "a"}, P),
        (EqualsRule(path="/n", value="a"), {"n": "A"}, F),
        (EqualsRule(path="/n", value=1), {"n": "1"}, F),
        (NotNullRule(path="/n"), {"n": 0}, P),
        (NotNullRule(path="/n"), {"n": None}, F),
        (NotNullRule(path="/n"), {}, F),
        (CountRule(path="/rows", min=2, max=2), ROWS, P),
        (CountRule(path="/rows", min=3), ROWS, F),
        (CountRule(path="/rows", max=1), ROWS, F),
        (CountRule(path="", min=2, max=2), ROWS, P),
        (CountRule(path="/total"), ROWS, F),
        (CountRule(path="/t"), {"t": "text"}, F),
        (UniqueRule(path="/rows", field="k"), ROWS, P),
        (UniqueRule(path="/rows"), ROWS, P),
        (UniqueRule(path="/rows", field="k"), {"rows": [{"k": 1}, {"k": 1}]}, F),
        (UniqueRule(path="/rows", field="k"), {"rows": [{"k": 1}, {}]}, F),
        (UniqueRule(path="/rows", field="k"), {"rows": [{"k": 1}, 5]}, F),
        (UniqueRule(path="/rows", field="k"), {"rows": ["kk"]}, F),
        (UniqueRule(path="/rows"), {"rows": [[1, 2], [1, 2]]}, F),
        (UniqueRule(path="/rows"), {"rows": {"a": 1}}, F),
        (UniqueRule(path="/rows"), {"rows": []}, P),
        (SumsToRule(path="/rows", field="n", total="/total"), ROWS, P),
        (SumsToRule(path="/rows", field="n", total="/total"), {**ROWS, "total": 3.5}, F),
        (SumsToRule(path="/rows", field="n", total="/total"), {**ROWS, "total": Decimal("3")}, P),
        (SumsToRule(path="/rows", field="k", total="/total"), ROWS, F),
        (SumsToRule(path="/rows", field="x", total="/total"), ROWS, F),
        (SumsToRule(path="/rows", field="n", total="/total"), {"rows": [None], "total": 0}, F),
        (SumsToRule(path="/rows", field="n", total="/total"), {"rows": [], "total": 0}, P),
        (SumsToRule(path="/rows", field="n", total="/total"), {"rows": [{"n": 0.1}] * 10, "total": 1}, P),
        (AgreesRule(path="/a", other="/b"), {"a": 1, "b": 1.0}, P),
        (AgreesRule(path="/a", other="/b"), {"a": 1, "b": 1.1}, F),
        (AgreesRule(path="/a", other="/b"), {"a": 1}, F),
    ],
)
def test_rules(rule: Rule, output: Any, expected: str):
    assert outcome(rule, output) == expected


@pytest.mark.parametrize(
    ("rule", "near", "far"),
    [
        (RangeRule(path="/n", min=1, max=2), {"n": 2.5}, {"n": 2.51}),
        (EqualsRule(path="/n", value=2), {"n": 1.5}, {"n": 1.49}),
        (
            SumsToRule(path="/rows", field="n", total="/total"),
            {**ROWS, "total": 3.5},
            {**ROWS, "total": 3.51},
        ),
        (AgreesRule(path="/a", other="/b"), {"a": 1, "b": 1.5}, {"a": 1, "b": 1.51}),
    ],
)
def test_tolerance_is_that_of_the_step(rule: Rule, near: Any, far: Any):
    assert (outcome(rule, near, 0.5), outcome(rule, far, 0.5), outcome(rule, near)) == (P, F, F)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.decimals(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "rows", "k", "$x", ""]), inner)
    ),
    max_leaves=10,
)
RULES: list[Rule] = [
    RangeRule(path="/n", min=0),
    EqualsRule(path="/n", value=1),
    NotNullRule(path="/n"),
    UniqueRule(path="/rows", field="k"),
    UniqueRule(path="/rows"),
    CountRule(path="/rows"),
    SumsToRule(path="/rows", field="n", total="/n"),
    AgreesRule(path="/n", other="/k"),
]


@given(ANYTHING)
def test_whatever_comes_is_judged(output: Any):
    checks = check_rules(step("s1", A), "policy", RULES, to_tagged(output))
    assert [check.check_id for check in checks] == [
        f"policy:s1:{index}:{rule.rule}" for index, rule in enumerate(RULES)
    ]
    assert {check.outcome for check in checks} <= {P, F}


class TestSchema:
    def ids(self, schema: Any, output: Any, descriptor: Any = None) -> dict[str, str]:
        return {
            check.check_id: check.outcome
            for check in check_output(step("s1", A, schema=schema), to_tagged(output), descriptor)
        }

    def test_the_contract_and_the_descriptor_both_count(self):
        strict = tool("a", output_schema={"type": "object", "required": ["n"]})
        assert self.ids({"type": "object"}, {"n": 1}, strict) == {
            "schema:s1:contract": P,
            "schema:s1:descriptor": P,
        }
        assert self.ids({"type": "object"}, {}, strict) == {
            "schema:s1:contract": P,
            "schema:s1:descriptor": F,
        }
        assert self.ids({"type": "array"}, {}, A) == {"schema:s1:contract": F}

    def test_exact_values_are_what_they_stand_for(self):
        schema = {"properties": {"n": {"type": "number"}, "d": {"type": "string"}, "t": {"type": "array"}}}
        good = {"n": Decimal("1.10"), "d": date(2013, 6, 1), "t": (1, 2)}
        assert self.ids(schema, good) == {"schema:s1:contract": P}
        assert self.ids(schema, {"n": float("nan")}) == {"schema:s1:contract": F}
        assert self.ids({"required": ["$price"]}, {"$price": 1}) == {"schema:s1:contract": P}

    def test_a_schema_that_is_none_fails(self):
        assert self.ids({"type": "no such type"}, {}) == {"schema:s1:contract": F}

    def test_no_value_is_repeated(self):
        (check,) = check_output(step("s1", A, schema={"type": "string"}), {"topsecret": 1}, None)
        assert "topsecret" not in check.reason

    def test_what_a_person_stated_has_no_output_to_check(self):
        (check,) = check_output(
            step("s1", W, {"key": 1}, reader=A, schema={"required": ["x"]}), {STATED: "so"}, W
        )
        assert (check.outcome, check.mandatory, check.reason) == ("not_run", False, "so")

    def test_no_tool_can_state(self):
        checks = check_output(step("s1", A, schema={"required": ["x"]}), to_tagged({STATED: "so"}), None)
        assert [check.outcome for check in checks] == [F]


class TestReadBack:
    def outcome(self, arguments: Any, read: Any, agree: dict[str, str]) -> tuple[str, str]:
        check = check_read_back(
            step("s1", W, arguments, reader=A, agree=agree), to_tagged(arguments), to_tagged(read)
        )
        assert check.kind == "recompute" and check.mandatory
        return check.outcome, check.reason

    def test_every_field_must_agree(self):
        agree = {"/rows/0/title": "/record/title", "/rows/0/n": "/record/n"}
        record = {"record": {"title": "t", "n": 1}}
        assert self.outcome(record, {"rows": [{"title": "t", "n": 1}]}, agree) == (P, "")
        assert self.outcome(record, {"rows": [{"title": "t", "n": 1.0}]}, agree)[0] == P
        assert self.outcome(record, {"rows": [{"title": "T", "n": 1}]}, agree)[0] == F
        assert self.outcome(record, {"rows": [{"title": "t", "n": True}]}, agree)[0] == F
        assert self.outcome(record, {"rows": [{"title": "t", "n": "1"}]}, agree)[0] == F

    def test_what_is_not_there_is_named(self):
        outcome, reason = self.outcome({"key": 1}, {"rows": []}, {"/rows/0/key": "/key", "/n": "/gone"})
        assert outcome == F and "/rows/0/key is missing" in reason and "/n" in reason

    def test_without_an_agreement_nothing_ran(self):
        assert check_read_back(step("s1", A), {}, {}).outcome == "not_run"
