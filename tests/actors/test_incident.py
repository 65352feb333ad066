"""The request that writes: plan gate, step gate, one record, read back. Counted in the file itself."""

from __future__ import annotations

import sqlite3

import pytest

from duly.cli import gate
from duly.protocol.authority.approval import Approval
from duly.protocol.wire.errors import AuthorityError, DulyError
from duly.storage.keys import KeyRing
from runtime_home import FLIGHTS, Outcome, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
REQUEST = "Open an incident for the carrier that contributed most to the fall in June"


class Incidents:
    """The table, looked at from outside."""

    def __init__(self, home: RuntimeHome) -> None:
        self._file = home.root / "examples" / "flights" / "incidents.sqlite"

    def rows(self) -> list[dict[str, object]]:
        if not self._file.exists():
            return []
        with sqlite3.connect(f"file:{self._file}?mode=ro", uri=True) as engine:
            engine.row_factory = sqlite3.Row
            if not engine.execute("SELECT 1 FROM sqlite_master WHERE name = 'incidents'").fetchall():
                return []
            return [dict(row) for row in engine.execute("SELECT * FROM incidents")]


@pytest.fixture
def incidents(runtime: RuntimeHome) -> Incidents:
    return Incidents(runtime)


@pytest.fixture
def waiting(runtime: RuntimeHome, incidents: Incidents) -> str:
    """A run that waits at its plan gate; nothing of it has run."""
    before = incidents.rows()
    outcome = runtime.ask(FLIGHTS, REQUEST)
    assert (outcome.code, outcome.result["phase"]) == (6, "WAITING_APPROVAL"), outcome.err
    assert outcome.result["needs"]["approval"] == "plan"
    assert "step.started" not in outcome.kinds() and incidents.rows() == before
    return str(outcome.result["run_id"])


def approve(runtime: RuntimeHome, run_id: str, *options: str) -> Outcome:
    return runtime.duly("approve", run_id, "--json", *options)


def test_two_approvals_write_once_and_read_back(runtime, incidents, waiting):
    before = incidents.rows()
    first = approve(runtime, waiting)
    assert (first.code, first.result["needs"]["approval"]) == (6, "step")
    assert [one["step_id"] for one in first.facts("step.succeeded")] == ["decompose"]
    assert incidents.rows() == before
    shown = runtime.duly("inbox", waiting)
    assert shown.code == 0
    for text in ("B6", "largest point contribution, not separable from UA", "May 2013", "June 2013"):
        assert text in " ".join(shown.out.split())
    second = approve(runtime, waiting)
    assert (second.code, second.result["phase"], second.result["verdict"]) == (0, "COMPLETED", "pass")
    written = [row for row in incidents.rows() if row not in before]
    assert len(written) == 1
    record = written[0]
    assert (record["subject"], record["label"]) == ("B6", "JetBlue Airways")
    assert (record["baseline"], record["current"]) == ("May 2013", "June 2013")
    assert record["contribution"] == pytest.approx(-2.019, abs=0.0011)
    assert record["note"] == "largest point contribution, not separable from UA"
    assert second.facts("step.checked"), "what was written is read back"
    for third in (approve(runtime, waiting), runtime.duly("reject", waiting)):
        assert third.code == 8
    assert len([row for row in incidents.rows() if row not in before]) == 1


def test_with_references_one_approval_is_enough(runtime, incidents, waiting):
    before = len(incidents.rows())
    outcome = approve(runtime, waiting, "--with-references")
    assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED")
    assert len(incidents.rows()) == before + 1


def test_in_a_tier_without_gates_the_mandate_is_the_approval(runtime, incidents):
    before = len(incidents.rows())
    outcome = runtime.ask(FLIGHTS, REQUEST, "--tier", "bounded_autonomous")
    assert outcome.code in (0, 4), "without a critic, which that tier asks for, the verdict may stay open"
    assert "gate.asked" not in outcome.kinds()
    assert "incidents.append" in outcome.err, "what the mandate approves is shown when it is signed"
    assert len(incidents.rows()) == before + 1


def test_a_rejected_plan_writes_nothing(runtime, incidents, waiting):
    before = incidents.rows()
    outcome = runtime.duly("reject", waiting, "--json")
    assert (outcome.code, outcome.result["reason"]) == (3, "gate.rejected")
    assert incidents.rows() == before
    assert approve(runtime, waiting).code == 8


def test_a_rejected_step_writes_nothing(runtime, incidents, waiting):
    before = incidents.rows()
    assert approve(runtime, waiting).code == 6
    outcome = runtime.duly("reject", waiting, "--json")
    assert (outcome.code, outcome.result["reason"]) == (3, "gate.rejected")
    assert incidents.rows() == before


class TestForgedApprovals:
    """At the step gate, where the record is known."""

    @pytest.fixture
    def at_step(self, runtime, waiting) -> str:
        assert approve(runtime, waiting).code == 6
        return waiting

    def test_another_record_or_a_changed_byte_is_refused_and_the_gate_stays(
        self, runtime, incidents, at_step
    ):
        before = incidents.rows()
        with runtime.door() as door:
            shown = gate.read(at_step, door.call("gate", run_id=at_step))
        key = KeyRing(runtime.home.keys).load("person")
        stranger = KeyRing(runtime.root / "elsewhere").private("person")
        step = next(iter(shown.steps.values()))
        right = gate.approval(shown, with_references=False)
        wrong = "0" if step.arguments[0] != "0" else "1"
        other_record = {shown.step_id: step.model_copy(update={"arguments": wrong + step.arguments[1:]})}
        for code, envelope in (
            ("approval.args_mismatch", right.model_copy(update={"steps": other_record}).sign(key)),
            ("approval.shown_mismatch", right.model_copy(update={"shown": "0" * 64}).sign(key)),
            ("approval.expired", right.model_copy(update={"expires_ms": 1}).sign(key)),
            ("approval.other_run", right.model_copy(update={"run_id": "rother"}).sign(key)),
            ("", right.sign(stranger)),
            ("", flipped(right.sign(key))),
        ):
            with runtime.door() as door, pytest.raises(AuthorityError) as refused:
                door.call("approve", run_id=at_step, approval=envelope)
            assert code in ("", refused.value.code)
        assert incidents.rows() == before
        log = runtime.duly("audit", "log", at_step, "--json")
        refusals = [one for one in log.lines if one["kind"] == "authority.refused"]
        assert len(refusals) == 6
        assert runtime.json("show", at_step)["phase"] == "WAITING_APPROVAL"
        assert approve(runtime, at_step).code == 0
        assert len(incidents.rows()) == len(before) + 1

    def test_an_approval_is_used_once(self, runtime, incidents, at_step):
        before = len(incidents.rows())
        with runtime.door() as door:
            shown = gate.read(at_step, door.call("gate", run_id=at_step))
        envelope = gate.signed(shown, KeyRing(runtime.home.keys).load("person"), with_references=False)
        assert isinstance(Approval.peek(envelope), Approval)
        with runtime.door() as door:
            assert door.call("approve", run_id=at_step, approval=envelope)["result"]["phase"] == "COMPLETED"
        with runtime.door() as door, pytest.raises(DulyError, match="COMPLETED"):
            door.call("approve", run_id=at_step, approval=envelope)
        assert runtime.follow(at_step).result["phase"] == "COMPLETED"
        assert len(incidents.rows()) == before + 1


def flipped(envelope: bytes) -> bytes:
    """The envelope with one bit of its signature changed."""
    return envelope[:-1] + bytes([envelope[-1] ^ 1])
