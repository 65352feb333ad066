"""What a host gives back for calls: values kept exactly, references resolved, failures as data, order kept."""

from __future__ import annotations

import asyncio
import datetime
import math
from collections.abc import Iterator
from decimal import Decimal

import pytest

from duly.protocol.authority.grant import arguments_digest
from host_world import HostWorld, python_package

SOURCE = """
import asyncio, datetime, os, sys, threading
from decimal import Decimal

LOG = []
MEETING = threading.Barrier(6)

@tool(effect="read")
def add(left: int, right: int = 1) -> int:
    return left + right

@tool(effect="read")
def exact():
    return {"price": Decimal("1.10"), "day": datetime.date(2013, 6, 1), "nan": float("nan"), "$ref": "s1#", "big": 1 << 80}

@tool(effect="read")
def double(price):
    return price * 2

@tool(effect="read", concurrent=True)
def meet(number: int) -> int:
    "Six calls wait for each other: they end only side by side, and only in one process."
    MEETING.wait(10)
    return os.getpid()

@tool(effect="read")
def alone() -> int:
    return os.getpid()

@tool(effect="read")
async def later(text: str) -> str:
    await asyncio.sleep(0)
    return text

@tool(effect="read")
def liar() -> int:
    return "no number"

@tool(effect="read")
def huge() -> str:
    return "x" * (65 << 20)

@tool(effect="read")
def opaque():
    return object()

@tool(effect="read")
def fails(text: str):
    raise ValueError(text.encode("ascii").decode("unicode_escape"))

@tool(effect="read")
def poses(code: str):
    from duly.protocol.wire.errors import DulyError
    raise DulyError(code, "said by a tool")

@tool(effect="read")
def leaves():
    sys.exit(3)

@tool(effect="read")
def noisy() -> int:
    print("on the output"); print("on the errors", file=sys.stderr)
    return len(os.read(0, 10))

@tool(effect="read", secrets=["TOKEN"])
def trusted(call) -> list:
    return sorted(call.secrets)

@tool(effect="read")
def environment() -> dict:
    return dict(os.environ)

@tool(effect="read")
def rows(call) -> int:
    call.rows_scanned, call.fingerprints["stock"], call.truncated = 42, "f" * 64, True
    return call.rows_max
"""
NAMES = "add exact double meet alone later liar huge opaque fails poses leaves noisy trusted environment rows".split()


@pytest.fixture(scope="module")
def world() -> Iterator[HostWorld]:
    world = HostWorld("read", secret_values={"TOKEN": "canary-token", "OTHER": "canary-other"})
    world.add_package(python_package(SOURCE, *NAMES))
    world.start(MY_SECRET="canary-environment")
    yield world
    world.close()


def _run(world: HostWorld, *calls, mode="serial"):
    """Each call is (tool, arguments) or (tool, template, True); its step is s1, s2, …"""

    async def run():
        async with world.client() as client:
            granted = [
                world.grant(f"shed.{call[0]}", call[1], step=f"s{number}", template=len(call) > 2)
                for number, call in enumerate(calls, 1)
            ]
            return await world.run(client, granted, mode=mode)

    return asyncio.run(run())


def test_schemas_come_from_the_hints_and_the_unsaid_effect_is_write(world):
    _run(world, ("add", {"left": 1}))
    descriptor = world.tools["shed.add"]
    assert descriptor.input_schema["required"] == ["left"]
    assert descriptor.input_schema["additionalProperties"] is False
    assert descriptor.output_schema == {"type": "integer"}
    assert world.tools["shed.meet"].description.startswith("Six calls")
    assert world.tools["shed.meet"].concurrent


def test_a_chain_of_references_is_resolved_from_signed_results(world):
    steps = [("add", {"left": 0})]
    steps += [("add", {"left": {"$ref": f"s{number}#"}}, True) for number in range(1, 250)]
    ran = _run(world, *steps)
    assert [one.output for one in ran] == list(range(1, 251))
    assert ran[249].receipt.arguments == arguments_digest({"left": 249})


def test_values_cross_exactly_and_may_be_referenced(world):
    first, second = _run(world, ("exact", {}), ("double", {"price": {"$ref": "s1#/price"}}, True))
    assert first.output["price"] == Decimal("1.10")
    assert str(first.output["price"]) == "1.10"
    assert first.output["day"] == datetime.date(2013, 6, 1)
    assert math.isnan(first.output["nan"])
    assert first.output["$ref"] == "s1#"  # data cannot become a reference
    assert first.output["big"] == 1 << 80
    assert second.output == Decimal("2.20")


def test_a_reference_that_leads_nowhere_fails_its_step_only(world):
    ran = _run(
        world, ("add", {"left": 1}), ("add", {"left": {"$ref": "s1#/gone"}}, True), ("add", {"left": 5})
    )
    assert [one.code for one in ran] == ["", "plan.reference_unresolved", "tool.not_started"]


def test_serial_calls_stop_at_the_first_failure(world):
    ran = _run(world, ("add", {"left": 1}), ("fails", {"text": "so"}), ("add", {"left": 2}))
    assert [one.code for one in ran] == ["", "tool.failed", "tool.not_started"]
    assert ran[1].error["message"] == "ValueError: so"
    assert ran[1].receipt.transient is False


@pytest.mark.parametrize("text", ["e\\u0301", "\\x1b[2J\\u202e", "\\ud800", "\\U0001f642" * 150])
def test_whatever_a_tool_says_comes_back_as_data(world, text):
    (ran,) = _run(world, ("fails", {"text": text}))
    assert ran.code == "tool.failed"
    assert ran.error["message"].startswith("ValueError: ")


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("tool.out_of_stock", "tool.out_of_stock"),
        ("approval.missing", "tool.failed"),
        ("grant.replayed", "tool.failed"),
        ("tool. odd", "tool.failed"),
    ],
)
def test_a_tool_cannot_speak_for_its_host(world, code, kept):
    assert _run(world, ("poses", {"code": code}))[0].code == kept


def test_concurrent_calls_do_not_care_for_each_other(world):
    ran = _run(world, ("fails", {"text": "so"}), ("add", {"left": 1}), ("alone", {}), mode="concurrent")
    assert [one.code for one in ran] == ["tool.failed", "", ""]


def test_tools_declared_concurrent_share_one_process(world):
    ran = _run(world, *[("meet", {"number": number}) for number in range(6)], mode="concurrent")
    assert len({one.output for one in ran}) == 1


def test_references_need_the_serial_mode(world):
    ran = _run(world, ("add", {"left": 1}), ("add", {"left": {"$ref": "s1#"}}, True), mode="concurrent")
    assert [one.code for one in ran] == ["", "grant.template_alone"]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("add", {"left": "one"}, "tool.bad_arguments"),
        ("add", {"left": 1, "more": 1}, "tool.bad_arguments"),
        ("add", {}, "tool.bad_arguments"),
        ("liar", {}, "tool.bad_output"),
        ("opaque", {}, "tool.bad_output"),
        ("huge", {}, "tool.output_too_large"),
        ("leaves", {}, "tool.failed"),
    ],
)
def test_what_breaks_the_contract_has_its_code(world, tool, arguments, code):
    (ran,) = _run(world, (tool, arguments))
    assert (ran.receipt.outcome, ran.code, ran.receipt.output) == ("error", code, "")


def test_an_async_function_is_a_tool_too(world):
    assert _run(world, ("later", {"text": "é"}))[0].output == "é"


def test_a_tool_has_no_terminal(world):
    assert _run(world, ("noisy", {}))[0].output == 0


def test_a_worker_has_only_the_named_secrets_and_no_environment(world):
    trusted, environment = _run(world, ("trusted", {}), ("environment", {}))
    assert trusted.output == ["TOKEN"]
    assert "canary" not in repr(environment.output)


def test_what_a_tool_reports_stands_in_the_receipt(world):
    (ran,) = _run(world, ("rows", {}))
    assert (ran.receipt.rows_scanned, ran.receipt.truncated) == (42, True)
    assert ran.receipt.fingerprints == {"stock": "f" * 64}


def test_results_of_a_long_chain_come_in_few_groups(world):
    async def run():
        async with world.client() as client:
            granted = [world.grant("shed.add", {"left": n}, step=f"s{n}") for n in range(300)]
            groups = []
            async for group in client.run(
                world.signed(granted), [one.data for one in granted], mode="serial"
            ):
                groups.append(len(group.nonces))
            return groups

    groups = asyncio.run(run())
    assert sum(groups) == 300
    assert max(groups) <= 100
    assert len(groups) < 60
