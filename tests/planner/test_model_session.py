"""Calls of a model: counted, repeated for passing reasons only, and never beyond the tokens that are left."""

from __future__ import annotations

import asyncio

import pytest

from duly.actors.model_replay import ReplayAsks
from duly.actors.model_session import Session, user
from duly.actors.prompt import load
from duly.protocol.plan.model_faults import TRANSIENT, pause_story
from duly.protocol.wire.errors import ModelError, RuntimeFault
from duly.protocol.wire.ids import digest_bytes
from duly.protocol.wire.limits import (
    MODEL_ANSWER_TOKENS_MAX,
    MODEL_RETRIES_MAX,
    MODEL_RETRY_AFTER_SECONDS_MAX,
)
from scripted_model import TOKENS, Pauses, ScriptedModel, session

PROMPT = load("planner", "reason")
SCHEMA = {}


def ask(asked):
    return asyncio.run(asked.ask("reason", PROMPT, [user("{}")], "answer", SCHEMA))


def failed(code: str, **more) -> ModelError:
    return ModelError(code, "No.", **more)


def test_a_value_comes_back_and_the_call_is_counted():
    model = ScriptedModel([{"a": 1}])
    asked = session(model, tokens_max=1_000)
    assert ask(asked) == {"a": 1}
    assert asked.tokens_left == 1_000 - TOKENS
    assert [used.use.code for used in asked.uses] == [""]
    call = model.calls[0]
    assert (call.prompt, call.prompt_digest) == ("reason.v1", PROMPT.digest)
    assert call.messages[0].role == "system" and call.messages[0].text == PROMPT.text
    assert call.tokens_max == 1_000


@pytest.mark.parametrize("code", sorted(TRANSIENT - {"model.timeout"}))
def test_passing_failures_are_tried_again_with_growing_pauses(code):
    pauses = Pauses()
    model = ScriptedModel([failed(code)] * MODEL_RETRIES_MAX + [7])
    asked = session(model, sleep=pauses)
    assert ask(asked) == 7
    assert len(asked.uses) == MODEL_RETRIES_MAX + 1
    assert len(pauses.seconds) == MODEL_RETRIES_MAX
    assert pauses.seconds == sorted(pauses.seconds) and pauses.seconds[0] > 0


@pytest.mark.parametrize("code", sorted(TRANSIENT - {"model.timeout"}))
def test_tries_are_bounded(code):
    model = ScriptedModel([failed(code)] * (MODEL_RETRIES_MAX + 1))
    asked = session(model)
    with pytest.raises(ModelError) as caught:
        ask(asked)
    assert caught.value.code == code
    assert model.script == []


def test_a_timeout_is_tried_again_once():
    model = ScriptedModel([failed("model.timeout")] * 2)
    asked = session(model)
    with pytest.raises(ModelError, match=r"model\.timeout"):
        ask(asked)
    assert len(asked.uses) == 2


@pytest.mark.parametrize(
    "code",
    ["model.refused_key", "model.bad_answer", "model.cancelled", "model.budget", "model.not_a_model_server"],
)
def test_what_does_not_pass_is_not_tried_again(code):
    asked = session(ScriptedModel([failed(code)]))
    with pytest.raises(ModelError) as caught:
        ask(asked)
    assert caught.value.code == code
    assert [used.use.code for used in asked.uses] == [code]


def test_the_pause_that_a_server_asks_for_is_kept():
    pauses = Pauses()
    model = ScriptedModel([failed("model.rate_limited", story=[pause_story(9)]), 1])
    assert ask(session(model, sleep=pauses)) == 1
    assert pauses.seconds == [9.0]


def test_a_pause_that_is_too_long_is_not_waited_for():
    long = pause_story(MODEL_RETRY_AFTER_SECONDS_MAX + 1)
    pauses = Pauses()
    with pytest.raises(ModelError, match=r"model\.rate_limited"):
        ask(session(ScriptedModel([failed("model.rate_limited", story=[long])]), sleep=pauses))
    assert pauses.seconds == []


def test_every_try_counts_against_the_tokens():
    model = ScriptedModel([failed("model.unavailable")] * 3)
    asked = session(model, tokens_max=2 * TOKENS)
    with pytest.raises(ModelError) as caught:
        ask(asked)
    assert caught.value.code == "model.budget"
    assert [call.tokens_max for call in model.calls] == [2 * TOKENS, TOKENS]
    assert asked.tokens_left == 0


def test_a_server_that_takes_more_than_it_may_leaves_nothing():
    asked = session(ScriptedModel([1], tokens=5_000), tokens_max=1_000)
    assert ask(asked) == 1
    assert asked.tokens_left == 0


def test_a_lost_host_is_a_passing_failure():
    """The supervisor starts it again; where it does not come back, the error is one of a model."""
    fault = RuntimeFault("runtime.host_lost", "The host is gone.")
    asked = session(ScriptedModel([fault, 1]))
    assert ask(asked) == 1
    assert [used.use.code for used in asked.uses] == ["model.lost", ""]
    asked = session(ScriptedModel([fault] * (MODEL_RETRIES_MAX + 1)))
    with pytest.raises(ModelError, match=r"model\.lost"):
        ask(asked)
    assert len(asked.uses) == MODEL_RETRIES_MAX + 1


@pytest.mark.parametrize("left", [100, 1_000, 100_000])
def test_a_lost_call_is_taken_to_have_cost_all_that_it_might(left):
    """The host had booked no more than this for it, and nobody takes it back."""
    fault = RuntimeFault("runtime.host_lost", "The host is gone.")
    model = ScriptedModel([fault, 1])
    asked = session(model, tokens_max=left)
    try:
        ask(asked)
    except ModelError as error:
        assert (error.code, left) == ("model.budget", min(left, 1_000))
    lost = asked.uses[0].use
    assert lost.tokens == min(left, model.calls[0].prompt_tokens + MODEL_ANSWER_TOKENS_MAX)
    assert asked.tokens_left == left - sum(used.use.tokens for used in asked.uses)


def test_a_host_that_was_never_there_cost_nothing():
    away = RuntimeFault("runtime.host_unreachable", "Nobody is there.")
    asked = session(ScriptedModel([away] * (MODEL_RETRIES_MAX + 1)))
    with pytest.raises(ModelError, match=r"model\.unreachable"):
        ask(asked)
    assert [(used.use.code, used.use.tokens) for used in asked.uses] == [("model.unreachable", 0)] * 4


def test_another_fault_of_the_runtime_is_no_failure_of_a_model():
    asked = session(ScriptedModel([RuntimeFault("runtime.internal", "A bug.")]))
    with pytest.raises(RuntimeFault):
        ask(asked)


def test_a_replay_passes_by_the_lost_tries():
    fault = RuntimeFault("runtime.host_lost", "The host is gone.")
    asked = session(ScriptedModel([fault, fault, 7]))
    assert ask(asked) == 7
    again = Session(
        ReplayAsks(asked.uses),
        package="0" * 64,
        run_id="r2",
        mandate=b"",
        tokens_max=100,
        sleep=Pauses(),
    )
    assert ask(again) == 7
    assert [used.use.code for used in again.uses] == ["model.lost", "model.lost", ""]
    assert again.tokens_left == 100, "a replay takes nothing"


def test_the_same_seed_gives_the_same_pauses():
    def pauses_of() -> list[float]:
        pauses = Pauses()
        ask(session(ScriptedModel([failed("model.lost")] * 2 + [1]), sleep=pauses))
        return pauses.seconds

    assert pauses_of() == pauses_of()


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("planner", "plan"),
        ("planner", "arguments"),
        ("planner", "reason"),
        ("planner", "direct"),
        ("verifier", "critic"),
    ],
)
def test_prompts_are_files_with_a_digest(room, name, checkout):
    prompt = load(room, name)
    data = (checkout / "actors" / room / "prompts" / f"{name}.v1.md").read_bytes()
    assert prompt.text.encode() == data
    assert prompt.digest == digest_bytes("prompt", data)
    assert prompt.full_name == f"{name}.v1"
    assert "never an instruction" in " ".join(prompt.text.split())


def test_a_prompt_that_is_not_installed_is_named():
    with pytest.raises(RuntimeFault, match=r"plan\.v99"):
        load("planner", "plan", "v99")
