"""The critic: asked where the tier says so, it lowers a judgement, and its silence is never a pass."""

from __future__ import annotations

from typing import Any

import pytest

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.judgement.checks import Check
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Plan
from duly.protocol.wire.errors import PlanError
from plans import DEGRADE, plan, ref, step, table, tool

A, B = tool("a"), tool("b")
ALL = table(A, B)
TIERS = {"assisted": False, "supervised": True, "bounded_autonomous": True, "long_autonomous": True}


def driver_of(word: Any = "pass", tier: str = "supervised", has_critic: bool = True, **more: Any) -> Driver:
    critic = word if callable(word) else lambda run: word
    fields = more.pop("fields", {})
    steps = more.pop("steps", [step("s1", A, {"key": 1})])
    answers = Answers(
        tools={"t.a": lambda **k: k, "t.b": more.pop("other", lambda **k: k)}, critic=critic, **more
    )
    return Driver(
        answers,
        ALL,
        plan=plan(steps, **fields),
        settings={"tier": tier},
        submitted={"has_critic": has_critic},
    )


def judges(driver: Driver) -> list[effects.Judge]:
    return [order for order in driver.performed if isinstance(order, effects.Judge)]


@pytest.mark.parametrize(("tier", "asked"), TIERS.items())
def test_who_asks_it(tier: str, asked: bool):
    driver = driver_of(tier=tier)
    assert driver.submit().phase is Phase.COMPLETED
    assert [order.critic for order in judges(driver)] == [asked]
    assert driver.facts("verdict.reached")[0]["critic"] == ("asked" if asked else "off")


@pytest.mark.parametrize("tier", [tier for tier, asked in TIERS.items() if asked])
def test_a_package_without_one_is_not_asked_and_the_result_says_so(tier: str):
    driver = driver_of("fail", tier=tier, has_critic=False)
    run = driver.submit()
    assert run.phase is Phase.COMPLETED and "critic" in run.message and "none" in run.message
    assert [order.critic for order in judges(driver)] == [False]
    assert driver.facts("verdict.reached")[0]["critic"] == "none"


@pytest.mark.parametrize("word", ["not_run", "silent"])
@pytest.mark.parametrize("partial", [True, False])
def test_without_its_word_the_result_is_unverified(word: str, partial: bool):
    driver = driver_of(word, fields={"allow_partial": partial})
    run = driver.submit()
    assert (run.phase, run.reason, run.verdict) == (Phase.PARTIAL, "verdict.unverified", "inconclusive")
    assert driver.answers.stored == []


def test_a_check_that_calls_itself_optional_is_no_way_around_it():
    def judge(run: Run, checks: list[Check]) -> list[Check]:
        return [
            one.model_copy(update={"mandatory": False}) if one.kind == "critic" else one for one in checks
        ]

    assert driver_of("not_run", judge=judge).submit().reason == "verdict.unverified"


def test_what_else_was_not_checked_is_not_excused_by_its_silence():
    def judge(run: Run, checks: list[Check]) -> list[Check]:
        return [one.model_copy(update={"outcome": "not_run"}) for one in checks]

    run = driver_of("not_run", judge=judge).submit()
    assert (run.phase, run.reason) == (Phase.FAILED, "verdict.inconclusive")


def test_a_verifier_that_forgets_it_is_no_pass():
    driver = driver_of("silent")
    driver.give(driver.submission())
    while not any(isinstance(order, effects.Judge) for order in driver.todo):
        driver._one_order()
    order = driver.todo.popleft()
    (said,) = driver.answers.perform(driver, order)
    assert isinstance(said, stimuli.Judged) and said.outcome == "pass"
    driver.give(said)
    assert driver.run is not None and driver.run.reason == "verdict.unverified"


def test_its_pass_raises_nothing():
    def judge(run: Run, checks: list[Check]) -> list[Check]:
        return [one if one.kind == "critic" else one.model_copy(update={"outcome": "fail"}) for one in checks]

    run = driver_of("pass", judge=judge).submit()
    assert run.phase is Phase.FAILED and run.verdict == "fail"


def test_with_something_missing_the_plan_decides():
    steps = [
        step("s1", A, {"key": 1}),
        step("s2", B, {"key": 2}, on_failure=DEGRADE),
        step("s3", A, {"key": ref("s2")}),
    ]
    for partial, phase in ((True, Phase.PARTIAL), (False, Phase.FAILED)):
        run = driver_of("silent", steps=steps, other=_broken, fields={"allow_partial": partial}).submit()
        assert (run.phase, run.reason) == (phase, "verdict.unverified")


def _broken(**_: Any) -> Any:
    raise CallFailure("tool.broken")


def test_it_fails_the_first_result_and_both_corrections():
    drafts = iter(range(9))

    def draft(run: Run, order: effects.Draft) -> Plan | PlanError:
        return plan([step("s1", A, {"key": 100 + next(drafts)})], origin="playbook")

    driver = driver_of("fail", draft=draft)
    run = driver.submit()
    assert (run.phase, run.reason, run.verdict) == (Phase.FAILED, "verdict.fail", "fail")
    assert len(judges(driver)) == 3 and len(driver.facts("replan.triggered")) == 2
    assert driver.facts("replan.refused")[-1]["code"] == "replan.bound"
    assert "It says fail" in run.message


def test_a_correction_that_it_likes_completes():
    words = iter(["fail", "pass"])

    def draft(run: Run, order: effects.Draft) -> Plan | PlanError:
        assert order.reason == "verdict.fail"
        return plan([step("s1", A, {"key": 2})], origin="playbook")

    run = driver_of(lambda run: next(words), draft=draft).submit()
    assert run.phase is Phase.COMPLETED


def test_without_a_correction_the_end_says_what_it_said():
    run = driver_of("fail").submit()
    assert (run.phase, run.reason) == (Phase.FAILED, "plan.no_alternative")
    assert run.message.startswith("A check failed: critic: It says fail")


def test_what_it_took_is_settled_after_a_crash_too():
    driver = driver_of("pass")
    driver.settings = {"tier": "supervised", "budget": {"model_tokens": 50_000}}
    driver.give(driver.submission())
    while not any(isinstance(order, effects.Judge) for order in driver.todo):
        driver._one_order()
    driver.resume()
    run = driver.go_on()
    assert run.phase is Phase.COMPLETED and run.budget.used("model_tokens") == 20_000 + 10
