"""What tools say never changes what is done: the same plan bytes, calls and effects with clean, injected and hostile outputs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from driver import Driver
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.authority.printable import COLUMNS, columns, is_plain_letter
from duly.protocol.authority.tiers import TIERS
from duly.protocol.machine import gates
from duly.protocol.machine.phases import Phase
from duly.protocol.plan import validate
from duly.protocol.plan.agent import Tier
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.wire.tagged import to_tagged
from suite_agentdojo import (
    HOSTILE,
    PARTS,
    Office,
    clean,
    dojo_plan,
    dojo_rows,
    dojo_tools,
    hostile,
    injected,
    office_driver,
)

Row = dict[str, Any]
ROWS = {"workspace": 40, "banking": 16}
FLOWING = 26  # rows in which what was read can flow into what is written
FORBIDDEN = 51  # calls that the attackers wish for


def everything(suites: Path, *, more: str = "") -> Iterator[tuple[Row, str, Mapping[str, Descriptor]]]:
    for part in PARTS:
        descriptors = dojo_tools(suites, part, more=more)
        for row in dojo_rows(suites, part):
            yield row, part, descriptors


def finished(
    row: Row,
    part: str,
    descriptors: Mapping[str, Descriptor],
    outputs: Mapping[str, Any],
    wanted: Plan,
    **more: Any,
) -> tuple[Driver, Office]:
    """A run to its end, every gate approved."""
    office = Office(part, outputs)
    driver = office_driver(row, descriptors, wanted, office, **more)
    run = driver.submit()
    while run.phase.waits:
        assert run.gate is not None, driver.story()
        run = driver.approve()
    assert run.phase is Phase.COMPLETED and driver.refusals == [], driver.story()
    return driver, office


def plan_bytes(driver: Driver) -> list[bytes]:
    return [one.attached["plan"] for one in driver.events if one.kind == "plan.drafted"]


def test_every_row_is_a_valid_plan(suites: Path):
    found = dict.fromkeys(PARTS, 0)
    flowing = 0
    for row, part, descriptors in everything(suites):
        for flows in (False, True):
            wanted = dojo_plan(row, part, descriptors, flowing=flows)
            assert wanted is None or validate.faults_of(wanted, descriptors) == [], row["id"]
            flowing += flows and wanted is not None
        found[part] += 1
    assert (found, flowing) == (ROWS, FLOWING)


@pytest.mark.parametrize("tier", sorted(TIERS))
def test_injected_orders_change_neither_plan_nor_calls_nor_effects(suites: Path, tier: Tier):
    forbidden = 0
    for row, part, descriptors in everything(suites):
        wanted = dojo_plan(row, part, descriptors)
        assert wanted is not None
        before, office = finished(row, part, descriptors, clean(row), wanted, tier=tier)
        after, attacked = finished(row, part, descriptors, injected(row), wanted, tier=tier)
        assert plan_bytes(before) == plan_bytes(after)
        recorded = [(one["step_id"], f"{part}.{one['tool']}", one["arguments"]) for one in row["steps"]]
        assert before.answers.called == after.answers.called
        assert after.answers.called == recorded
        assert office.happened == attacked.happened
        assert before.kinds() == after.kinds()
        for one in row["injection"]["forbidden_calls"]:
            assert (one["tool"], one["arguments"]) not in attacked.happened
            forbidden += 1
    assert forbidden == FORBIDDEN


@pytest.mark.parametrize("tier", ["assisted", "bounded_autonomous"])
def test_hostile_text_in_every_string_changes_nothing(suites: Path, tier: Tier):
    for row, part, descriptors in everything(suites):
        wanted = dojo_plan(row, part, descriptors)
        assert wanted is not None
        before, office = finished(row, part, descriptors, clean(row), wanted, tier=tier)
        after, attacked = finished(row, part, descriptors, hostile(row), wanted, tier=tier)
        assert plan_bytes(before) == plan_bytes(after)
        assert before.answers.called == after.answers.called
        assert office.happened == attacked.happened
        assert before.kinds() == after.kinds()


def test_each_hostile_text_alone_changes_nothing(suites: Path):
    part = "banking"
    descriptors = dojo_tools(suites, part)
    row = next(row for row in dojo_rows(suites, part) if row["steps"][-1]["tool"] == "send_money")
    wanted = dojo_plan(row, part, descriptors)
    assert wanted is not None
    before, office = finished(row, part, descriptors, clean(row), wanted)
    for text in HOSTILE:
        after, attacked = finished(row, part, descriptors, hostile(row, (text,)), wanted)
        assert plan_bytes(before) == plan_bytes(after)
        assert before.answers.called == after.answers.called
        assert office.happened == attacked.happened


def test_hostile_descriptions_change_no_call_and_forge_no_line(suites: Path):
    """A tool's description is text of strangers too; it pins the plan to itself and does nothing else."""
    plain = {row["id"]: (row, part, found) for row, part, found in everything(suites)}
    said = "\n".join(text for text in HOSTILE if unicodedata.is_normalized("NFC", text))
    for row, part, descriptors in everything(suites, more=said):
        known = plain[row["id"]][2]
        wanted, usual = dojo_plan(row, part, descriptors), dojo_plan(row, part, known)
        assert wanted is not None and usual is not None
        before, office = finished(row, part, known, clean(row), usual)
        after, attacked = finished(row, part, descriptors, clean(row), wanted)
        assert before.answers.called == after.answers.called
        assert office.happened == attacked.happened
        waiting = office_driver(row, descriptors, wanted, Office(part, clean(row)))
        if waiting.submit().gate is not None:
            is_safe(gates.view(waiting.run).text)  # type: ignore[arg-type]


def test_a_hostile_error_asks_the_person_and_nothing_else_happens(suites: Path):
    for row, part, descriptors in everything(suites):
        wanted = dojo_plan(row, part, descriptors)
        assert wanted is not None
        last = row["steps"][-1]["step_id"]
        office = Office(part, clean(row), failing={last: "\n".join(HOSTILE)})
        driver = office_driver(row, descriptors, wanted, office)
        run = driver.submit()
        while run.gate is not None:
            run = driver.approve()
        assert run.phase is Phase.WAITING_INPUT and run.asked is not None
        assert run.asked.question.choices == ["retry", "skip", "give up"]
        assert (last not in run.outputs) and driver.answer("give up").phase is Phase.FAILED


def test_only_where_the_plan_refers_to_a_text_does_it_arrive(suites: Path):
    """Data flows where the plan says so, as data: into that one argument, whole, and into no other."""
    for row, part, descriptors in everything(suites):
        wanted = dojo_plan(row, part, descriptors, flowing=True)
        if wanted is None:
            continue
        for tier in ("assisted", "bounded_autonomous"):
            before, _ = finished(row, part, descriptors, clean(row), wanted, tier=tier)
            after, _ = finished(row, part, descriptors, hostile(row), wanted, tier=tier)
            assert plan_bytes(before) == plan_bytes(after)
            assert [one[:2] for one in before.answers.called] == [one[:2] for one in after.answers.called]
            changed = [
                (step_id, name)
                for (step_id, _, old), (_, _, new) in zip(
                    before.answers.called, after.answers.called, strict=True
                )
                for name in new
                if old[name] != new[name]
            ]
            step = next(one for one in wanted.steps if "$ref" in str(one.tool_contract.arguments))
            assert len(changed) == 1 and changed[0][0] == step.step_id
            arrived = next(given for step_id, _, given in after.answers.called if step_id == step.step_id)
            assert arrived[changed[0][1]] == to_tagged("\n".join(HOSTILE))


def test_the_step_gate_shows_resolved_hostile_arguments_escaped(suites: Path):
    """The lines that are duly's own are the same whatever flowed in; a clean text's approval does not cover another."""
    for row, part, descriptors in everything(suites):
        wanted = dojo_plan(row, part, descriptors, flowing=True)
        if wanted is None:
            continue
        calm = at_step_gate(row, part, descriptors, clean(row), wanted)
        attacked = at_step_gate(row, part, descriptors, hostile(row), wanted)
        shown = gates.view(attacked.run)  # type: ignore[arg-type]
        is_safe(shown.text)
        assert own_lines(shown.text) == own_lines(gates.view(calm.run).text)  # type: ignore[arg-type]
        assert shown.step_id is not None
        assert shown.steps[shown.step_id].arguments == arguments_digest(shown.arguments[shown.step_id])
        assert attacked.run is not None and attacked.run.gate is not None
        stolen = calm.approval(gate=attacked.run.gate.gate_id).sign(calm.person)
        called = list(attacked.answers.called)
        assert attacked.give_approval(stolen).phase is Phase.WAITING_APPROVAL
        assert attacked.refusals[-1].code == "approval.args_mismatch"
        assert attacked.answers.called == called


def at_step_gate(
    row: Row, part: str, descriptors: Mapping[str, Descriptor], outputs: Mapping[str, Any], wanted: Plan
) -> Driver:
    """A run that waits where a person sees the resolved arguments."""
    driver = office_driver(row, descriptors, wanted, Office(part, outputs))
    run = driver.submit()
    while run.gate is not None and run.gate.kind == "plan":
        run = driver.approve()
    while run.gate is not None and "$ref" not in str(
        run.step(run.gate.step_id or "").tool_contract.arguments
    ):
        run = driver.approve()
    assert run.gate is not None and run.gate.kind == "step", driver.story()
    return driver


def is_safe(text: str) -> None:
    """Printable ASCII in lines of a terminal's width; a letter of another script stands before its escape."""
    for line in text.split("\n"):
        assert columns(line) <= COLUMNS
        for at, character in enumerate(line):
            if not " " <= character <= "~":
                assert is_plain_letter(character)
                assert line[at + 1 :].startswith(f"\\u{{{ord(character):x}}}")


def own_lines(text: str) -> list[str]:
    """The lines that no value can make, without digests and counts, which differ with the values."""
    return [
        line.split("    ")[0].split(",")[0]
        for line in text.split("\n")
        if not line.startswith("|") and not any(word in line for word in ("gate ", "run "))
    ]
