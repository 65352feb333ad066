"""The checkers notice what they are for: sound stories pass, and each kind of tampering is a violation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chance_world import World
from duly.protocol.wire import canon
from story_checks import Violation, check_story

Leaf = dict[str, Any]


def story(wanted: Callable[[World], bool]) -> World:
    """The first story by seed in which something happened."""
    for seed in range(2_000):
        world = World(seed)
        world.live()
        if wanted(world):
            return world
    raise AssertionError("no such story")


def completed_with_a_write(world: World) -> bool:
    assert world.run is not None
    return (
        str(world.run.phase) == "COMPLETED"
        and bool(world.sink.effects)
        and world.kinds().count("step.started") > 2
        and "step.approved" not in world.kinds()
        and "plan.approved" in world.kinds()
        and not world.kinds().count("run.resumed")
        and world.kinds()[-1] == "run.ended"
    )


def tampered(world: World, change: Callable[[list[Leaf]], list[Leaf]]) -> World:
    leaves = change([canon.decode(leaf) for leaf in world.record.leaves])
    world.record.leaves = [canon.encode(leaf) for leaf in leaves]
    return world


def without(kind: str) -> Callable[[list[Leaf]], list[Leaf]]:
    return lambda leaves: [leaf for leaf in leaves if leaf["kind"] != kind]


def doubled(kind: str) -> Callable[[list[Leaf]], list[Leaf]]:
    return lambda leaves: [leaf for one in leaves for leaf in [one] * (2 if one["kind"] == kind else 1)]


def reserved_too_much(leaves: list[Leaf]) -> list[Leaf]:
    for leaf in leaves:
        if leaf["kind"] == "budget.reserved":
            leaf["facts"]["amounts"] = {"steps": 10_000}
    return leaves


def judged_badly(leaves: list[Leaf]) -> list[Leaf]:
    for leaf in leaves:
        if leaf["kind"] == "verdict.reached":
            leaf["facts"]["outcome"] = "inconclusive"
    return leaves


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (doubled("step.started"), "again without a cause"),
        (reserved_too_much, "were reserved of"),
        (without("budget.reserved"), "without a reservation"),
        (without("plan.approved"), "started after gate.asked"),
        (lambda leaves: without("plan.approved")(without("gate.asked")(leaves)), "without an approval"),
        (judged_badly, "without a passing verdict"),
        (lambda leaves: leaves[:-1], "the story stops with"),
        (lambda leaves: [*leaves, leaves[-1]], "a run ends once"),
        (without("step.succeeded"), "started"),
    ],
)
def test_a_tampered_record_is_a_violation(change: Callable[[list[Leaf]], list[Leaf]], what: str):
    world = story(completed_with_a_write)
    assert world.run is not None
    check_story(world, world.run)
    with pytest.raises(Violation, match=what):
        check_story(tampered(world, change), world.run)


def test_an_effect_that_happened_twice_or_not_at_all_is_a_violation():
    world = story(completed_with_a_write)
    assert world.run is not None
    call = next(iter(world.sink.effects))
    world.sink.effects[call] += 1
    with pytest.raises(Violation, match="acted 2 times"):
        check_story(world, world.run)
    world.sink.effects.clear()
    with pytest.raises(Violation, match="is not there"):
        check_story(world, world.run)


def test_an_effect_on_unchecked_inputs_is_a_violation():
    def writes_on_inputs(world: World) -> bool:
        kinds = world.kinds()
        return (
            completed_with_a_write(world)
            and "step.checked" in kinds
            and kinds.index("step.checked") < kinds.index("verification.started")
        )

    world = story(writes_on_inputs)
    assert world.run is not None
    with pytest.raises(Violation, match="nobody checked"):
        check_story(tampered(world, without("step.checked")), world.run)
