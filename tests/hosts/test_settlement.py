"""A harness that lost the result of an effect asks the host, and whoever still holds the grant comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from duly.protocol.authority.settlement import Settlement, effect_nonce
from duly.protocol.wire.errors import DulyError
from host_world import HostWorld, now_ms, python_package

SOURCE = """
@tool(effect="write", timeout_seconds=5)
def touch(call, name: str) -> str:
    with open(call.data.parent / name, "a") as file:
        file.write("x")
    return name
"""
TOUCH = "shed.touch"


@pytest.fixture
def world() -> Iterator[HostWorld]:
    world = HostWorld("write")
    world.add_package(python_package(SOURCE, "touch"))
    world.start()
    yield world
    world.close()


def _statement(world: HostWorld, *nonces: str, epoch: int = 1, host: str = "write") -> bytes:
    return Settlement(host=host, epoch=epoch, granted_ms=now_ms(), nonces=list(nonces)).sign(world.harness)


async def _granted(world: HostWorld):
    async with world.client():  # describes the package, which a grant needs
        return world.grant(TOUCH, {"name": "touched"})


def _written(world: HostWorld) -> str:
    path = world.home / "touched"
    return path.read_text() if path.exists() else ""


def test_a_grant_that_was_never_used_is_void_from_then_on(world: HostWorld):
    async def run():
        async with world.client() as client:
            granted = world.grant(TOUCH, {"name": "touched"})
            fates, groups = await client.settle(_statement(world, granted.grant.nonce))
            late = await world.run(
                client, [granted], mandate=world.mandate(TOUCH), approvals=[world.approval(granted)]
            )
            return fates[granted.grant.nonce], groups, late[0].code

    assert asyncio.run(run()) == ("void", [], "grant.replayed")
    assert _written(world) == ""


def test_a_void_grant_stays_void_over_a_restart_of_the_host(world: HostWorld):
    granted = asyncio.run(_granted(world))

    async def settle():
        async with world.client() as client:
            return await client.settle(_statement(world, granted.grant.nonce))

    async def late():
        async with world.client() as client:
            ran = await world.run(
                client, [granted], mandate=world.mandate(TOUCH), approvals=[world.approval(granted)]
            )
            return ran[0].code

    asyncio.run(settle())
    world.kill()
    world.start()
    assert asyncio.run(late()) == "grant.replayed"
    assert _written(world) == ""


def test_the_result_of_an_effect_is_given_again(world: HostWorld):
    async def run():
        async with world.client() as client:
            granted = world.grant(TOUCH, {"name": "touched"})
            first = await world.run(
                client, [granted], mandate=world.mandate(TOUCH), approvals=[world.approval(granted)]
            )
            fates, groups = await client.settle(_statement(world, granted.grant.nonce))
            return first[0].code, fates[granted.grant.nonce], groups[0].nonces == [granted.grant.nonce]

    assert asyncio.run(run()) == ("", "done", True)
    assert _written(world) == "x"


def test_after_a_restart_a_used_grant_is_unknown(world: HostWorld):
    granted = asyncio.run(_granted(world))

    async def first():
        async with world.client() as client:
            await world.run(
                client, [granted], mandate=world.mandate(TOUCH), approvals=[world.approval(granted)]
            )

    async def settle():
        async with world.client() as client:
            return (await client.settle(_statement(world, granted.grant.nonce)))[0]

    asyncio.run(first())
    world.kill()
    world.start()
    assert asyncio.run(settle()) == {granted.grant.nonce: "unknown"}


@pytest.mark.parametrize(
    ("changes", "code"), [({"epoch": 0}, "grant.stale_epoch"), ({"host": "read"}, "grant.other_host")]
)
def test_only_the_present_harness_may_settle_at_this_host(world: HostWorld, changes, code):
    async def run():
        async with world.client() as client:
            await client.take_epoch(world.epoch_statement(1))
            await client.settle(_statement(world, "n-1", **changes))

    with pytest.raises(DulyError) as refused:
        asyncio.run(run())
    assert refused.value.code == code


def test_the_nonce_of_an_effect_follows_from_the_record():
    facts = {"run_id": "r", "step_id": "s", "attempt": 1, "wave": 1, "epoch": 1}
    assert effect_nonce(**facts) == effect_nonce(**facts)
    assert (
        len(
            {
                effect_nonce(**{**facts, name: 2 if name != "run_id" else "q"})
                for name in ("attempt", "wave", "epoch", "run_id")
            }
        )
        == 4
    )
