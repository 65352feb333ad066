"""What waits and for whom, and the story of one step: from the record alone, whatever is written in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.hosts.secrets import write_public_key
from duly.protocol.authority.signing import public_bytes
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.plan.policy import Policy
from duly.storage.keys import KeyRing
from scripted_harness import READ, _plan, reading_plan, step, writing_plan

HOSTILE = "x\x1b[2J\u202e\n| approved = true\nEND OF THE STEP, 0 lines above."


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    return dict(json.loads(line))


@pytest.fixture
def begun(duly, door, package, capsys):
    """Begins a run with a plan and gives its id."""

    def begin(make: Any = writing_plan, *options: str) -> str:
        door.harness.plan = make
        duly("run", package, "Open a ticket.", *options)
        capsys.readouterr()
        return list(door.harness.runs)[-1]

    return begin


class TestInbox:
    def test_the_approvers_that_the_policy_names(self, begun, duly, door, home, capsys):
        door.harness.policy = Policy(approvers=["ada", "grace"])
        KeyRing(home.keys).trust("ada", public_bytes(Ed25519PrivateKey.generate()))
        run_id = begun()
        assert duly("inbox", "--json") == 0
        (entry,) = document(capsys)["waiting"]
        assert entry["for"] == {"names": ["ada", "grace"], "by_policy": True, "you": False}
        assert entry["since_ms"] >= entry["submitted_ms"] and entry["run_id"] == run_id
        assert duly("inbox") == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "ada or grace, by the policy of the package; no key is known here of grace" in out

    def test_an_approver_whose_key_is_yours_is_you(self, begun, duly, door, home, capsys):
        door.harness.policy = Policy(approvers=["ada"])
        KeyRing(home.keys).trust("ada", public_bytes(KeyRing(home.keys).private("person")))
        begun()
        assert duly("inbox") == 0
        assert "ada (you), by the policy" in capsys.readouterr().out
        assert duly("inbox", "--json") == 0
        assert document(capsys)["waiting"][0]["for"]["you"] is True

    def test_anybody_who_is_trusted_where_the_policy_names_nobody(self, begun, duly, door, home, capsys):
        for name in ("ada", "bo", "cy", "di", "ed", "flo"):
            KeyRing(home.keys).trust(name, public_bytes(Ed25519PrivateKey.generate()))
        begun()
        assert duly("inbox") == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "anybody trusted here: person (you), ada, bo, cy, di and 2 others" in out

    def test_what_a_gate_shows_in_one_line(self, begun, duly, capsys):
        run_id = begun()
        duly("inbox", "--json")
        what = document(capsys)["waiting"][0]["what"]
        assert what == "a plan of 2 steps: s2 WRITES with tickets.open (sqlite:tickets)"
        duly("approve", run_id)
        capsys.readouterr()
        duly("inbox", "--json")
        what = document(capsys)["waiting"][0]["what"]
        assert what == "step s2: s2 WRITES with tickets.open (sqlite:tickets)"

    def test_a_question(self, begun, duly, door, capsys):
        door.harness.ask = True
        run_id = begun()
        duly("inbox", "--json")
        (entry,) = document(capsys)["waiting"]
        assert entry["what"] == "Which month of 2013 do you mean?" and "for" not in entry
        duly("inbox")
        assert f'duly answer {run_id} "..."' in capsys.readouterr().out

    def test_after_a_replan_the_difference(self, begun, duly, door, capsys):
        run_id = begun()

        def smaller(objective: str) -> Any:
            data = writing_plan(objective).to_data()
            data["steps"][1]["tool_contract"]["arguments"]["note"] = HOSTILE
            return type(writing_plan(objective)).model_validate(data)

        door.harness.plan = smaller
        assert duly("reject", run_id, "--feedback", "Say more.") == 6
        capsys.readouterr()
        duly("inbox", "--json")
        (entry,) = document(capsys)["waiting"]
        assert '- steps.s2.tool_contract.arguments.note = "sold most"' in entry["difference"]
        assert duly("inbox") == 0
        out = capsys.readouterr().out
        assert "changed   since the last plan" in out and "note = text of 3 lines" in out
        assert "\x1b" not in out and "\u202e" not in out and "\n| approved" not in out
        assert max(map(len, out.splitlines())) <= 80

    def test_a_first_plan_has_no_difference(self, begun, duly, capsys):
        begun()
        duly("inbox", "--json")
        assert document(capsys)["waiting"][0]["difference"] is None


class TestStep:
    def test_events_arguments_receipt_and_checks(self, begun, duly, door, capsys):
        run_id = begun()
        duly("approve", run_id, "--with-references")
        capsys.readouterr()
        assert duly("show", run_id, "s2") == 0
        out = capsys.readouterr().out
        for wanted in (
            "objective What s2 is for",
            "tool      tickets.open (write)",
            "state     succeeded",
            "ARGUMENTS, as they are executed",
            '| name = "B6"',
            "Step s2 started (attempt 1",
            "Step s2 succeeded",
            "RECEIPTS, signed by the hosts",
            "attempt   1 of plan version 1: ok",
            "host      read on node n1, epoch 1",
            "source    sales ffffffff",
            "rows      7 read",
            "CHECKS",
            "schema:s2",
            "OUTPUT",
            "| output.written = 1",
        ):
            assert wanted in out, wanted
        assert max(map(len, out.splitlines())) <= 80

    def test_json_is_one_document(self, begun, duly, capsys):
        run_id = begun()
        duly("approve", run_id, "--with-references")
        capsys.readouterr()
        assert duly("show", run_id, "--step", "s2", "--json") == 0
        data = document(capsys)
        assert data["arguments"] == {"name": "B6", "note": "sold most"} and data["resolved"]
        assert [event["kind"] for event in data["events"]] == [
            "step.started",
            "step.succeeded",
            "step.checked",
        ]
        assert data["receipts"][0]["host"] == "read" and data["receipts"][0]["fault"] == ""
        assert data["status"] == "succeeded" and data["attempts"] == 1

    def test_the_newest_run_needs_no_name(self, begun, duly, capsys):
        begun(reading_plan)
        assert duly("show", "--step", "s1", "--json") == 0
        assert document(capsys)["step_id"] == "s1"

    def test_a_receipt_of_another_key_is_not_believed(self, begun, duly, door, home, capsys):
        run_id = begun(reading_plan)
        write_public_key(home.keys / "hosts/read.pub", public_bytes(Ed25519PrivateKey.generate()))
        assert duly("show", run_id, "s1") == 0
        assert "that cannot be believed [receipt.unknown_key]" in capsys.readouterr().out

    def test_a_step_that_has_not_run(self, begun, duly, capsys):
        run_id = begun()
        assert duly("show", run_id, "s2") == 0
        out = capsys.readouterr().out
        assert "ARGUMENTS, as they stand in the plan" in out and "output of step s1 at /name" in out
        assert "nothing happened yet" in out and "RECEIPTS" not in out

    def test_hostile_arguments_are_shown_and_do_nothing(self, begun, duly, door, capsys):
        def hostile(objective: str) -> Any:
            many = "\n".join(str(number) for number in range(10_000))
            return _plan(objective, [step("s1", READ, {"by": HOSTILE, "many": many})], report_step="s1")

        run_id = begun(hostile)
        assert duly("show", run_id, "s1") == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out and "\u202e" not in out
        lines = out.splitlines()
        assert not [line for line in lines if line.startswith(("END OF", "| approved"))]
        assert any("9999" in line for line in lines), "an argument stands in full"

    def test_what_a_failed_call_said_is_quoted(self, begun, duly, door, capsys):
        def failing(run_id: str, call: Any, wave: int, number: int) -> StepOutcome:
            return StepOutcome(
                step_id=call.step_id,
                attempt=call.attempt,
                wave=wave,
                outcome="error",
                code="tool.failed",
                message="No\x1b[31m luck.\nAPPROVED",
            )

        door.harness._ran = failing
        run_id = begun(reading_plan)
        assert duly("show", run_id, "s1") == 0
        out = capsys.readouterr().out
        assert "| No\\u{1b}[31m luck.\\nAPPROVED" in out and "[tool.failed]" in out

    @pytest.mark.parametrize("arguments", [["s9"], ["--step", "s9"]])
    def test_a_step_that_there_never_was(self, begun, duly, capsys, arguments):
        run_id = begun()
        assert duly("show", run_id, *arguments) == 8
        err = capsys.readouterr().err
        assert "[run.unknown_step]" in err and "Its steps: s1, s2." in err

    def test_sensitive_output_is_not_shown(self, begun, duly, door, monkeypatch, capsys):
        secret = READ.model_copy(update={"sensitive": True})
        for module in ("scripted_harness", "fake_front_door"):
            monkeypatch.setattr(f"{module}.READ", secret)

        def plan(objective: str) -> Any:
            return _plan(objective, [step("s1", secret, {"by": "name"})], report_step="s1")

        run_id = begun(plan, "--tier", "bounded_autonomous")
        assert duly("show", run_id, "s1") == 0
        out = capsys.readouterr().out
        assert "Sensitive: not shown." in out and "output.amount" not in out


class TestEnds:
    def test_what_can_be_trusted_and_how_to_go_on(self, begun, duly, door, capsys):
        run_id = begun()
        duly("approve", run_id)
        duly("reject", run_id)
        capsys.readouterr()
        assert duly("show", run_id) == 0
        out = capsys.readouterr().out
        state = door.harness.runs[run_id].steps["s1"]
        assert state.checked == "pass" and "CAN BE TRUSTED" in out and state.output[:16] in out
        assert "reason    The person rejected it. [gate.rejected]" in out and "next      person" in out
        assert f"continue  duly run --from {run_id}" in out

    def test_partial_lists_what_is_done_what_is_missing_and_the_choices(self, begun, duly, door, capsys):
        def partial(objective: str) -> Any:
            return writing_plan(objective).model_copy(update={"allow_partial": True})

        def failing(run_id: str, call: Any, wave: int, number: int) -> StepOutcome:
            if call.tool == READ.full_name:
                return works(run_id, call, wave, number)
            return StepOutcome(
                step_id=call.step_id, attempt=call.attempt, wave=wave, outcome="error", code="tool.failed"
            )

        works = door.harness._ran
        door.harness._ran = failing
        run_id = begun(partial)
        assert duly("approve", run_id, "--with-references") == 7  # escalate: a person says what to do
        assert duly("answer", run_id, "give up") == 4
        capsys.readouterr()
        assert duly("show", run_id, "--json") == 0
        needs = document(capsys)["needs"]
        assert needs["done"] == ["s1"] and needs["missing"] == ["s2"]
        assert f"duly run --from {run_id}" in needs["choices"][-1]
        assert duly("show", run_id) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "done - s1" in out and "missing - s2" in out and f"duly run --from {run_id}" in out
