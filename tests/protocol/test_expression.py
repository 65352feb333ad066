"""The conditions of a policy before anything compiles them, and what a policy makes of their answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.plan import expression, policy
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.manifest_toml import parse_manifest
from duly.protocol.plan.package import load_package
from duly.protocol.plan.policy import Policy, PolicyGate
from duly.protocol.wire.errors import PackageError
from duly.protocol.wire.limits import EXPRESSION_CHARS_MAX

MANIFEST = """
[package]
name = "shop"
version = "1"

[[agents.list]]
name = "clerk"
tools = ["pay.send"]
gated_tools = ["pay.send"]

[[agents.list]]
name = "reader"
tools = ["pay.look"]

[tools.pay]
kind = "python"
functions = ["send", "look"]

[policy]
approvers = ["ada"]
"""


@pytest.mark.parametrize(
    "text",
    [
        "arguments.amount > 1000",
        "arguments.amount * 2 > 1e3 && !(arguments.to in ['a', \"b\"])",
        "has(arguments.note) && arguments.note.matches('^[a-z]%+$')",
        "arguments.rows.exists(row, row.amount > 5) || arguments.tags.all(tag, tag != 'x')",
        "tool == 'pay.send' // one of ours\n && effect != 'read'",
        "arguments['a b'][0] == -1",
        "size(arguments.rows) > 3",
        '"""more\nthan a line""" == resource',
        "arguments.all > 1",
    ],
)
def test_what_a_policy_may_say(text):
    assert expression.faults_of(text) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("true || " * 400 + "true", f"at most {EXPRESSION_CHARS_MAX}"),
        ("amount > 1000", "The name amount at character 1 stands for nothing"),
        ("arguments.n % 2 == 0", "no remainder"),
        ("arguments.a.all(x, x.all(y, y > 1))", "The loop all at character 22 stands inside of another loop"),
        ("arguments.a.map(x, [x].filter(y, true)).size() > 0", "The loop filter"),
        ("exec('x')", "There is no function exec"),
        ("arguments.exec('x')", "There is no function exec"),
        ("int(arguments.n) > 1", "There is no function int"),
        ("arguments.n > 9007199254740993", "too large to be exact"),
        ("arguments.n > 007", "begins with 0"),
        ("arguments.n > 1u", "does not end"),
        ("r'a' == tool", "The name r"),
        ("'open", "does not end"),
        ("(" * 25 + "true" + ")" * 25, "nested more than"),
        ("(true", "never closed"),
        ("true)", "closes nothing"),
        ("[true)", "closes nothing"),
        ("arguments.a ; true", "; at character 13"),
        ("arguments.\u202ea", "U+202E at character 11"),
        ("arguments.\u0430 > 1", "U+0430"),
        ("\u0663 > 1", "U+0663"),
    ],
)
def test_what_it_may_not_say(text, told):
    assert any(told in sentence for sentence in expression.faults_of(text)), expression.faults_of(text)


def test_whole_numbers_become_doubles_but_not_in_square_brackets():
    text = "arguments.a[0] * 2 > 0x10 + 1.5e3 && arguments.b in [1, 2] && tool != 'x 7'"
    told = "arguments.a[0] * 2.0 > 16.0 + 1.5e3 && arguments.b in [1, 2] && tool != 'x 7'"
    assert expression.as_doubles(text) == told


@given(st.text(max_size=200))
def test_any_text_is_judged_and_none_crashes_the_reader(text):
    if not expression.faults_of(text):
        assert expression.faults_of(expression.as_doubles(text)) == []


@pytest.mark.parametrize(
    ("gate", "line", "place", "code"),
    [
        ('tool = "pay.sen"', 23, "policy/gates/0/tool", "package.unknown_tool"),
        ('tool = "pay.send"\nwhen = "amount > 1"', 24, "policy/gates/0/when", "package.expression"),
        ('tool = "pay.send"\nif = "true"', 24, "policy/gates/0/if", "package.manifest"),
        ('when = "true"', 22, "policy/gates/0/tool", "package.manifest"),
    ],
)
def test_a_fault_of_a_gate_has_file_line_and_field(gate, line, place, code):
    with pytest.raises(PackageError) as caught:
        parse_manifest((MANIFEST + "\n[[policy.gates]]\n" + gate).encode(), "agent.toml")
    (fault,) = caught.value.faults
    assert (fault.path, fault.code) == (f"agent.toml:{line}: {place}", code)


def test_a_key_of_an_approver_needs_a_name():
    with pytest.raises(PackageError) as caught:
        parse_manifest(MANIFEST.replace('"ada"', '"ada", "../x"').encode(), "agent.toml")
    assert caught.value.faults[0].path == "agent.toml:20: policy/approvers/1"


def test_what_a_policy_gates_is_gated_for_every_agent_that_has_it():
    gates = '\n[[policy.gates]]\ntool = "pay.look"\n[[policy.gates]]\ntool = "pay.send"\nwhen = "true"\n'
    package = load_package({"agent.toml": (MANIFEST + gates).encode(), "tools.py": b""}, "shop")
    assert package.agent("reader").gated_tools == ["pay.look"]
    assert package.agent("clerk").gated_tools == ["pay.send"]


def test_a_gate_without_a_condition_makes_conditions_of_the_same_tool_moot():
    both = Policy(gates=[PolicyGate(tool="a.b", when="true"), PolicyGate(tool="a.b")])
    assert both.gated() == ["a.b"] and both.expressions("a.b") == ()
    twice = Policy(gates=[PolicyGate(tool="a.b", when=text) for text in ("x", "y", "x")])
    assert twice.gated() == [] and twice.expressions("a.b") == ("x", "y") and twice.expressions("a.c") == ()


TRUE, FALSE, NOTHING = {"value": True}, {"value": False}, {"value": None, "message": "no"}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"said": [FALSE, FALSE]}, (False, "")),
        ({"said": [FALSE, TRUE]}, (True, "")),
        ({"said": [FALSE, NOTHING]}, (True, "gate.not_evaluated")),
        ({"said": [TRUE, NOTHING]}, (True, "gate.not_evaluated")),
        ({"said": [FALSE]}, (True, "gate.not_evaluated")),
        ({"said": []}, (True, "gate.not_evaluated")),
        ({"said": [FALSE, {"value": 0}]}, (True, "gate.not_evaluated")),
        ({"said": [FALSE, FALSE], "more": 1}, (True, "gate.not_evaluated")),
        ("false", (True, "gate.not_evaluated")),
        (None, (True, "gate.not_evaluated")),
    ],
)
def test_only_a_clear_no_of_every_condition_opens(output, expected):
    assert policy.judged(("x", "y"), output) == expected


def test_the_question_holds_what_a_condition_may_name():
    send = Descriptor(server="pay", name="send", effect="write", resource="https:bank")
    facts = policy.facts_of(send, {"amount": 5})
    assert set(facts) == set(expression.NAMES)
    assert policy.question("ab", ("true",), facts)["facts"]["arguments"] == {"amount": 5}
