"""``schedule = "overlap"``: the results of levels, in fewer waves, and no write beside anything."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.plan.plan import Plan, Step
from plans import DEGRADE, RETRY_THEN_STOP, plan, ref, step, table, tool

READ, OTHER, FIND = tool("r"), tool("o"), tool("f")
WRITE, APPEND = tool("w", "write"), tool("p", "write")
ALL = table(READ, OTHER, FIND, WRITE, APPEND)


class Ledger:
    """Tools over one shared list: a read sees every effect before it, and nothing else."""

    def __init__(self, broken: frozenset[int] = frozenset()) -> None:
        self.written: list[int] = []
        self.broken = broken

    def read(self, key: int, **_: Any) -> Any:
        if key in self.broken:
            raise CallFailure("tool.broken")
        return {"key": key, "seen": list(self.written)}

    def write(self, key: int, **_: Any) -> Any:
        self.written.append(key)
        return {"key": key}

    def tools(self) -> dict[str, Any]:
        return {
            "t.r": self.read,
            "t.o": self.read,
            "t.f": lambda key, **_: {"key": key} if key in self.written else {},
            "t.w": self.write,
            "t.p": self.write,
        }


class Shuffled(Driver):
    """Orders are performed in any order, and so are the answers of a wave."""

    chance: random.Random
    beside: list[list[str]]

    def _one_order(self) -> bool:
        assert self.run is not None
        self.chance.shuffle(self.todo)  # type: ignore[arg-type]
        self.beside.append(self.run.outstanding)
        return super()._one_order()


def run_of(planned: Plan, schedule: str, seed: int, broken: frozenset[int] = frozenset()) -> Shuffled:
    ledger = Ledger(broken)
    driver = Shuffled(
        Answers(tools=ledger.tools(), one_by_one=True),
        ALL,
        plan=planned,
        settings={"tier": "bounded_autonomous", "schedule": schedule, "budget": {"steps": 200}},
    )
    driver.chance, driver.beside = random.Random(seed), []
    driver.submit()
    return driver


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 9))):
        names = [one.step_id for one in steps]
        needs = draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        writes = draw(st.integers(0, 3)) == 0
        arguments: dict[str, Any] = {"key": number}
        if needs and draw(st.booleans()):
            arguments["of"] = ref(needs[0])
        tool_ = draw(st.sampled_from([WRITE, APPEND] if writes else [READ, OTHER]))
        reader = FIND if writes else None
        steps.append(step(f"s{number}", tool_, arguments, needs=needs, reader=reader, on_failure=DEGRADE))
    return plan(steps, allow_partial=True)


@given(plans(), st.integers(0, 99), st.frozensets(st.integers(0, 9), max_size=2))
@settings(max_examples=150)
def test_results_equal_those_of_levels_and_no_effect_has_company(
    planned: Plan, seed: int, broken: frozenset[int]
):
    levels = run_of(planned, "levels", seed, broken)
    overlap = run_of(planned, "overlap", seed, broken)
    one, other = levels.run, overlap.run
    assert one is not None and other is not None
    assert (one.phase, one.reason, one.outputs) == (other.phase, other.reason, other.outputs)
    assert {n: s.status for n, s in one.steps.items()} == {n: s.status for n, s in other.steps.items()}
    writes = {s.step_id for s in planned.steps if not ALL[s.tool or ""].reads_only}
    assert all(len(beside) == 1 or not writes & set(beside) for beside in overlap.beside)
    assert one.budget.used("tool_calls") == other.budget.used("tool_calls")


def waves(driver: Driver) -> list[list[str]]:
    return [ids for _, ids in driver.dispatches()]


TWO_CHAINS = [
    step("a1", READ, {"key": 1}),
    step("b1", OTHER, {"key": 2}),
    step("a2", READ, {"key": 3, "of": ref("a1")}),
    step("b2", OTHER, {"key": 4, "of": ref("b1")}),
]


def started(*steps: Step, **more: Any) -> Driver:
    driver = Driver(
        Answers(tools=Ledger().tools(), one_by_one=True),
        ALL,
        plan=plan(steps, **more),
        settings={"tier": "bounded_autonomous", "schedule": "overlap"},
    )
    driver.give(driver.submission())
    return driver


def test_a_read_starts_while_another_of_its_level_is_still_under_way():
    driver = started(*TWO_CHAINS)
    dispatch = driver.todo.popleft()
    assert isinstance(dispatch, effects.Dispatch)
    first, second = driver.answers.perform(driver, dispatch)
    driver.give(first)
    assert driver.run is not None and driver.run.outstanding == ["b1", "a2"]
    assert [order.wave for order in driver.todo if isinstance(order, effects.Dispatch)] == [2]
    driver.give(second)
    assert driver.go_on().phase is Phase.COMPLETED


def test_a_write_waits_for_everything_before_it_and_holds_up_everything_after_it():
    steps = [
        step("r1", READ, {"key": 1}),
        step("r2", READ, {"key": 2}),
        step("w1", WRITE, {"key": 3}, reader=FIND, needs=["r1"]),
        step("r3", READ, {"key": 4}, needs=["r2"]),
    ]
    driver = run_of(plan(steps), "overlap", 1)
    assert waves(driver) == [["r1", "r2"], ["w1"], ["r3"]]
    assert driver.run is not None and driver.run.output("r3")["seen"] == [3]


def test_a_read_before_a_write_in_the_plans_order_does_not_wait_for_it():
    steps = [
        step("r1", READ, {"key": 1}),
        step("r2", READ, {"key": 2}),
        step("r3", READ, {"key": 4}, needs=["r2"]),
        step("w1", WRITE, {"key": 3}, reader=FIND, needs=["r1"]),
    ]
    driver = run_of(plan(steps), "overlap", 1)
    assert driver.run is not None and driver.run.output("r3")["seen"] == []


def test_a_chain_still_travels_as_one():
    steps = [step("s0", READ, {"key": 0})]
    steps += [step(f"s{n}", READ, {"key": n, "of": ref(f"s{n - 1}")}) for n in range(1, 6)]
    driver = run_of(plan(steps), "overlap", 1)
    assert waves(driver) == [[f"s{n}" for n in range(6)]]


@pytest.mark.parametrize("schedule", ["levels", "overlap"])
def test_a_failure_is_followed_when_nothing_is_under_way_any_more(schedule: str):
    steps = [
        step("a1", READ, {"key": 1}),
        step("b1", OTHER, {"key": 2}),
        step("a2", READ, {"key": 3, "of": ref("a1")}),
    ]
    driver = run_of(plan(steps), schedule, 1, frozenset([1]))
    run = driver.run
    assert run is not None and run.phase is Phase.WAITING_INPUT and not run.outstanding
    assert run.steps["b1"].status == "succeeded" and run.steps["a2"].status == "pending"


def test_a_retry_is_waited_for_while_others_go_on():
    failures = iter([CallFailure("tool.busy", transient=True)])

    def flaky(key: int, **_: Any) -> Any:
        if key == 1:
            for failure in failures:
                raise failure
        return {"key": key}

    steps = [
        step("a1", READ, {"key": 1}, on_failure=RETRY_THEN_STOP),
        step("b1", OTHER, {"key": 2}),
        step("b2", OTHER, {"key": 4, "of": ref("b1")}),
    ]
    driver = Driver(
        Answers(tools={**Ledger().tools(), "t.r": flaky}, one_by_one=True),
        ALL,
        plan=plan(steps),
        settings={"schedule": "overlap"},
    )
    run = driver.submit()
    assert run.phase is Phase.COMPLETED and waves(driver) == [["a1", "b1"], ["b2"], ["a1"]]


def test_a_gated_read_waits_until_nothing_is_under_way_and_is_seen_alone():
    driver = Driver(
        Answers(tools=Ledger().tools(), one_by_one=True),
        ALL,
        plan=plan(TWO_CHAINS),
        settings={"schedule": "overlap", "gated_tools": ["t.o"], "tier": "bounded_autonomous"},
    )
    run = driver.submit()
    seen = []
    while run.gate is not None:
        assert not run.outstanding
        seen.append(run.gate.step_id)
        run = driver.approve()
    assert run.phase is Phase.COMPLETED and seen == ["b1", "b2"]


def test_rows_that_others_hold_are_waited_for():
    driver = Driver(
        Answers(tools=Ledger().tools(), one_by_one=True),
        ALL,
        plan=plan(TWO_CHAINS),
        settings={"schedule": "overlap", "budget": {"rows_scanned": 10}},
    )
    driver.give(driver.submission())
    dispatch = driver.todo.popleft()
    first, second = driver.answers.perform(driver, dispatch)
    driver.give(first)
    assert driver.run is not None and driver.run.outstanding == ["b1", "a2"]
    assert driver.run.steps["a2"].rows_max == 4  # what the first gave back
    driver.give(second)
    assert driver.go_on().phase is Phase.COMPLETED


def test_several_waves_are_recovered_together():
    driver = started(*TWO_CHAINS)
    first, _ = driver.answers.perform(driver, driver.todo.popleft())
    driver.give(first)
    driver.resume()
    assert driver.run is not None and len(driver.run.outstanding) == 2
    run = driver.go_on()
    assert run.phase is Phase.COMPLETED and driver.facts("run.resumed")[0]["again"] == 2


def test_a_segment_is_not_started_again_under_its_own_calls():
    """A step of a chain that comes back by itself waits for those that refer to it."""
    steps = [step("s0", READ, {"key": 0}, on_failure=RETRY_THEN_STOP)]
    steps += [step("s1", READ, {"key": 1, "of": ref("s0")}, on_failure=RETRY_THEN_STOP)]
    driver = started(*steps)
    (dispatch,) = (order for order in driver.todo if isinstance(order, effects.Dispatch))
    outcome = stimuli.StepOutcome(
        step_id="s0", attempt=1, wave=dispatch.wave, outcome="not_started", code="tool.not_started"
    )
    driver.give(stimuli.StepsReturned(**driver.moment(), outcomes=[outcome]))
    assert driver.run is not None and driver.run.outstanding == ["s1"]
    driver.clock.now_ms += 10_000
    driver.give(stimuli.TimePassed(**driver.moment()))
    assert driver.run.outstanding == ["s1"]
