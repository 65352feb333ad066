"""The same races on a real runtime: two connections to the front door at once, a few times each."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from duly.cli import gate, person
from duly.protocol.wire.errors import DulyError
from holding import PACKAGE, Holding, holding
from runtime_home import RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
RACES = 8


@pytest.fixture
def held(runtime: RuntimeHome) -> Iterator[Holding]:
    with holding(runtime.root / "tests" / "holding") as one:
        yield one


def waiting(runtime: RuntimeHome) -> str:
    """A run that waits for the approval of its write's arguments."""
    run_id = runtime.ask(PACKAGE, "note it").result["run_id"]
    approved = runtime.duly("approve", run_id, "--json")
    assert approved.result["needs"]["approval"] == "step"
    return str(run_id)


def approval(runtime: RuntimeHome, run_id: str) -> bytes:
    with runtime.door() as door:
        shown = gate.read(run_id, door.call("gate", run_id=run_id))
    return gate.signed(shown, person.key_of(runtime.home)(), with_references=False)


def at_once(runtime: RuntimeHome, *requests: tuple[str, dict[str, Any]]) -> list[str]:
    """What each of some requests ends in, a phase or the code of a refusal, when they leave at the same moment."""
    start = threading.Barrier(len(requests))
    told = [""] * len(requests)

    def ask(number: int, op: str, fields: dict[str, Any]) -> None:
        with runtime.door() as door:
            start.wait()
            try:
                told[number] = str(door.call(op, **fields)["result"]["phase"])
            except DulyError as error:
                told[number] = error.code

    threads = [threading.Thread(target=ask, args=(number, *one)) for number, one in enumerate(requests)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return told


def test_two_approvals(runtime: RuntimeHome, held: Holding):
    for number in range(1, RACES + 1):
        run_id = waiting(runtime)
        approvals = [approval(runtime, run_id) for _ in range(2)]
        told = at_once(runtime, *(("approve", {"run_id": run_id, "approval": one}) for one in approvals))
        assert sorted(told) == ["COMPLETED", "gate.already_decided"]
        assert len(held.sink) == number


def test_approve_against_cancel(runtime: RuntimeHome, held: Holding):
    seen: Counter[str] = Counter()
    for _ in range(RACES):
        run_id, before = waiting(runtime), len(held.sink)
        signed = approval(runtime, run_id)
        approved, cancelled = at_once(
            runtime, ("approve", {"run_id": run_id, "approval": signed}), ("cancel", {"run_id": run_id})
        )
        phase, made = runtime.replayed(run_id)["phase"], len(held.sink) - before
        assert (cancelled, phase) in (("CANCELLED", "CANCELLED"), ("run.ended", "COMPLETED"))
        assert approved in (phase, "gate.already_decided")
        assert made == 1 if phase == "COMPLETED" else made <= 1
        assert made == 0 or approved != "gate.already_decided"
        seen[phase] += 1
    assert sum(seen.values()) == RACES
    runtime.verified()


def test_two_cancels(runtime: RuntimeHome, held: Holding):
    for _ in range(RACES // 2):
        run_id = runtime.ask(PACKAGE, "note it").result["run_id"]
        told = at_once(runtime, *(("cancel", {"run_id": run_id}) for _ in range(2)))
        assert sorted(told) == ["CANCELLED", "run.ended"]
    assert held.sink == []
