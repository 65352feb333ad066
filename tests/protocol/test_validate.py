"""Validation of plans: every fault at once, each with its path and code, and no fault that is none."""

from __future__ import annotations

from typing import Any

import pytest

from duly.protocol.plan import validate
from duly.protocol.plan.plan import Inputs, Plan, ReadBack, Retry
from duly.protocol.plan.rules import RangeRule, SumsToRule
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import PlanError
from duly.protocol.wire.limits import STEPS_MAX
from plans import NONE, RETRY_THEN_STOP, plan, ref, step, table, tool, tool_ref

IN = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "n": {"type": "integer", "minimum": 1}},
    "required": ["key"],
    "additionalProperties": False,
}
OUT = {
    "type": "object",
    "properties": {
        "key": {"type": "string"},
        "n": {"type": "number"},
        "rows": {"type": "array", "items": {"type": "object"}},
    },
    "additionalProperties": False,
}
A = tool("a", input_schema=IN, output_schema=OUT)
OPEN = tool("open")
W = tool("w", "write")
ALL = table(A, OPEN, W)


def faults(subject: Plan, **more: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.code) for fault in validate.faults_of(subject, ALL, **more)]


def of(*steps: Any, **more: Any) -> Plan:
    return plan(steps, **more)


def a(step_id: str = "s1", **more: Any) -> Any:
    arguments = more.pop("arguments", {"key": "x"})
    return step(step_id, A, arguments, schema=more.pop("schema", OUT), **more)


def changed(one: Any, **contract: Any) -> Any:
    return one.model_copy(update={"tool_contract": one.tool_contract.model_copy(update=contract)})


def test_a_good_plan_has_no_faults():
    steps = [
        a(),
        a("s2", arguments={"key": ref("s1")}),
        step("s3", W, {"key": ref("s2")}, reader=OPEN, needs=["s1"]),
    ]
    assert faults(of(*steps, report_step="s2")) == []
    validate.check(of(*steps), ALL)


def test_every_fault_at_once():
    bad = of(
        a("s 1", needs=["s9"]),
        changed(a("s2", arguments={"n": 0, "more": 1}), effect="write", timeout_seconds=3_000),
        step("s2", tool("gone")),
        step("s3", W, {"key": 1}),
        a("s4", arguments={"key": "see $s2.key$"}, on_failure=[]),
        a("s5", arguments={"key": {"$ref": "s8#/key"}}, on_failure=[Retry()]),
        objective=" ",
        report_step="s7",
        scope=Scope(sources=["payroll"]),
    )
    found = faults(bad, scope=Scope(sources=["flights"]))
    assert set(found) >= {
        ("objective", "plan.objective"),
        ("steps/0/step_id", "plan.bad_id"),
        ("steps/0/depends_on", "plan.unknown_step"),
        ("steps/1/tool_contract/effect", "plan.effect"),
        ("steps/1/tool_contract/timeout_seconds", "plan.timeout"),
        ("steps/1/tool_contract/arguments/n", "plan.bad_arguments"),
        ("steps/1/tool_contract/arguments", "plan.bad_arguments"),
        ("steps/2/step_id", "plan.duplicate_id"),
        ("steps/2/tool_contract/tool", "plan.tool_not_granted"),
        ("steps/3/verification/independent", "plan.no_read_back"),
        ("steps/4/tool_contract/arguments/key", "plan.reference_in_text"),
        ("steps/4/on_failure", "plan.no_destination"),
        ("steps/5/tool_contract/arguments/key", "plan.dangling_reference"),
        ("steps/5/on_failure/0", "plan.endless"),
        ("report_step", "plan.unknown_step"),
        ("scope", "plan.scope"),
    }
    with pytest.raises(PlanError) as caught:
        validate.check(bad, ALL, Scope(sources=["flights"]))
    assert caught.value.code == "plan.invalid" and len(caught.value.faults) == len(found)
    assert f"and {len(found) - 1} more" in caught.value.message


class TestGraph:
    def test_no_steps(self):
        assert faults(of()) == [("steps", "plan.empty")]

    def test_too_many(self):
        many = of(*(step(f"s{n}", OPEN) for n in range(STEPS_MAX + 1)))
        assert faults(many) == [("steps", "plan.too_large")]

    @pytest.mark.parametrize("length", [1, 2, 5])
    @pytest.mark.parametrize("by_reference", [False, True])
    def test_cycles_are_named_and_nothing_else_is(self, length: int, by_reference: bool):
        ring = []
        for number in range(length):
            need = f"s{(number + 1) % length}"
            arguments = {"key": ref(need)} if by_reference else {}
            ring.append(step(f"s{number}", OPEN, arguments, needs=[] if by_reference else [need]))
        found = validate.faults_of(of(*ring, step("free", OPEN)), ALL)
        assert [(one.path, one.code) for one in found] == [("steps", "plan.cycle")]
        assert all(f"s{number}" in found[0].message for number in range(length))
        assert "free" not in found[0].message

    def test_what_hangs_on_a_cycle_is_named_too(self):
        ring = of(
            step("s1", OPEN, needs=["s2"]),
            step("s2", OPEN, needs=["s1"]),
            step("s3", OPEN, {"key": ref("s2")}),
        )
        assert faults(ring) == [("steps", "plan.cycle")]

    def test_a_long_chain_is_no_problem(self):
        chain = [step("s0", OPEN)] + [
            step(f"s{n}", OPEN, {"key": ref(f"s{n - 1}")}) for n in range(1, STEPS_MAX)
        ]
        assert faults(of(*chain)) == []

    @pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 3, 2), (2, 0, 1, 3), (3, 2, 1, 0)])
    def test_an_id_that_stands_twice_is_one_fault(self, order: tuple[int, ...]):
        """And makes no other step's reference look as if it pointed nowhere."""
        steps = [
            step("s1", OPEN),
            step("s2", OPEN, {"key": ref("s1")}),
            step("s2", OPEN),
            step("s3", OPEN, {"key": ref("s2"), "more": ref("s1")}, inputs=Inputs(artifacts={"x": "s1"})),
        ]
        found = faults(of(*(steps[index] for index in order)))
        assert [code for _, code in found] == ["plan.duplicate_id"]


class TestTools:
    def test_a_description_that_changed(self):
        other = tool("a", description="new", input_schema=IN, output_schema=OUT)
        assert faults(of(step("s1", other, {"key": "x"}))) == [
            ("steps/0/tool_contract/tool/descriptor", "plan.descriptor_changed")
        ]

    def test_the_same_name_on_another_server_is_another_tool(self):
        moved = A.model_copy(update={"server": "other"})
        assert faults(of(step("s1", moved, {"key": "x"}))) == [
            ("steps/0/tool_contract/tool", "plan.tool_not_granted")
        ]

    def test_an_effect_is_what_the_descriptor_says(self):
        lying = changed(step("s1", W, {"key": 1}, reader=OPEN), effect="read")
        assert faults(of(lying)) == [("steps/0/tool_contract/effect", "plan.effect")]

    def test_a_tool_step_without_a_tool(self):
        assert faults(of(changed(a(), tool=None))) == [("steps/0/tool_contract/tool", "plan.no_tool")]

    def test_a_reason_step_has_a_model_and_no_tool(self):
        one = a().model_copy(update={"kind": "reason"})
        assert faults(of(one)) == [("steps/0/tool_contract", "plan.reason_contract")]
        assert faults(of(changed(one, tool=None, model={"ask": 1}))) == []
        assert faults(of(changed(one, tool=None))) == [("steps/0/tool_contract", "plan.reason_contract")]

    def test_a_step_says_what_it_is_for(self):
        assert faults(of(a().model_copy(update={"objective": " "}))) == [
            ("steps/0/objective", "plan.objective")
        ]

    def test_an_output_schema_that_is_none(self):
        bad = a(schema={"type": "no such type"})
        assert faults(of(bad)) == [("steps/0/output_contract/json_schema", "plan.bad_schema")]


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "paths"),
        [
            ({}, [""]),
            ({"key": 1}, ["/key"]),
            ({"key": "x", "n": 0}, ["/n"]),
            ({"key": "x", "n": "1"}, ["/n"]),
            ({"key": "x", "other": 1}, [""]),
            ({"key": 1, "n": 0, "other": 1}, ["", "/key", "/n"]),
        ],
    )
    def test_against_the_schema(self, arguments: dict[str, Any], paths: list[str]):
        where = "steps/0/tool_contract/arguments"
        assert sorted(faults(of(a(arguments=arguments)))) == [
            (where + path, "plan.bad_arguments") for path in paths
        ]

    def test_open_arguments_are_none_and_no_fault_here(self):
        assert faults(of(a(open_arguments=True))) == []

    def test_a_hole_is_not_judged_before_it_is_filled_and_the_rest_is(self):
        first = a()
        assert faults(of(first, a("s2", arguments={"key": ref("s1"), "n": 2}))) == []
        assert faults(of(first, a("s2", arguments={"key": ref("s1"), "n": 0}))) == [
            ("steps/1/tool_contract/arguments/n", "plan.bad_arguments")
        ]
        assert faults(of(first, a("s2", arguments={"n": 2, "other": ref("s1")}))) == [
            ("steps/1/tool_contract/arguments", "plan.bad_arguments"),
            ("steps/1/tool_contract/arguments", "plan.bad_arguments"),
        ]

    @pytest.mark.parametrize(
        ("schema", "arguments"),
        [
            ({"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, {"x": ref("s1")}),
            (
                {"properties": {"x": {"oneOf": [{"type": "object", "required": ["y"]}, {"type": "null"}]}}},
                {"x": {"y": ref("s1")}},
            ),
            (
                {"properties": {"x": {"uniqueItems": True, "items": {"type": "string"}}}},
                {"x": [ref("s1"), ref("s1")]},
            ),
            ({"properties": {"x": {"enum": ["a", "b"]}}}, {"x": ref("s1")}),
            ({"properties": {"x": {"const": "a"}}}, {"x": ref("s1")}),
            ({"not": {"required": ["x"], "properties": {"x": {"type": "object"}}}}, {"x": ref("s1")}),
            ({"properties": {"x": {"type": "array", "contains": {"const": 1}}}}, {"x": [ref("s1")]}),
        ],
    )
    def test_combinators_wait_for_their_holes(self, schema: dict[str, Any], arguments: dict[str, Any]):
        odd = tool("odd", input_schema={"type": "object", **schema})
        subject = of(step("s1", OPEN, schema={}), step("s2", odd, arguments))
        assert validate.faults_of(subject, table(OPEN, odd)) == []

    def test_no_value_is_repeated_in_a_fault(self):
        found = validate.faults_of(of(a(arguments={"key": "x", "n": "topsecret"})), ALL)
        assert found and "topsecret" not in str([fault.to_data() for fault in found])


class TestReferences:
    def test_to_itself_is_a_cycle(self):
        assert faults(of(step("s1", OPEN, {"key": ref("s1")}))) == [("steps", "plan.cycle")]

    def test_what_the_producer_rules_out(self):
        assert faults(of(a(), step("s2", OPEN, {"x": ref("s1", "/gone")}))) == [
            ("steps/1/tool_contract/arguments/x", "plan.reference_missing")
        ]

    def test_types_that_cannot_fit(self):
        wrong = of(a(), a("s2", arguments={"key": ref("s1", "/rows")}))
        assert faults(wrong) == [("steps/1/tool_contract/arguments/key", "plan.reference_type")]

    def test_a_number_may_be_an_integer_later(self):
        assert faults(of(a(), a("s2", arguments={"key": "x", "n": ref("s1", "/n")}))) == []

    @pytest.mark.parametrize(
        "raw", [{"$ref": 1}, {"$ref": "s1"}, {"$ref": "s1#/key", "x": 1}, {"$ref": "s1#key"}]
    )
    def test_malformed(self, raw: Any):
        assert faults(of(step("s1", OPEN), step("s2", OPEN, {"key": raw}))) == [
            ("steps/1/tool_contract/arguments/key", "plan.bad_reference")
        ]

    def test_inputs_name_steps_that_come_before(self):
        def taking(target: str, *needs: str) -> Any:
            return step("s2", OPEN, inputs=Inputs(artifacts={"rows": target}), needs=needs)

        path = "steps/1/inputs/artifacts/rows"
        assert faults(of(step("s1", OPEN), taking("s1", "s1"))) == []
        assert faults(of(step("s1", OPEN), taking("s9"))) == [(path, "plan.unknown_step")]
        assert faults(of(step("s1", OPEN), taking("s1"))) == [(path, "plan.not_an_ancestor")]


class TestWrites:
    def test_a_reader_that_is_not_granted_or_writes(self):
        for reader in (tool("gone"), W):
            assert faults(of(step("s1", W, {"key": 1}, reader=reader))) == [
                ("steps/0/verification/independent", "plan.read_back")
            ]

    def test_a_reader_that_changed(self):
        changed_reader = tool("open", description="new")
        assert faults(of(step("s1", W, {"key": 1}, reader=changed_reader))) == [
            ("steps/0/verification/independent", "plan.descriptor_changed")
        ]

    def test_something_must_agree(self):
        with pytest.raises(ValueError):
            ReadBack(read_back=tool_ref(OPEN), arguments={}, agree={})


class TestFailure:
    def test_retries_come_first_and_never_last(self):
        assert faults(of(a(on_failure=RETRY_THEN_STOP))) == []
        late = [*RETRY_THEN_STOP, *RETRY_THEN_STOP]
        assert faults(of(a(on_failure=late))) == [("steps/0/on_failure/2", "plan.retry_order")]


class TestScope:
    def test_a_mandate_without_a_scope_allows_nothing(self):
        wide = of(a(), scope=Scope(sources=["flights"], resources=["sqlite:incidents"]))
        assert faults(wide) == []
        assert faults(wide, scope=Scope()) == [("scope", "plan.scope")] * 2


class TestPlainData:
    def test_all_seven_fields_are_required(self):
        data = of(a()).to_data()
        names = (
            "step_id",
            "objective",
            "inputs",
            "tool_contract",
            "output_contract",
            "verification",
            "on_failure",
        )
        for name in names:
            del data["steps"][0][name]
        with pytest.raises(PlanError) as caught:
            validate.parse_plan(data)
        assert caught.value.code == "plan.malformed"
        assert {fault.path for fault in caught.value.faults} == {f"steps/0/{name}" for name in names}

    def test_unknown_fields_and_wrong_types_are_named(self):
        data = of(a()).to_data()
        data["approved"] = True
        data["steps"][0]["tool_contract"]["timeout_seconds"] = "10"
        data["steps"][0]["on_failure"] = [{"do": "loop"}]
        with pytest.raises(PlanError) as caught:
            validate.parse_plan(data)
        assert {fault.path.rsplit("/", 1)[-1] for fault in caught.value.faults} == {
            "approved",
            "timeout_seconds",
            "0",
        }

    def test_there_and_back(self):
        subject = of(a(), step("s2", W, {"key": ref("s1")}, reader=OPEN), report_step="s1")
        assert validate.parse_plan(subject.to_data()) == subject

    def test_nothing_needs_a_reason(self):
        assert NONE.none
        data = of(a()).to_data()
        data["steps"][0]["verification"]["acceptance"] = {"none": ""}
        with pytest.raises(PlanError):
            validate.parse_plan(data)


class TestAcceptance:
    def test_pointers_are_pointers(self):
        bad = a(rules=[RangeRule(path="n", min=0), SumsToRule(path="/rows", field="x", total="n")])
        assert faults(of(bad)) == [
            ("steps/0/verification/acceptance/0/path", "plan.bad_pointer"),
            ("steps/0/verification/acceptance/1/total", "plan.bad_pointer"),
        ]
        written = step("s1", W, {"key": 1}, reader=OPEN, agree={"key": "/key"})
        assert faults(of(written)) == [("steps/0/verification/independent/agree", "plan.bad_pointer")]

    def test_a_read_back_has_arguments_that_fit_its_tool(self):
        def reading(arguments: dict[str, Any]) -> Plan:
            one = step("s1", W, {"key": 1}, reader=A)
            contract = one.verification.model_copy(
                update={
                    "independent": ReadBack(
                        read_back=tool_ref(A), arguments=arguments, agree={"/key": "/key"}
                    )
                }
            )
            return of(one.model_copy(update={"verification": contract}))

        at = "steps/0/verification/independent/arguments"
        assert faults(reading({"key": ref("s1", "/id")})) == []
        assert faults(reading({"key": ref("s9", "/id")})) == [(f"{at}/key", "plan.dangling_reference")]
        assert faults(reading({"key": 5})) == [(f"{at}/key", "plan.bad_arguments")]
        assert faults(reading({})) == [(at, "plan.bad_arguments")]


def test_exact_numbers_are_numbers_to_a_schema():
    priced = tool("priced", input_schema={"type": "object", "properties": {"price": {"type": "number"}}})
    for price, expected in (({"$decimal": "1.10"}, []), ({"$date": "2013-06-01"}, ["plan.bad_arguments"])):
        found = validate.faults_of(of(step("s1", priced, {"price": price})), table(priced))
        assert [fault.code for fault in found] == expected


def test_a_field_that_is_missing_or_not_wanted_is_named_and_cannot_hurt():
    given = {"x\x1b[2J": 1, "y" * 99: 2, "z": 3, "w": 4}
    (found,) = [
        [fault.message for fault in validate.faults_of(of(a(arguments=given)), ALL)],
    ]
    said = " ".join(found)
    assert "'key' is missing" in said and "'x\\x1b[2J'" in said and "and 1 more" in said
    assert said.isprintable() and len(said) < 500
