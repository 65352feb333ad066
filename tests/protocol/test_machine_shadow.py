"""Shadow runs: reads run, writes are written down, and nothing in the world is touched."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.protocol.machine import effects
from duly.protocol.machine.phases import Phase
from duly.protocol.wire import canon
from plans import plan, ref, step, table, tool

A, S = tool("a"), tool("s", sensitive=True)
W, MAIL = tool("w", "write"), tool("mail", "external")
ALL = table(A, S, W, MAIL)
READ = step("s1", A, {"key": 1})
WRITE = step("s2", W, {"key": ref("s1")}, reader=A)


def run_of(*steps: Any, **settings: Any) -> Driver:
    driver = Driver(
        Answers(tools={"t.a": lambda **k: k, "t.s": lambda **k: k}),  # a write would not even be there
        ALL,
        plan=plan(steps),
        settings={"shadow": True, **settings},
    )
    driver.submit()
    return driver


def test_what_would_have_happened_is_written_down_with_its_arguments():
    driver = run_of(READ, WRITE, step("s3", A, {"key": 9}))
    run = driver.run
    assert run is not None and (run.phase, run.reason, run.verdict) == (Phase.PARTIAL, "shadow", "pass")
    assert "s2 (t.w)" in run.message
    (written,) = [one for one in driver.events if one.kind == "step.shadowed"]
    assert canon.decode(written.attached["arguments"]) == {"key": 1}
    assert written.facts["tool"] == "t.w"
    assert [one[0] for one in driver.answers.called] == ["s1", "s3"]
    assert not run.budget.reserved and run.budget.used("steps") == 2


@pytest.mark.parametrize("tier", ["assisted", "supervised", "bounded_autonomous"])
def test_nobody_is_asked_about_what_is_not_done(tier: str):
    driver = run_of(READ, WRITE, tier=tier)
    assert "gate.asked" not in driver.kinds()


def test_a_gate_for_every_plan_a_sensitive_read_or_a_gated_one_stays():
    assert run_of(READ, WRITE, gate="always").run.gate is not None  # type: ignore[union-attr]
    assert run_of(step("s1", S, {}), WRITE).run.gate is not None  # type: ignore[union-attr]
    assert run_of(READ, gated_tools=["t.a"]).run.gate is not None  # type: ignore[union-attr]
    assert run_of(READ, WRITE, gated_tools=["t.w"]).run.phase is Phase.PARTIAL  # type: ignore[union-attr]


def test_steps_that_depend_on_one_are_skipped_by_name_and_so_are_theirs():
    driver = run_of(
        READ,
        WRITE,
        step("s3", A, {"key": ref("s2")}),
        step("s4", A, {"key": 4}, needs=["s2"]),
        step("s5", MAIL, {"key": 5}, reader=A, needs=["s4"]),
        step("s6", A, {"key": 6}, needs=["s1"]),
    )
    skipped = {facts["step_id"]: facts["code"] for facts in driver.facts("step.skipped")}
    assert skipped == dict.fromkeys(("s3", "s4", "s5"), "step.shadowed_input")
    assert driver.run is not None and driver.run.steps["s6"].status == "succeeded"


def test_with_writes_alone_there_is_nothing_to_verify():
    driver = run_of(step("s1", W, {"key": 1}, reader=A), step("s2", MAIL, {"key": 2}, reader=A))
    run = driver.run
    assert run is not None and (run.phase, run.reason) == (Phase.PARTIAL, "shadow")
    assert "s1 (t.w), s2 (t.mail)" in run.message
    assert not [order for order in driver.performed if isinstance(order, effects.PrepareVerification)]


def test_without_a_write_it_is_a_run_like_any_other():
    run = run_of(READ).run
    assert run is not None and run.phase is Phase.COMPLETED


def test_a_failed_check_fails_a_shadow_run_too():
    answers = Answers(
        tools={"t.a": lambda **k: k},
        judge=lambda run, checks: [one.model_copy(update={"outcome": "fail"}) for one in checks],
    )
    driver = Driver(answers, ALL, plan=plan([READ, WRITE]), settings={"shadow": True})
    run = driver.submit()
    assert run.phase is Phase.FAILED and run.reason == "plan.no_alternative"


def test_the_plan_is_not_cached():
    assert run_of(READ, WRITE).answers.stored == []


def test_a_crash_at_every_event_writes_everything_down_once():
    size = len(run_of(READ, WRITE).record.leaves)
    for at in range(1, size + 1):
        driver = Driver(
            Answers(tools={"t.a": lambda **k: k}), ALL, plan=plan([READ, WRITE]), settings={"shadow": True}
        )
        driver.crash_after = at
        run = driver.submit()
        assert run.reason == "shadow" and driver.kinds().count("step.shadowed") == 1
