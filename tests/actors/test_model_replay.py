"""Runs again without the model: the same questions byte for byte, the same answers, outputs and plans, however slow it was."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holding import PACKAGE
from mind import ALWAYS, NEVER, answer, call, look, note, planned, think
from model_calls import calls_of, outputs_of
from runtime_home import Outcome, RuntimeHome
from scripted_model_server import refuses

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SLOW_SECONDS = 1.2  # budgets count whole seconds: after so long, what is left of the time is another number
SUPERVISED = ("--tier", "supervised")


class Slowly:
    """Words that come only once the test lets them."""

    def __init__(self) -> None:
        self._let = threading.Event()

    def says(self, word: Any) -> Callable[[Any], Any]:
        def said(asked: Any) -> Any:
            assert self._let.wait(60), "nobody let the model answer"
            return word

        return said

    def let(self) -> None:
        self._let.set()


@pytest.fixture
def slowly() -> Slowly:
    return Slowly()


@pytest.fixture
def first(home: RuntimeHome, held: Any, mind: Any, slowly: Slowly) -> Callable[..., Outcome]:
    """A run whose first answer takes its time: other commands are served meanwhile."""

    def run(request: str, *options: str, **says: Any) -> Outcome:
        mind.says = says
        mind.forget()
        command = home.begin("run", str(PACKAGE), request, "--json", *options)
        mind.wait()
        asked = time.monotonic()
        while time.monotonic() - asked < SLOW_SECONDS:
            assert home.duly("runs", "--json").code == 0
        slowly.let()
        return home.finish(command)

    return run


@pytest.fixture
def again(home: RuntimeHome, mind: Any) -> Callable[[Outcome], Outcome]:
    """The replay of a run, by a model that says nothing any more; held against the run itself."""

    def replay(before: Outcome) -> Outcome:
        mind.says, mind.asked = {}, []
        after = home.duly("run", "--replay", before.result["run_id"], "--json")
        assert mind.asked == [], "a replay asks no model"
        assert (after.code, after.result["phase"]) == (before.code, before.result["phase"]), after.out
        same(home, before, after)
        return after

    return replay


def same(home: RuntimeHome, before: Outcome, after: Outcome) -> None:
    """Questions, answers, plans, outputs and the end are the same; the replay took no token."""
    ours, theirs = calls_of(home, after), calls_of(home, before)
    assert [one.facts["call"] for one in ours] == [one.facts["call"] for one in theirs]
    assert [one.facts["code"] for one in ours] == [one.facts["code"] for one in theirs]
    assert [one.artifacts for one in ours] == [one.artifacts for one in theirs]
    assert theirs and all(one.artifacts["model_request"] for one in ours)
    assert sum(one.facts["tokens_in"] + one.facts["tokens_out"] for one in ours) == 0
    for kind in ("plan.drafted", "plan.extended"):
        digests = [[one["digest"] for one in outcome.facts(kind)] for outcome in (before, after)]
        assert digests[0] == digests[1]
    assert outputs_of(home, after) == outputs_of(home, before) != {}
    for name in ("answer", "verdict", "reason", "plan_digest"):
        assert after.result[name] == before.result[name], name


def test_a_plan_that_was_drafted_slowly(first, again, slowly):
    plan = planned(look("s1", "far"), look("s2", "near"))
    before = first("Tell me of slow hills.", *ALWAYS, plan=slowly.says(plan))
    assert before.code == 0, before.err
    again(before)


def test_a_critics_correction(first, again, slowly):
    before = first(
        "Tell me of everything slow.",
        *ALWAYS,
        *SUPERVISED,
        plan=[slowly.says(planned(look("s1", "far"))), planned(look("s1", "far"), look("s2", "sea"))],
        review=[
            {"outcome": "fail", "corrections": ["look at the sea, too"]},
            {"outcome": "pass", "corrections": []},
        ],
    )
    assert before.code == 0 and len(before.facts("verdict.reached")) == 2, before.err
    after = again(before)
    assert [one["outcome"] for one in after.facts("verdict.reached")] == ["fail", "pass"]
    assert len(after.facts("plan.drafted")) == 2 and after.facts("step.reused")


def test_a_direct_run(first, again, slowly):
    turns = [slowly.says(call("things.look", name="hills")), call("things.look", name="sea"), answer("Two.")]
    before = first("How many are slow?", *NEVER, turn=turns)
    assert (before.code, before.result["answer"]) == (0, "Two."), before.err
    assert len(again(before).facts("plan.extended")) == 2


def test_filled_arguments_and_a_reason_step(first, again, slowly):
    before = first(
        "Tell me what slow hills mean.",
        *ALWAYS,
        plan=slowly.says(planned(look("s1", "far"), look("s2", None, after=["s1"]), think("s3", "s1", "s2"))),
        arguments={"arguments": {"name": "deep"}},
        answer={"answer": {"meaning": "much"}},
    )
    assert before.code == 0, before.err
    after = again(before)
    assert [one["purpose"] for one in after.facts("model.called")] == ["plan", "arguments", "reason"]


def test_a_call_that_was_tried_again(first, again, slowly):
    plan = planned(look("s1", "late"))
    before = first("Tell me late.", *ALWAYS, plan=[slowly.says(refuses(500, "not now")), plan])
    assert before.code == 0, before.err
    after = again(before)
    assert [one["code"] for one in after.facts("model.called")] == ["model.unavailable", ""]


def test_a_draft_that_was_refused_and_mended(first, again, slowly):
    bad = planned(look("s1", "far", after=["s2"]), look("s2", "far", after=["s1"]))
    plan = [slowly.says(bad), planned(look("s1", "far"))]
    before = first("Tell me of slow mistakes.", *ALWAYS, plan=plan)
    assert before.code == 0, before.err
    assert len(again(before).facts("model.called")) == 2


def test_a_write_waits_again_in_the_replay_and_is_not_done_by_it(first, home, held, mind, slowly):
    before = first("Write slow hills down.", *ALWAYS, plan=slowly.says(planned(note("s1", "slow"))))
    assert before.code == 6, before.err
    assert home.duly("approve", before.result["run_id"], "--json").code == 0 and len(held.sink) == 1
    mind.says, mind.asked = {}, []
    after = home.duly("run", "--replay", before.result["run_id"], "--json")
    assert (after.code, mind.asked) == (6, []), after.err
    assert after.result["plan_digest"] == before.result["plan_digest"] and len(held.sink) == 1
    assert home.duly("reject", after.result["run_id"], "--json").code == 3 and len(held.sink) == 1


@pytest.mark.parametrize("garbage", ["no JSON at all", {"steps": "none"}])
def test_an_answer_that_was_none_and_was_mended(first, again, slowly, garbage):
    """The next attempt was told what was wrong with it, and is told the same again."""
    plan = [slowly.says(garbage), planned(look("s1", "far"))]
    before = first(f"Tell me of slow nonsense, {len(garbage)}.", *ALWAYS, plan=plan)
    assert before.code == 0, before.err
    after = again(before)
    assert [one["code"] for one in after.facts("model.called")] == ["model.bad_answer", ""]
