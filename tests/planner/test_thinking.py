"""What the harness hands the planner's model with a turn of a direct run: what a package calls sensitive is marked so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from answers import Answers
from driver import Driver
from duly.actors.harness.thinker import Thinker
from duly.actors.model_messages import ModelAnswered
from duly.protocol.machine import effects
from duly.protocol.plan.package import load_package
from duly.protocol.plan.request import Binding
from duly.protocol.wire import canon
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from flights import descriptors, package, package_files
from harness_in_process import NoModel

CALL = ("metrics.value", {"metric": "on_time_arrival_rate"})


class Asked:
    """A caller who keeps what the planner's actor would get, and answers with one call."""

    def __init__(self) -> None:
        self.turns: list[Any] = []

    async def ask(self, role: str, body: Any, want: Any, *, blobs: list[bytes], run_id: str) -> Any:
        self.turns = canon.decode(blobs[1], bytes_max=ARTIFACT_BYTES_MAX)
        said = {"tool": CALL[0], "arguments": CALL[1], "why": "to know"}
        return ModelAnswered(), [canon.encode(said)]


def talked(*calls: tuple[str, dict[str, Any]]) -> Driver:
    """A direct run that has made some calls and then answered."""
    left: list[Any] = [*calls, "That is all."]
    answers = Answers(
        tools={name: lambda **given: {"seen": 1} for name, _ in calls},
        bind=lambda run, order: Binding(),
        turn=lambda run, order: left.pop(0),
    )
    driver = Driver(answers, descriptors(), submitted={"has_model": True}, settings={"planning": "never"})
    driver.submit()
    return driver


@pytest.mark.parametrize(("sensitive", "marked"), [('"flights"', True), ("", False)])
def test_a_turn_that_read_a_sensitive_source_is_marked_and_its_sources_are_named(sensitive, marked):
    files = dict(package_files())
    policy = f"[policy]\nsensitive_sources = [{sensitive}]"
    files["agent.toml"] = files["agent.toml"].decode().replace("[policy]", policy).encode()
    asked, opened = Asked(), load_package(files, "one")

    async def get(digest: str) -> Any:
        return SimpleNamespace(package=opened)

    thinker = Thinker(
        asked, SimpleNamespace(get=get), lambda run_id: [], {"planner": NoModel(), "critic": NoModel()}
    )
    driver = talked(CALL)
    order = next(one for one in driver.performed if isinstance(one, effects.TakeTurn))
    made = asyncio.run(thinker.turn(driver.run, order))(1, "f" * 32)
    assert [one["sensitive"] for one in asked.turns] == [marked]
    assert sorted(one.source for one in made.sources) == sorted(
        package().semantics.sources_of("on_time_arrival_rate")
    )
