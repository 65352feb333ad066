"""200 conversations of calls to stateful Python functions: nobody says which of them only read, so all but plain questions
write, one after the other, each once, and what each gave is kept exactly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver import Driver
from duly.protocol.machine.phases import Phase
from duly.protocol.plan import validate
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.wire.tagged import from_tagged
from plans import plan, step, table
from suite_agentdojo import LEDGER, Office, OfficeAnswers
from suite_rows import rows

READS = ("get_", "view_", "list_", "estimate_", "find_nearest_", "compute_", "check_")
ANY = {"type": ["object", "array", "null"]}
PART = "suite"
READER = Descriptor(server=PART, name=LEDGER, effect="read")


def conversations(suites: Path) -> list[dict[str, Any]]:
    found = rows(suites / "bfcl_multi_turn_base.jsonl")
    assert len(found) == 200
    return found


def tools(row: Mapping[str, Any]) -> dict[str, Descriptor]:
    """What a host would say of functions without hints: unknown means that it writes."""
    found = []
    for server, name in {tuple(one["tool"].split(".")) for one in row["steps"]}:
        reads = name.startswith(READS)
        resource = "" if reads else f"python:{server}"
        found.append(
            Descriptor(server=server, name=name, effect="read" if reads else "write", resource=resource)
        )
    return table(*found, READER)


def planned(row: Mapping[str, Any], descriptors: Mapping[str, Descriptor]) -> Plan:
    """Every call waits for the one before it: they share a state that nobody describes."""
    made = []
    done: dict[str, int] = {}
    for one in row["steps"]:
        tool = descriptors[one["tool"]]
        whole = step(
            one["step_id"],
            tool,
            one["arguments"],
            needs=[made[-1].step_id] if made else [],
            schema=ANY,
            reader=None if tool.reads_only else READER,
            agree={"/arguments": ""},
        )
        if not tool.reads_only:
            entry = {"tool": tool.name, "number": done.get(tool.name, 0)}
            done[tool.name] = entry["number"] + 1
            back = whole.verification.independent.model_copy(update={"arguments": entry})
            checked = whole.verification.model_copy(update={"independent": back})
            whole = whole.model_copy(update={"verification": checked})
        made.append(whole)
    return plan(made, plan_id=row["id"], objective=" ".join(row["turns"]))


def talked(row: Mapping[str, Any], **more: Any) -> tuple[Driver, Office]:
    descriptors = tools(row)
    wanted = planned(row, descriptors)
    assert validate.faults_of(wanted, descriptors) == [], row["id"]
    office = Office(PART, {one["step_id"]: one["result"] for one in row["steps"]})
    driver = Driver(
        OfficeAnswers(office, descriptors), descriptors, plan=wanted, text=wanted.objective, **more
    )
    run = driver.submit()
    while run.phase.waits:
        if run.gate is not None:
            run = driver.approve()
            continue
        assert run.asked is not None and run.asked.about.startswith("outcome:"), driver.story()
        cut = run.step(run.asked.about.partition(":")[2])
        # A state like this has no keys to look for: the ledger has as many entries as calls were answered, or one more.
        answered = sum(name in run.outputs and not run.reads_only(name) for name in run.steps)
        happened = len(office.happened) > answered
        assert not happened or office.happened[-1] == (
            (cut.tool or "").split(".")[1],
            cut.tool_contract.arguments,
        )
        run = driver.answer("it happened" if happened else "it did not")
    assert run.phase is Phase.COMPLETED, driver.story()
    return driver, office


def test_every_conversation_runs_call_by_call_and_keeps_its_results(suites: Path):
    calls = 0
    for row in conversations(suites):
        driver, office = talked(row)
        wanted = [(one["step_id"], one["tool"], one["arguments"]) for one in row["steps"]]
        assert driver.answers.called == wanted
        writes = [
            (tool.split(".")[1], given)
            for _, tool, given in wanted
            if not tool.split(".")[1].startswith(READS)
        ]
        assert office.happened == writes
        assert driver.run is not None
        for one in row["steps"]:
            assert from_tagged(driver.run.output(one["step_id"])) == one["result"]
        calls += len(wanted)
    assert calls == 1_142


def test_no_crash_repeats_a_call_that_changes_the_state(suites: Path):
    """Also where a conversation makes the same call twice, which is what it was asked for."""
    chance = random.Random(5)
    resumed = 0
    for row in conversations(suites):
        calm, office = talked(row)
        side = chance.choice(("crash_before", "crash_after"))
        driver, other = talked(row, **{side: chance.randint(3, len(calm.events))})
        assert other.happened == office.happened, driver.story()
        resumed += "run.resumed" in driver.kinds()
    assert resumed > 150


def test_the_same_call_twice_in_a_conversation_is_made_twice(suites: Path):
    twice = [
        row
        for row in conversations(suites)
        if len({(one["tool"], str(one["arguments"])) for one in row["steps"]}) < len(row["steps"])
    ]
    assert twice
    for row in twice:
        driver, _ = talked(row)
        assert len(driver.answers.called) == len(row["steps"])
