"""An effect needs a mandate, and an approval where its tier has gates; it happens once, whatever is tried."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.grant import arguments_digest
from duly.protocol.wire.errors import DulyError
from host_world import HostWorld, now_ms, python_package

MANIFEST = """
[tools.incidents]
kind = "sqlite"
file = "incidents.sqlite"
table = "incidents"
columns = {carrier = {type = "text"}, points = {type = "real"}, note = {type = "text", required = false}}
"""
SOURCE = """
import os, threading

@tool(effect="write", timeout_seconds=5)
def touch(call, name: str) -> str:
    with open(call.data.parent / name, "a") as file:
        file.write("x")
    return name

@tool(effect="write", timeout_seconds=5)
def hang(call):
    (call.data.parent / "begun").write_text("begun")
    threading.Event().wait()

@tool(effect="write", timeout_seconds=5)
def wait_for(call, name: str) -> str:
    (call.data.parent / "begun").write_text("begun")
    return (call.data.parent / name).read_text()

@tool(effect="external")
def send(call) -> int:
    return 1

@tool(effect="read")
def look() -> int:
    return 1
"""
TOUCH, APPEND = "shed.touch", "incidents.append"
RECORD = {"record": {"carrier": "B6", "points": -2.019}}


@pytest.fixture
def world() -> Iterator[HostWorld]:
    world = HostWorld("write")
    files = python_package(SOURCE, "touch", "hang", "wait_for", "send", "look")
    world.add_package({**files, "agent.toml": files["agent.toml"] + MANIFEST})
    world.start()
    yield world
    world.close()


def _tried(world: HostWorld, tool: str, arguments, warrant, **changes):
    """One call with the warrant that ``warrant(granted)`` gives."""

    async def run():
        async with world.client() as client:
            granted = world.grant(tool, arguments, **changes)
            return (await world.run(client, [granted], **warrant(granted)))[0]

    return asyncio.run(run())


def _full(world: HostWorld, tool: str = TOUCH, **changes):
    return lambda granted: {
        "mandate": world.mandate(tool, **changes),
        "approvals": [world.approval(granted)],
    }


def test_an_approved_effect_happens_once(world):
    ran = _tried(world, TOUCH, {"name": "done"}, _full(world))
    assert (ran.receipt.outcome, ran.output) == ("ok", "done")
    assert (world.home / "done").read_text() == "x"


WARRANTS = {
    "mandate.missing": lambda world, granted: {"approvals": [world.approval(granted)]},
    "mandate.other_run": lambda world, granted: _warrant(world, granted, run_id="other"),
    "mandate.expired": lambda world, granted: _warrant(world, granted, expires_ms=now_ms() - 1),
    "mandate.from_the_future": lambda world, granted: _warrant(
        world, granted, issued_ms=now_ms() + 3_600_000
    ),
    "mandate.other_package": lambda world, granted: _warrant(world, granted, package="f" * 64),
    "mandate.tool_not_named": lambda world, granted: _warrant(world, granted, tools={}),
    "mandate.shadow": lambda world, granted: _warrant(world, granted, shadow=True),
    "mandate.unknown_key": lambda world, granted: _by_stranger(world, lambda: _warrant(world, granted)),
    "mandate.malformed": lambda world, granted: {"mandate": b"rubbish"},
    "approval.missing": lambda world, granted: {"mandate": world.mandate(TOUCH)},
    "approval.other_run": lambda world, granted: _approved(world, granted, run_id="other"),
    "approval.other_plan": lambda world, granted: _approved(world, granted, plan="f" * 64),
    "approval.expired": lambda world, granted: _approved(world, granted, expires_ms=now_ms() - 1),
    "approval.other_step": lambda world, granted: _approved(world, granted, steps={}),
    "approval.args_mismatch": lambda world, granted: {
        "mandate": world.mandate(TOUCH),
        "approvals": [world.approval(world.grant(TOUCH, {"name": "other"}))],
    },
    "approval.args_open": lambda world, granted: {
        "mandate": world.mandate(TOUCH),
        "approvals": [world.approval(granted, template="f" * 64)],
    },
    "approval.unknown_key": lambda world, granted: {
        "mandate": world.mandate(TOUCH),
        "approvals": _by_stranger(world, lambda: [world.approval(granted)]),
    },
}


def _warrant(world: HostWorld, granted, **changes):
    return {"mandate": world.mandate(TOUCH, **changes), "approvals": [world.approval(granted)]}


def _approved(world: HostWorld, granted, **changes):
    return {"mandate": world.mandate(TOUCH), "approvals": [world.approval(granted, **changes)]}


def _by_stranger(world: HostWorld, sign):
    known, world.person = world.person, Ed25519PrivateKey.generate()
    try:
        return sign()
    finally:
        world.person = known


def test_whatever_is_wrong_with_the_warrant_nothing_runs(world):
    for code, warrant in WARRANTS.items():
        ran = _tried(world, TOUCH, {"name": "done"}, lambda granted, warrant=warrant: warrant(world, granted))
        assert (ran.receipt.outcome, ran.code) == ("error", code)
    assert not (world.home / "done").exists()


def test_an_autonomous_mandate_is_the_approval_save_for_gated_tools(world):
    bounded = {"tier": "bounded_autonomous"}
    ran = _tried(world, TOUCH, {"name": "a"}, lambda _: {"mandate": world.mandate(TOUCH, **bounded)})
    assert ran.receipt.outcome == "ok"
    gated = _tried(
        world,
        TOUCH,
        {"name": "b"},
        lambda _: {"mandate": world.mandate(TOUCH, gated_tools=[TOUCH], **bounded)},
    )
    assert gated.code == "approval.missing"
    sent = _tried(world, "shed.send", {}, lambda _: {"mandate": world.mandate("shed.send")})
    assert sent.code == "approval.missing"


def test_an_approval_with_references_covers_what_they_lead_to(world):
    template = arguments_digest({"name": {"$ref": "s0#/name"}})

    def warrant(granted):
        approval = world.approval(granted, template=template, with_references=True)
        return {"mandate": world.mandate(TOUCH), "approvals": [approval]}

    async def run(stated: str):
        async with world.client() as client:
            granted = world.grant(TOUCH, {"name": "resolved"})
            granted = type(granted)(granted.grant, granted.data, stated)
            return (await world.run(client, [granted], **warrant(granted)))[0]

    assert asyncio.run(run("f" * 64)).code == "approval.args_open"
    assert asyncio.run(run(template)).receipt.outcome == "ok"


def test_a_reference_is_resolved_before_the_approval_is_asked(world):
    def run(expected: str):
        async def run():
            async with world.client() as client:
                first = world.grant(TOUCH, {"name": "one"}, step="s1")
                second = world.grant(TOUCH, {"name": {"$ref": "s1#"}}, step="s2", template=True)
                approvals = [
                    world.approval(first),
                    world.approval(world.grant(TOUCH, {"name": expected}, step="s2")),
                ]
                return await world.run(
                    client, [first, second], mandate=world.mandate(TOUCH), approvals=approvals
                )

        return asyncio.run(run())

    assert run("two")[1].code == "approval.args_mismatch"
    assert (world.home / "one").read_text() == "x"
    ran = run("one")
    assert ran[1].receipt.arguments == arguments_digest({"name": "one"})
    assert (world.home / "one").read_text() == "xxx"


def test_a_write_host_runs_no_read(world):
    assert _tried(world, "shed.look", {}, lambda _: {}).code == "grant.effect_not_here"


def test_two_executors_with_one_grant_act_once(world):
    async def run():
        async with world.client() as one, world.client() as other:
            granted = world.grant(TOUCH, {"name": "done"})
            warrant = _full(world)(granted)
            return await asyncio.gather(
                world.run(one, [granted], **warrant), world.run(other, [granted], **warrant)
            )

    assert sorted(found[0].code for found in asyncio.run(run())) == ["", "grant.replayed"]
    assert (world.home / "done").read_text() == "x"


def test_a_restart_forgets_neither_grants_nor_the_epoch(world):
    async def run():
        async with world.client() as client:
            granted = world.grant(TOUCH, {"name": "done"})
            warrant = _full(world)(granted)
            await world.run(client, [granted], **warrant)
            await client.take_epoch(world.epoch_statement(5))
        world.kill()
        world.start()
        world.epoch = 5
        async with world.client() as client:
            current = world.grant(TOUCH, {"name": "other"})
            codes = [(await world.run(client, [granted], **warrant))[0].code]
            codes.append((await world.run(client, [current], **_full(world)(current)))[0].code)
            codes.append((await world.run(client, [current], **_full(world)(current)))[0].code)
            return codes, (await client.hello())["epoch"]

    codes, epoch = asyncio.run(run())
    assert codes == ["grant.stale_epoch", "", "grant.replayed"]
    assert epoch == 5
    assert (world.home / "done").read_text() == "x"


def test_what_an_effect_did_before_its_worker_ended_is_unknown(world):
    world.mark("begun")
    pipe = world.mark("never")

    async def run():
        async with world.client() as client:
            late = world.grant("shed.wait_for", {"name": "never"}, deadline_ms=700)
            reader = asyncio.create_task(asyncio.to_thread((world.home / "begun").read_bytes))
            (ran,) = await world.run(client, [late], **_full(world, "shed.wait_for")(late))
            await reader
            return ran

    del pipe
    ran = asyncio.run(run())
    assert (ran.receipt.outcome, ran.code, ran.receipt.transient) == ("unknown", "tool.timeout", False)


def test_a_harness_takes_over_when_no_older_effect_is_under_way(world):
    begun = world.mark("begun")
    world.mark("go")

    async def run():
        async with world.client() as client, world.client() as other:
            old = world.grant("shed.wait_for", {"name": "go"}, step="s1")
            queued = world.grant(TOUCH, {"name": "late"}, step="s2")
            warrant = {
                "mandate": world.mandate(TOUCH, "shed.wait_for"),
                "approvals": [world.approval(old), world.approval(queued)],
            }
            running = asyncio.create_task(world.run(client, [old, queued], **warrant))
            await begun()
            taking = asyncio.create_task(other.take_epoch(world.epoch_statement(2)))
            while (await client.hello())["epoch"] < 2:
                assert not taking.done()
            late = world.grant(TOUCH, {"name": "late"})
            (refused,) = await world.run(client, [late], **_full(world)(late))
            waited = not taking.done()
            await asyncio.to_thread((world.home / "go").write_text, "gone")
            ran, after = await running
            return refused.code, waited, ran.output, after.code, await taking

    assert asyncio.run(run()) == ("grant.stale_epoch", True, "gone", "grant.stale_epoch", 2)
    assert not (world.home / "late").exists()


def test_a_polite_stop_waits_for_the_effect_under_way(world):
    begun = world.mark("begun")
    world.mark("go")

    async def run():
        async with world.client() as client:
            granted = world.grant("shed.wait_for", {"name": "go"})
            running = asyncio.create_task(
                world.run(client, [granted], **_full(world, "shed.wait_for")(granted))
            )
            await begun()
            assert world.process is not None
            world.process.terminate()
            await asyncio.to_thread((world.home / "go").write_text, "gone")
            return (await running)[0]

    assert asyncio.run(run()).output == "gone"
    assert world.process is not None
    assert world.process.wait(10) == 0


def test_cancelling_leaves_an_effect_to_its_end_unless_forced(world):
    begun = world.mark("begun")

    async def run():
        async with world.client() as client:
            granted = world.grant("shed.hang")
            running = asyncio.create_task(world.run(client, [granted], **_full(world, "shed.hang")(granted)))
            await begun()
            await client.cancel("run-1")
            still = not running.done()
            await client.cancel("run-1", force=True)
            return still, (await running)[0]

    still, ran = asyncio.run(run())
    assert still
    assert (ran.receipt.outcome, ran.code) == ("unknown", "tool.cancelled")


def test_nothing_of_a_run_that_was_given_up_starts_any_more(world):
    """A dispatch that was still on its way when its run was cancelled comes after the cancel."""

    async def run():
        async with world.client() as client:
            granted = [world.grant("shed.send"), world.grant("shed.send", run_id="run-2")]
            await client.cancel("run-1", force=True)
            return [(await world.run(client, [one], **_full(world, "shed.send")(one)))[0] for one in granted]

    late, other = asyncio.run(run())
    assert (late.code, late.receipt.outcome) == ("grant.run_ended", "error")
    assert other.code == "mandate.other_run"  # judged as ever: what it lacks is its own warrant


def test_a_second_write_host_over_the_same_state_is_refused(world):
    second = HostWorld("write")
    second.config = second.config.model_copy(update={"state": world.config.state})
    with pytest.raises(AssertionError, match="did not start"):
        second.start()
    assert second.process is not None
    assert second.process.wait() == 1
    second.close()


def test_a_record_is_written_once_for_its_key_and_read_back(world):
    async def run():
        async with world.client() as client:
            results = []
            for key, record in (
                ("k1", RECORD),
                ("k1", RECORD),
                ("k1", {"record": {"carrier": "UA", "points": 0.5}}),
                ("", RECORD),
            ):
                granted = world.grant(APPEND, record, idempotency_key=key)
                results += await world.run(client, [granted], **_full(world, APPEND)(granted))
            return results

    first, repeat, other, none = asyncio.run(run())
    assert first.output == {"key": "k1", "written": True, "record": RECORD["record"]}
    assert repeat.output == {"key": "k1", "written": False, "record": RECORD["record"]}
    assert (other.code, none.code) == ("tool.key_conflict", "tool.key_missing")
    with sqlite3.connect(world.home / "shed/incidents.sqlite") as connection:
        rows = connection.execute("SELECT duly_key, carrier, points, note FROM incidents").fetchall()
    assert rows == [("k1", "B6", -2.019, None)]


def test_a_broken_public_key_of_a_person_is_an_error_not_an_omission(world):
    (world.home / "keys/people/eve.pub").write_text("rubbish")
    assert _tried(world, TOUCH, {"name": "done"}, _full(world)).code == "key.malformed"


def test_a_statement_for_another_host_or_by_a_stranger_changes_nothing(world):
    async def run():
        async with world.client() as client:
            codes = []
            for bend in ("host", "harness"):
                kept = (world.host, world.harness)
                if bend == "host":
                    world.host = "read"
                else:
                    world.harness = Ed25519PrivateKey.generate()
                statement = world.epoch_statement(9)
                world.host, world.harness = kept
                with pytest.raises(DulyError) as why:
                    await client.take_epoch(statement)
                codes.append(why.value.code)
            return codes, (await client.hello())["epoch"]

    assert asyncio.run(run()) == (["grant.other_host", "epoch.unknown_key"], 0)
