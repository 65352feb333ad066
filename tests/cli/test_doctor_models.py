"""``duly doctor`` asks the models that are set one small question, through real model hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duly.cli import doctor_models
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
    assert state == "ok" and "strict schema" in told


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
