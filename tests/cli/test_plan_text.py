"""A plan as a text: it reads back as the same plan, whatever is in it, and its text forges no line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.cli.plan_file import edited, read_plan
from duly.cli.plan_text import plan_text
from duly.protocol.plan import validate
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from duly.protocol.wire.errors import PlanError, RunError, WireError
from scripted_harness import READ, WRITE, reading_plan, step, writing_plan

TOOLS = {one.full_name: one for one in (READ, WRITE)}
FILE = Path("plan.yaml")
texts = st.text(max_size=30) | st.sampled_from(
    [
        "no",
        "on",
        "~",
        "null",
        "1e3",
        "0x10",
        "2013-02-30",
        "a: b",
        "# x",
        "- x",
        "{",
        "'",
        '"',
        "\\",
        "=",
        "<<",
        ".",
        "a\nb",
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def text_of(plan: Plan) -> str:
    return plan_text(plan, TOOLS, run_id="r123", version=plan.version)


def plan_with(arguments: Any, **more: Any) -> Plan:
    data = reading_plan("What sold most?").to_data()
    data["steps"] = [step("s1", READ, arguments)]
    return Plan.model_validate({**data, **more})


@settings(max_examples=100)
@given(st.dictionaries(texts, values, max_size=4), texts.filter(str.strip), st.lists(texts, max_size=3))
def test_a_plan_reads_back_as_itself(arguments, objective, constraints):
    plan = plan_with(arguments, objective=objective, constraints=constraints)
    try:
        canon.encode(plan.to_data())
    except WireError:
        return  # no plan of the system: it has no canonical form
    if validate.faults_of(plan, TOOLS):
        return  # nor one that waits at a gate
    back = edited(FILE, text_of(plan).encode("utf-8"), plan, TOOLS)
    assert back.content_digest() == plan.content_digest()
    assert back.origin == "person" and back.provenance.kind == "edited" and back.version == plan.version + 1


@pytest.mark.parametrize("make", [reading_plan, writing_plan])
def test_it_is_readable(make):
    text = text_of(make("What sold most?"))
    assert 'objective: "What sold most?"' in text and "# Fixed: `duly amend`" in text
    assert "tickets.open (write)" in text and "step 1 of 2" in text
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize(
    "hostile",
    [
        "\u202eevil", "a\r\x1b[2J# approved", "x\nsteps: []", "\u200b\u2028steps: []", "\x85a", "\ufeff", "é \u0430dmin", "🎉"
    ],
)  # fmt: skip
def test_hostile_text_can_hide_nothing_and_forge_no_line(hostile):
    plan = plan_with({"note": hostile}, objective=hostile.strip() or "x")
    text = text_of(plan)
    assert not set(text) & set("\u202e\r\x1b\u200b\u2028\x85\ufeff")
    assert [line for line in text.splitlines() if line.startswith("steps:")] == ["steps:"]
    assert edited(FILE, text.encode("utf-8"), plan, TOOLS).content_digest() == plan.content_digest()


def test_a_key_that_yaml_cannot_hold_is_said_to_be_one():
    with pytest.raises(RunError) as caught:
        text_of(plan_with({"k" * 2_000: 1}))
    assert caught.value.code == "run.not_editable"


class TestFaults:
    plan = writing_plan("Open a ticket.")

    def refused(self, text: str) -> list[str]:
        with pytest.raises(PlanError) as caught:
            edited(FILE, text.encode("utf-8"), self.plan, TOOLS)
        assert caught.value.faults
        return [str(fault) for fault in caught.value.faults]

    def line(self, text: str, wanted: str, after: str = "") -> int:
        lines = text.splitlines()
        start = next((n for n, one in enumerate(lines) if after in one), 0)
        return next(n + 1 for n, one in enumerate(lines) if n >= start and wanted in one)

    def test_every_fault_has_its_line(self):
        text = text_of(self.plan)
        text = text.replace("timeout_seconds: 30", "timeout_seconds: soon", 1).replace(
            "- step_id: s2", "- stepp_id: s2"
        )
        told = self.refused(text)
        assert any(f"plan.yaml:{self.line(text, 'timeout_seconds: soon')}: steps/0/" in one for one in told)
        assert any(f"plan.yaml:{self.line(text, 'stepp_id')}: steps/1/stepp_id" in one for one in told)
        assert any("steps/1/step_id: this field is missing" in one for one in told)

    def test_a_plan_that_breaks_the_rules_has_its_lines_too(self):
        text = (
            text_of(self.plan)
            .replace('"s1#/name"', '"s9#/name"')
            .replace("report_step: s1", "report_step: s7")
        )
        told = self.refused(text)
        assert any(f"plan.yaml:{self.line(text, 'report_step: s7')}: report_step" in one for one in told)
        assert any("s9" in one and f"plan.yaml:{self.line(text, 's9#/name')}" in one for one in told)

    def test_the_objective_is_fixed(self):
        text = text_of(self.plan).replace('objective: "Open a ticket."', 'objective: "Close it."')
        (told,) = self.refused(text)
        assert f"plan.yaml:{self.line(text, 'Close it')}: objective: the objective is fixed" in told

    @pytest.mark.parametrize("garbage", ["", "[]", "a: [", "\tx", "a: &b c", "a: 1\na: 2", "x" * 100, "\x00"])
    def test_garbage_is_refused_with_a_place(self, garbage):
        assert any("plan.yaml" in one for one in self.refused(garbage))

    def test_bytes_that_are_no_text_are_refused(self):
        with pytest.raises(PlanError) as caught:
            edited(FILE, b"\xff\xfe", self.plan, TOOLS)
        assert "UTF-8" in caught.value.message


def test_a_descriptor_that_is_left_out_is_the_granted_ones():
    plan = writing_plan("Open a ticket.")
    text = text_of(plan)
    for one in (READ, WRITE):
        assert one.digest() in text
        text = text.replace(f'descriptor: "{one.digest()}"', "#")
    assert edited(FILE, text.encode("utf-8"), plan, TOOLS).content_digest() == plan.content_digest()


def test_number_and_origin_are_not_the_files_to_say(tmp_path):
    plan = writing_plan("Open a ticket.")
    data = json.dumps({**plan.to_data(), "version": 99, "origin": "cache", "plan_id": "x"}).encode("utf-8")
    back = edited(Path("plan.json"), data, plan, TOOLS)
    assert (back.version, back.origin, back.plan_id) == (plan.version + 1, "person", plan.plan_id)


def test_the_text_is_also_a_plan_file(tmp_path):
    plan = reading_plan("What sold most?")
    path = tmp_path / "plan.yaml"
    path.write_text(text_of(plan), encoding="utf-8")
    assert read_plan(path).content_digest() == plan.content_digest()
