"""``duly.policy``: conditions compile when a package opens, and are evaluated where a slow one can be killed."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import importlib.util
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.hosts.tools import policy, registry
from duly.hosts.tools.context import CallContext
from duly.protocol.plan.manifest import Policy
from duly.protocol.plan.policy import PolicyGate, judged, question
from duly.protocol.wire import tagged
from duly.protocol.wire.errors import PackageError, ToolError
from duly.protocol.wire.limits import POLICY_SECONDS_MAX
from host_world import HostWorld, python_package

cel = pytest.importorskip("cel")
SOURCE = '@tool(effect="write")\ndef send(amount: float) -> int:\n    return 1\n'


def package(*conditions: str) -> dict[str, str]:
    files = python_package(SOURCE, "send")
    for one in conditions:
        files["agent.toml"] += f'\n[[policy.gates]]\ntool = "shed.send"\nwhen = """{one}"""\n'
    return files


def said(text: str, **arguments: Any) -> tuple[bool | None, str]:
    facts = {"arguments": arguments, "tool": "shed.send", "effect": "write", "resource": ""}
    call = CallContext.__new__(CallContext)
    (one,) = policy.evaluated(call, {"expressions": [text], "facts": facts}, cel)["said"]
    return one["value"], one["message"]


class TestValues:
    @pytest.mark.parametrize("amount", [1001, 1000.5, decimal.Decimal("1000.01"), math.inf])
    def test_an_amount_is_one_however_it_is_written(self, amount):
        assert said("arguments.amount > 1000", amount=amount) == (True, "")
        assert said("arguments.amount * 2 > 2000 && arguments.amount + 1 > 1001", amount=amount) == (True, "")
        assert said("arguments.amount <= 1000", amount=amount) == (False, "")

    @pytest.mark.parametrize(
        "amount",
        [
            math.nan,
            (1 << 53) + 1,
            10**400,
            decimal.Decimal("nan"),
            decimal.Decimal("snan"),
            "5000",
            None,
            {},
            [],
        ],
    )
    def test_what_cannot_be_compared_says_nothing(self, amount):
        value, message = said("arguments.amount > 1000", amount=amount)
        assert value is None and message

    def test_what_is_missing_says_nothing_unless_it_is_asked_for(self):
        assert said("arguments.amount > 1000") == (None, "There is no 'amount' in this call.")
        assert said("has(arguments.amount) && arguments.amount > 1000") == (False, "")

    @pytest.mark.parametrize("text", ["arguments.amount", "'yes'", "null", "[true]"])
    def test_only_a_truth_value_is_an_answer(self, text):
        assert said(text, amount=1) == (None, "The expression gives no truth value.")

    def test_lists_dates_and_texts(self):
        rows = [{"amount": 1}, {"amount": decimal.Decimal("7.5")}]
        assert said("arguments.rows.exists(row, row.amount > 7)", rows=rows) == (True, "")
        assert said("arguments.day >= '2024-02-01'", day=datetime.date(2024, 1, 31)) == (False, "")
        at = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        assert said("arguments.at < timestamp('2025-01-01T00:00:00Z')", at=at) == (True, "")
        assert said("arguments.to.endsWith('.example') && tool == 'shed.send'", to="a.example") == (True, "")
        assert said("arguments.tags == ['a']", tags=("a",)) == (True, "")

    def test_a_text_is_never_code(self):
        assert said("arguments.note == 'x'", note="' || true || '") == (False, "")

    @given(st.integers(-(1 << 53), 1 << 53), st.integers(0, 1 << 53))
    def test_whole_numbers_compare_as_they_do_everywhere(self, amount, line):
        assert said(f"arguments.amount > {line}", amount=amount)[0] is (amount > line)


class TestLoading:
    def snapshot(self, tmp_path, files):
        from duly.protocol.wire import canon
        from duly.protocol.wire.ids import digest_bytes

        for name, text in files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        digests = {name: digest_bytes("package.file", text.encode()) for name, text in files.items()}
        return registry.open_package(tmp_path, canon.digest("package", digests))

    def test_the_tool_is_there_exactly_where_a_policy_has_conditions(self, tmp_path):
        (tmp_path / "with").mkdir()
        (tmp_path / "without").mkdir()
        loaded = registry.load(self.snapshot(tmp_path / "with", package("arguments.amount > 1")))
        assert loaded["duly.policy"].descriptor.timeout_seconds == POLICY_SECONDS_MAX
        assert loaded["duly.policy"].descriptor.reads_only
        assert "duly.policy" not in registry.load(self.snapshot(tmp_path / "without", package()))

    def test_a_condition_that_does_not_compile_is_a_fault_with_file_and_line(self, tmp_path):
        snapshot = self.snapshot(tmp_path, package("true", "arguments.amount >", "&& true"))
        with pytest.raises(PackageError) as caught:
            registry.load(snapshot)
        lines = (tmp_path / "agent.toml").read_text(encoding="utf-8").splitlines()
        assert caught.value.code == "package.expression" and len(caught.value.faults) == 2
        for fault, text in zip(caught.value.faults, ("arguments.amount >", "&& true"), strict=True):
            line = lines.index(f'when = """{text}"""') + 1
            assert fault.path.startswith(f"agent.toml:{line}: policy/gates/") and fault.message

    def test_without_the_extra_a_package_with_conditions_does_not_load(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(PackageError) as caught:
            policy.tools(Policy(gates=[PolicyGate(tool="a.b", when="true")]), {})
        assert caught.value.code == "package.missing_extra" and "extra `policy`" in (caught.value.hint or "")
        assert policy.tools(Policy(gates=[PolicyGate(tool="a.b")]), {}) == ()


class TestInAHost:
    """As the harness asks: a granted read of a real host."""

    async def asked(self, world: HostWorld, *questions: dict[str, Any]) -> list[Any]:
        async with world.client() as client:
            grants = [world.grant("duly.policy", one, step=f"s{n}") for n, one in enumerate(questions)]
            return await world.run(client, grants, mode="concurrent")

    def world(self, *conditions: str) -> HostWorld:
        world = HostWorld("read")
        world.add_package(package(*conditions))
        world.start()
        return world

    def question(self, world: HostWorld, text: str, **arguments: Any) -> dict[str, Any]:
        facts = {
            "arguments": tagged.to_tagged(arguments),
            "tool": "shed.send",
            "effect": "write",
            "resource": "",
        }
        return question(world.package, [text], facts)

    def test_answers_come_with_a_receipt(self):
        text = "arguments.amount > 1000"
        world = self.world(text)
        try:
            amounts = (decimal.Decimal("999.99"), decimal.Decimal("1000.01"))
            ran = asyncio.run(self.asked(world, *(self.question(world, text, amount=one) for one in amounts)))
            assert [judged([text], one.output) for one in ran] == [(False, ""), (True, "")]
        finally:
            world.close()

    def test_a_slow_condition_is_killed_at_its_deadline_and_the_gate_asks(self):
        text = "arguments.ids.all(one, one in arguments.ids)"
        world = self.world(text)
        try:
            ids = list(range(60_000))
            slow = self.question(world, text, ids=ids)
            (ran,) = asyncio.run(self.asked(world, slow))
            assert ran.code == "tool.timeout" and ran.output is None
            assert judged([text], ran.output) == (True, "gate.not_evaluated")
        finally:
            world.close()

    def test_a_package_with_a_bad_condition_is_refused_when_it_is_described(self):
        world = self.world("arguments.amount >")
        try:
            with pytest.raises((PackageError, ToolError)) as caught:
                asyncio.run(self.asked(world))
            assert caught.value.code == "package.expression" and "agent.toml:" in caught.value.message
        finally:
            world.close()
