"""520 plans of real writes in every tier: calls in plan order with exact arguments, every effect once, recorded errors
lead where the contract says, and the end says so."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from driver import Driver
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.authority.tiers import TIERS
from duly.protocol.judgement.checks import Outcome
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan import validate
from duly.protocol.plan.agent import Tier
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Degrade, Replan
from duly.protocol.wire import canon
from suite_tau import (
    TOOL_ERROR,
    ShopAnswers,
    calls_of,
    failing,
    once_each,
    recorded,
    retail_plan,
    retail_rows,
    retail_tools,
    shop_driver,
    through,
    written,
)

ROWS, WITH_ERRORS, EMPTY = 520, 19, 1


@cache
def _read(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Descriptor]]:
    return retail_rows(folder), retail_tools(folder)


@pytest.fixture
def descriptors(suites: Path) -> Mapping[str, Descriptor]:
    return _read(suites)[1]


@pytest.fixture
def acting(suites: Path) -> list[dict[str, Any]]:
    """The rows that do something."""
    return [row for row in _read(suites)[0] if row["steps"]]


def test_every_row_is_a_valid_plan_of_writes_save_the_one_without_a_step(
    suites: Path, descriptors: Mapping[str, Descriptor]
):
    rows, empty = _read(suites)[0], []
    assert len(rows) == ROWS
    for row in rows:
        faults = validate.faults_of(retail_plan(row, descriptors), descriptors)
        if row["steps"]:
            assert faults == [], row["id"]
            assert all(not descriptors[tool].reads_only for _, tool, _ in calls_of(row))
        else:
            assert [fault.code for fault in faults] == ["plan.empty"]
            empty.append(row["id"])
    assert len(empty) == EMPTY
    assert sum(bool(failing(row)) for row in rows) == WITH_ERRORS


@pytest.mark.parametrize("tier", sorted(TIERS))
def test_writes_happen_in_plan_order_once_each_and_errors_are_told(
    tier: Tier, acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    ends: Counter[str] = Counter()
    for row in acting:
        wanted = retail_plan(row, descriptors)
        driver, shop = shop_driver(row, descriptors, wanted, tier=tier)
        run = through(driver, "skip")
        assert [(name, tool, given) for name, tool, given in driver.answers.called] == calls_of(row)
        once_each(shop, written(row))
        assert _gates(driver, tier) == (1 if TIERS[tier].plan_gate else 0)
        ends[_told(driver, run, row)] += 1
    assert ends["FAILED verdict.incomplete"] + ends["FAILED verdict.inconclusive"] == WITH_ERRORS
    assert ends["COMPLETED verdict.pass"] == ROWS - EMPTY - WITH_ERRORS


def _gates(driver: Driver, tier: str) -> int:
    """How many gates there were; before the first approval nothing had been dispatched."""
    kinds = driver.kinds()
    if "gate.asked" in kinds:
        assert kinds.index("plan.approved") < kinds.index("step.started")
    return kinds.count("gate.asked")


def _told(driver: Driver, run: Run, row: Mapping[str, Any]) -> str:
    """How a run ended, after a look at what the record says of every recorded error."""
    bad = failing(row)
    failed = driver.facts("step.failed")
    assert [one["step_id"] for one in failed] == bad
    assert {(one["code"], one["then"]) for one in failed} <= {(TOOL_ERROR, "escalate")}
    said = [canon.decode(one.attached["message"]) for one in driver.events if one.kind == "step.failed"]
    assert said == [recorded(row, name)["result"] for name in bad]
    assert [one["about"] for one in driver.facts("input.asked")] == [f"step:{name}" for name in bad]
    for one in row["steps"]:
        assert run.steps[one["step_id"]].status == ("degraded" if one["is_error"] else "succeeded")
    return f"{run.phase} {run.reason}"


@pytest.mark.parametrize("tier", sorted(TIERS))
def test_the_critic_is_asked_where_the_tier_says_and_only_lowers(
    tier: Tier, acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    """Whatever it says, no effect is taken back or repeated; without its word nothing that needs it is COMPLETED."""
    asked = TIERS[tier].critic
    ends = {"pass": "COMPLETED verdict.pass", "not_run": "PARTIAL verdict.unverified"}
    for row in random.Random(3).sample([row for row in acting if not failing(row)], 25):
        for word, end in ends.items():
            wanted = retail_plan(row, descriptors)
            driver, shop = shop_driver(row, descriptors, wanted, critic=(word,), tier=tier)
            run = through(driver, "nobody is asked")
            assert f"{run.phase} {run.reason}" == (end if asked else ends["pass"])
            assert critics(driver) == (1 if asked else 0)
            once_each(shop, written(row))


def critics(driver: Driver) -> int:
    assert isinstance(driver.answers, ShopAnswers)
    return driver.answers.asked_critic


@pytest.mark.parametrize("tier", ["supervised", "bounded_autonomous"])
@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_critic_that_fails_the_result_gets_other_plans_and_no_effect_twice(
    tier: Tier, fails: int, acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    """Each further plan gates again where the tier has the gate, and takes over what happened; after the third it ends."""
    words: list[Outcome] = ["fail"] * fails
    for row in random.Random(4).sample([row for row in acting if not failing(row)], 15):
        driver, shop = shop_driver(
            row, descriptors, retail_plan(row, descriptors), critic=[*words, "pass"], tier=tier
        )
        run = through(driver, "nobody is asked")
        assert f"{run.phase} {run.reason}" == (
            "FAILED verdict.fail" if fails == 3 else "COMPLETED verdict.pass"
        ), driver.story()
        plans = min(fails + 1, 3)
        assert driver.kinds().count("plan.drafted") == critics(driver) == plans
        assert driver.kinds().count("gate.asked") == (plans if TIERS[tier].plan_gate else 0)
        assert driver.kinds().count("step.reused") == (plans - 1) * len(row["steps"])
        assert driver.answers.called == calls_of(row)
        once_each(shop, written(row))


@pytest.mark.parametrize("allow_partial", [False, True])
def test_giving_up_keeps_what_was_done_and_starts_nothing_more(
    allow_partial: bool, acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    for row in (row for row in acting if failing(row)):
        wanted = retail_plan(row, descriptors, allow_partial=allow_partial)
        driver, shop = shop_driver(row, descriptors, wanted)
        run = through(driver, "give up")
        position = next(n for n, one in enumerate(row["steps"]) if one["is_error"])
        before = row["steps"][:position]
        assert driver.answers.called == calls_of(row)[: position + 1]
        once_each(shop, [(one["tool"], one["arguments"]) for one in before])
        partial = allow_partial and bool(before)
        assert (run.phase, run.reason, run.next_owner) == (
            Phase.PARTIAL if partial else Phase.FAILED,
            "input.given_up",
            "person",
        )
        assert row["steps"][position]["step_id"] in run.message


def test_skipping_ends_partial_where_the_plan_allows_it(
    acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    for row in (row for row in acting if failing(row) and written(row)):
        driver, shop = shop_driver(row, descriptors, retail_plan(row, descriptors, allow_partial=True))
        run = through(driver, "skip")
        once_each(shop, written(row))
        assert (run.phase, run.verdict) == (Phase.PARTIAL, "pass")


def test_asking_again_calls_again_once_and_asks_again(
    acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    row = next(row for row in acting if failing(row))
    driver, _ = shop_driver(row, descriptors, retail_plan(row, descriptors))
    driver.submit()
    driver.approve()
    before = len(driver.answers.called)
    run = driver.answer("retry")
    assert len(driver.answers.called) == before + 1 and run.phase is Phase.WAITING_INPUT
    assert driver.answer("give up").phase is Phase.FAILED


def test_a_contract_that_degrades_asks_nobody(
    acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    for row in (row for row in acting if failing(row)):
        driver, shop = shop_driver(row, descriptors, retail_plan(row, descriptors, on_failure=[Degrade()]))
        run = through(driver, "nobody is asked")
        assert "input.asked" not in driver.kinds()
        once_each(shop, written(row))
        assert run.phase is Phase.FAILED and {
            name for name, state in run.steps.items() if state.status == "degraded"
        } == set(failing(row))


def test_a_contract_that_replans_repeats_neither_effects_nor_the_failed_call(
    acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    """What happened before the error stays as it was, once; a planner that only knows the same calls is refused."""
    for row in (row for row in acting if failing(row)):
        driver, shop = shop_driver(row, descriptors, retail_plan(row, descriptors, on_failure=[Replan()]))
        run = through(driver, "nobody is asked")
        assert driver.facts("replan.triggered")[0]["code"] == TOOL_ERROR
        assert driver.facts("replan.refused")[0]["code"] == "replan.identical"
        position = next(n for n, one in enumerate(row["steps"]) if one["is_error"])
        once_each(shop, [(one["tool"], one["arguments"]) for one in row["steps"][:position]])
        assert run.phase is Phase.FAILED


def test_what_a_gate_shows_is_exactly_what_runs(
    acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    for row in random.Random(2).sample(acting, 150):
        wanted = retail_plan(row, descriptors)
        driver, _ = shop_driver(row, descriptors, wanted)
        driver.submit()
        approval = driver.approval()
        assert approval.plan == wanted.content_digest()
        assert {name: one.arguments for name, one in approval.steps.items()} == {
            one["step_id"]: arguments_digest(one["arguments"]) for one in row["steps"]
        }
        assert not any(one.template for one in approval.steps.values())


def test_an_approval_of_other_arguments_opens_no_gate(
    acting: list[dict[str, Any]], descriptors: Mapping[str, Descriptor]
):
    """One character of one order's id, and one order of two calls."""
    for row in random.Random(1).sample(acting, 40):
        other = json.loads(json.dumps(row).replace(row["steps"][0]["arguments"]["order_id"], "#W0000000"))
        driver, shop = shop_driver(row, descriptors, retail_plan(row, descriptors))
        shown, _ = shop_driver(other, descriptors, retail_plan(other, descriptors))
        driver.submit()
        shown.submit()
        assert driver.run is not None and driver.run.gate is not None
        run = driver.give_approval(shown.approval(gate=driver.run.gate.gate_id).sign(driver.person))
        assert run.phase is Phase.WAITING_APPROVAL and not shop.happened
        assert driver.refusals[-1].code == "approval.other_plan"
