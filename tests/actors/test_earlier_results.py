"""What a run that is continued hands on: everything that happened, and of what was read all that no check failed."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.actors.harness.earlier import kept_results
from duly.protocol.machine.calls import literal_key
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Step
from duly.protocol.wire.errors import RunError
from plans import plan, step, table, tool

A, B = tool("a"), tool("b")
W = tool("w", "write")
ALL = table(A, B, W)
READ = step("s1", A, {"key": 1})
WRITE = step("s2", W, {"key": 2}, reader=B, needs=["s1"])
LAST = step("s3", A, {"key": 3}, needs=["s2"])
FREE = {"tier": "bounded_autonomous"}
MARKS = {"source": "1"}


class Receipts:
    """Artifacts of a run of which nobody looks at the bytes."""

    def get(self, run_id: str, digest: str) -> bytes:
        return f"{run_id} {digest}".encode()


def driven(*steps: Step, earlier: Run | None = None, tools: Any = None, **settings: Any) -> Driver:
    submitted = {"fingerprints": MARKS}
    if earlier is not None:
        submitted |= {"from_run": earlier.run_id, "kept": kept_results(earlier, Receipts())}  # type: ignore[arg-type]
    driver = Driver(
        Answers(tools={name: lambda **k: k for name in ALL} | (tools or {}), fingerprints=MARKS),
        ALL,
        plan=plan(steps, allow_partial=True),
        settings={**FREE, **settings},
        submitted=submitted,
    )
    driver.submit()
    return driver


def handed_on(run: Run) -> set[str]:
    return {one.key for one in kept_results(run, Receipts())}  # type: ignore[arg-type]


def keys(*steps: Step) -> set[str]:
    return {literal_key(one) for one in steps}


def called(driver: Driver) -> list[str]:
    return [one[0] for one in driver.answers.called]


def failing(**arguments: Any) -> Any:
    if arguments["key"] == 3:
        raise CallFailure("tool.failed")
    return arguments


def test_a_run_that_its_budget_stopped_goes_on_where_it_stopped():
    first = driven(READ, WRITE, LAST, budget={"steps": 2})
    assert first.run is not None and (first.run.phase, first.run.reason) == (Phase.PARTIAL, "budget.steps")
    assert handed_on(first.run) == keys(READ, WRITE)
    second = driven(READ, WRITE, LAST, earlier=first.run)
    assert second.run is not None and second.run.phase is Phase.COMPLETED
    assert "s2" not in called(second) and second.run.steps["s2"].status == "reused"


def test_an_effect_before_a_failure_happens_once_over_both_runs():
    first = driven(READ, WRITE, LAST, tools={"t.a": failing})
    first.answer("give up")
    assert first.run is not None and first.run.phase.ended and called(first) == ["s1", "s2", "s3"]
    second = driven(READ, WRITE, LAST, earlier=first.run)
    assert second.run is not None and second.run.phase is Phase.COMPLETED and "s2" not in called(second)


def test_what_a_run_between_never_came_to_is_handed_on_too():
    first = driven(READ, WRITE, LAST, budget={"steps": 2})
    assert first.run is not None
    between = driven(READ, WRITE, LAST, earlier=first.run, budget={"steps": 1}, tools={"t.a": failing})
    if not between.run or not between.run.phase.ended:
        between.cancel()
    assert between.run is not None and keys(WRITE) <= handed_on(between.run)


def test_a_read_that_a_check_failed_is_not_and_an_effect_is():
    def wrong(**arguments: Any) -> Any:
        return {**arguments, "key": 99}

    first = driven(READ, WRITE, tools={"t.b": wrong})
    run = first.run
    assert run is not None and run.phase.ended and run.phase is not Phase.COMPLETED
    assert handed_on(run) >= keys(WRITE)
    second = driven(READ, WRITE, earlier=run)
    assert "s2" not in called(second)


def test_where_nobody_knows_of_an_effect_nothing_is_continued():
    def lost(**arguments: Any) -> Any:
        raise CallFailure("tool.lost", outcome="unknown")

    first = driven(READ, WRITE, tools={"t.w": lost})
    first.cancel()
    assert first.run is not None and first.run.phase is Phase.CANCELLED
    with pytest.raises(RunError, match="whether s2 had its effect") as caught:
        kept_results(first.run, Receipts())  # type: ignore[arg-type]
    assert caught.value.code == "run.outcome_unknown"


def test_a_run_that_goes_on_hands_nothing_on():
    first = driven(READ, WRITE, tier="assisted")
    assert first.run is not None and first.run.phase is Phase.WAITING_APPROVAL
    with pytest.raises(RunError) as caught:
        kept_results(first.run, Receipts())  # type: ignore[arg-type]
    assert caught.value.code == "run.not_ended"
