"""A host judges every grant again: each thing that can be wrong has its code, and nothing runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.wire.errors import DulyError
from host_world import HostWorld, now_ms, python_package

SOURCE = """
import pathlib

@tool(effect="read", timeout_seconds=5)
def look(call) -> int:
    (call.data.parent / "ran").touch()
    return 1

@tool(effect="write")
def change(call) -> int:
    (call.data.parent / "ran").touch()
    return 1

@tool
def unsaid(call) -> int:
    (call.data.parent / "ran").touch()
    return 1
"""


@pytest.fixture(scope="module")
def world() -> Iterator[HostWorld]:
    world = HostWorld("read")
    world.add_package(python_package(SOURCE, "look", "change", "unsaid"))
    world.start()
    yield world
    world.close()


def _run_one(world: HostWorld, tool: str = "shed.look", data: bytes | None = None, **changes):
    async def run():
        async with world.client() as client:
            granted = world.grant(tool, **changes)
            if data is not None:
                granted = type(granted)(granted.grant, data)
            return (await world.run(client, [granted]))[0]

    return asyncio.run(run())


REFUSALS = {
    "grant.other_host": {"host": "verify"},
    "grant.stale_epoch": {"epoch": 0},
    "grant.expired": {"issued_ms": 1, "expires_ms": 2},
    "grant.from_the_future": {"issued_ms": now_ms() + 3_600_000, "expires_ms": now_ms() + 7_200_000},
    "grant.args_mismatch": {"arguments": "0" * 64},
    "grant.descriptor_changed": {"descriptor": "0" * 64},
    "grant.effect_mismatch": {"effect": "write"},
    "grant.bad_deadline": {"deadline_ms": 5_001},
    "grant.malformed": {"nonce": "no name"},
    "tool.unknown": {"tool": "shed.absent"},
    "tool.unknown_package": {"package": "../../etc"},
    "package.missing": {"package": "f" * 64},
}


@pytest.mark.parametrize("code", REFUSALS)
def test_each_fault_of_a_grant_is_refused_by_its_code(world, code):
    _run_one(world)  # raises the host's epoch to 1
    (world.home / "ran").unlink()
    ran = _run_one(world, **REFUSALS[code])
    assert (ran.receipt.outcome, ran.code) == ("error", code)
    assert ran.error["message"]
    assert not (world.home / "ran").exists()


def test_one_byte_of_the_arguments_changed_after_the_grant(world):
    ran = _run_one(world, data=b"\x81\xa1x\x01")
    assert ran.code == "grant.args_mismatch"


@pytest.mark.parametrize("tool", ["shed.change", "shed.unsaid"])
def test_a_read_host_runs_no_tool_that_may_write(world, tool):
    (world.home / "ran").unlink(missing_ok=True)
    ran = _run_one(world, tool)
    assert ran.code == "grant.effect_not_here"
    assert not (world.home / "ran").exists()


def test_a_grant_acts_once(world):
    async def run():
        async with world.client() as client:
            granted = world.grant("shed.look")
            first = await world.run(client, [granted])
            again = await world.run(client, [granted])
            twice = await world.run(client, [granted, world.grant("shed.look", step="s2")], mode="concurrent")
            return [*first, *again, *twice]

    first, again, third, other = asyncio.run(run())
    assert first.receipt.outcome == "ok"
    assert (again.code, third.code) == ("grant.replayed", "grant.replayed")
    assert other.receipt.outcome == "ok"


def test_two_executors_with_one_grant(world):
    async def run():
        async with world.client() as one, world.client() as other:
            granted = world.grant("shed.look")
            return await asyncio.gather(world.run(one, [granted]), world.run(other, [granted]))

    outcomes = sorted(found[0].code or "ran" for found in asyncio.run(run()))
    assert outcomes == ["grant.replayed", "ran"]


def test_grants_of_a_stranger_and_of_nobody(world):
    async def refused(envelope: bytes) -> str:
        async with world.client() as client:
            with pytest.raises(DulyError) as why:
                async for _ in client.run(envelope, [b"\x80"], mode="serial"):
                    pytest.fail("something ran")
            return why.value.code

    async def run():
        async with world.client():
            granted = world.grant("shed.look")
        real, world.harness = world.harness, Ed25519PrivateKey.generate()
        stranger = world.signed([granted])
        world.harness = real
        bent = bytearray(world.signed([granted]))
        bent[40] ^= 1
        return [await refused(stranger), await refused(bytes(bent)), await refused(b"rubbish")]

    assert asyncio.run(run())[0] == "grant.unknown_key"
    assert set(asyncio.run(run())[1:]) <= {"grant.bad_signature", "grant.malformed"}


def test_a_dispatch_with_fewer_arguments_than_grants_is_refused(world):
    async def run():
        async with world.client() as client:
            envelope = world.signed([world.grant("shed.look"), world.grant("shed.look", step="s2")])
            with pytest.raises(DulyError) as why:
                async for _ in client.run(envelope, [b"\x80"], mode="serial"):
                    pytest.fail("something ran")
            return why.value.code

    assert asyncio.run(run()) == "grant.args_mismatch"


def test_a_statement_of_a_new_harness_voids_older_grants():
    world = HostWorld("read")
    world.add_package(python_package(SOURCE, "look"))
    world.start()

    async def run():
        async with world.client() as client:
            assert (await client.hello())["epoch"] == 0
            old = world.grant("shed.look")
            assert await client.take_epoch(world.epoch_statement(7)) == 7
            late = (await world.run(client, [old]))[0]
            with pytest.raises(DulyError) as backwards:
                await client.take_epoch(world.epoch_statement(6))
            world.epoch = 7
            return late.code, backwards.value.code, (await world.run(client, [world.grant("shed.look")]))[0]

    try:
        late, backwards, now = asyncio.run(run())
        assert (late, backwards) == ("grant.stale_epoch", "grant.stale_epoch")
        assert now.receipt.outcome == "ok"
    finally:
        world.close()


def test_a_snapshot_that_was_edited_is_not_run():
    changed = HostWorld("read")
    changed.add_package(python_package(SOURCE, "look"))
    file = changed.home / "packages" / changed.package / "tools.py"
    file.write_text(file.read_text().replace("return 1", "return 2"))
    changed.start()

    async def run():
        with pytest.raises(DulyError) as why:
            async with changed.client():
                pytest.fail("it was described")
        return why.value.code

    try:
        assert asyncio.run(run()) == "package.damaged"
    finally:
        changed.close()
