"""``duly doctor`` asks the models that are set one small question, through real model hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.cli import doctor_models
from duly.protocol.wire.limits import MODEL_CHECK_TOKENS_MAX
from duly.storage.home import Home
from model_host_world import ModelHostWorld
from scripted_model_server import Asked, ScriptedModelServer, refuses, says


@pytest.fixture
def world() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as one:
        yield one


class Place(Home):
    """A data directory whose planner's host is the test's own; the critic's is not there."""

    def __init__(self, world: ModelHostWorld) -> None:
        super().__init__(world.home)
        object.__setattr__(self, "socket", world.config.socket)

    def socket_path(self, name: str):
        return super().socket_path(name) if name != "model-planner" else self.socket  # type: ignore[attr-defined]


def found(world: ModelHostWorld) -> dict[str, tuple[str, str]]:
    return {
        one.name: (one.state, f"{one.says} {one.hint}")
        for one in doctor_models.models(Place(world), world.package)
    }


def test_none_is_set_and_no_runtime_is_up(world):
    told = found(world)
    assert told["planner"] == ("ok", "none is set: playbooks plan ")
    assert told["critic"][0] == "note" and "duly up" in told["critic"][1]


def answers(asked: Asked):
    """A server that keeps to the schema that it is given."""
    assert asked.schema is not None
    return {name: one["enum"][0] for name, one in asked.schema["properties"].items()}


def test_what_a_server_can_do(world):
    with ScriptedModelServer(answers) as server:
        world.renew(server.base_url)
        state, told = found(world)["planner"]
    assert state == "ok" and told.endswith(f"{doctor_models.ABLE['strict']} ")


BIRD = re.compile(r'"bird":\{"type":"string","enum":\["(\w+)"\]')


def told_in_words(*kinds: str, refused: bool) -> Callable[[Asked], Any]:
    """A server that follows a schema in the prompt, where it is asked in one of these ways; the others it refuses, or takes
    without heeding them."""

    def answer(asked: Asked) -> Any:
        kind = asked.body.get("response_format", {}).get("type", "none")
        if kind in kinds:
            bird = BIRD.search(asked.texts)
            return {"bird": bird[1]} if bird else "What a day!"
        return refuses(400, f"{kind} is not supported here") if refused else says("What a day!")

    return answer


@pytest.mark.parametrize("refused", [True, False], ids=["refuses", "pays no heed"])
@pytest.mark.parametrize(
    ("kinds", "mode", "requests"), [(("json_object", "none"), "json", 2), (("none",), "text", 3)]
)
def test_a_server_that_can_do_less(world, kinds, mode, requests, refused):
    with ScriptedModelServer(told_in_words(*kinds, refused=refused)) as server:
        world.renew(server.base_url)
        state, told = found(world)["planner"]
    assert state == "ok" and told.endswith(f"{doctor_models.ABLE[mode]} ")
    assert len(server.requests) == requests
    assert all(one.body["max_tokens"] <= MODEL_CHECK_TOKENS_MAX for one in server.requests)


def test_it_stands_in_no_books(world):
    """They hold runs to their mandates; this is no run."""
    with ScriptedModelServer(answers) as server:
        world.renew(server.base_url)
        found(world)
    assert len(server.requests) == 1
    assert Path(world.config.ledger).read_bytes() == b""


@pytest.mark.parametrize(
    ("reply", "code"), [(refuses(401), "model.refused_key"), (says("no JSON at all"), "model.bad_answer")]
)
def test_what_is_wrong(world, reply, code):
    with ScriptedModelServer(lambda asked: reply) as server:
        world.renew(server.base_url)
        state, told = found(world)["planner"]
    assert state == "broken" and code in told


class OneHost(Place):
    """Both roles are the one host, and so have one model."""

    def socket_path(self, name: str):
        return self.socket  # type: ignore[attr-defined]


def test_a_critic_that_is_the_planners_own_model_is_noted(world):
    with ScriptedModelServer(answers) as server:
        world.renew(server.base_url)
        told = [
            one.says for one in doctor_models.models(OneHost(world), world.package) if one.state == "note"
        ]
    assert len(told) == 1 and "own model" in told[0]
