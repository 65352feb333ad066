"""``duly run`` and the decisions, from the command line to the record, against a scripted runtime."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.protocol.authority.mandate import Mandate
from duly.protocol.plan.request import Request
from duly.storage.keys import KeyRing
from scripted_harness import writing_plan

REQUEST = "Which carrier sold most?"


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


class TestRun:
    def test_a_reading_run_completes_and_says_where_it_is(self, duly, door, package, home, capsys):
        assert duly("run", package, REQUEST) == 0
        out = capsys.readouterr().out
        run_id = next(iter(door.harness.runs))
        assert "B6 sold most: 9,512 units. (observation)" in out
        assert "SELECT name, sum(amount)" in out
        assert "COMPLETED" in out.splitlines()
        assert f"duly show {run_id}" in out and str(home.journal) in out
        assert "\x1b" not in out and max(map(len, out.splitlines())) <= max(80, len(str(home.journal)) + 50)

    def test_json_is_events_and_last_the_result(self, duly, door, package, capsys):
        assert duly("run", package, REQUEST, "--json") == 0
        lines = lines_of(capsys)
        assert {line["type"] for line in lines[:-1]} == {"event"}
        assert lines[0]["kind"] == "run.submitted" and lines[-2]["kind"] == "run.ended"
        assert [line["seq"] for line in lines[:-1]] == sorted(line["seq"] for line in lines[:-1])
        assert {"type", "seq", "time", "run_id", "kind"} <= set(lines[0])
        result = lines[-1]
        assert result["type"] == "result" and result["phase"] == "COMPLETED" and result["verdict"] == "pass"
        assert {
            "reason",
            "next_owner",
            "report",
            "trusted_artifacts",
            "plan_digest",
            "budget",
            "needs",
        } <= set(result)

    def test_the_mandate_is_the_persons_and_holds_the_options(self, duly, door, package, home, capsys):
        duly("run", package, REQUEST, "--budget", "steps=7", "--budget", "cost=5", "--tier", "supervised")
        envelope = door.asked("submit")["mandate"]
        from duly.protocol.authority.signing import key_id

        public = KeyRing(home.keys).public("person")
        mandate, _ = Mandate.open(envelope, {key_id(public): public})
        assert mandate.budget["steps"] == 7 and mandate.budget["cost"] == 5 and mandate.tier == "supervised"
        assert set(mandate.tools) == {"sales.largest", "tickets.open"}
        assert (
            mandate.package == "a" * 64
            and mandate.request == door.harness.runs[mandate.run_id].request.digest()
        )

    def test_input_parts_are_typed(self, duly, door, package, capsys):
        duly("run", package, REQUEST, "--input", "top=3", "--input", "note=as text")
        assert door.asked("submit")["request"]["parts"] == [
            {"name": "top", "value": 3},
            {"name": "note", "value": "as text"},
        ]

    def test_a_question_ends_with_seven_and_the_answer_goes_on(self, duly, door, package, capsys):
        door.harness.ask = True
        assert duly("run", package, REQUEST) == 7
        run_id = next(iter(door.harness.runs))
        out = capsys.readouterr().out
        assert "Which month of 2013 do you mean?" in out and f'duly answer {run_id} "..."' in out
        assert duly("answer", run_id[:5], "June 2013", "--json") == 0
        assert lines_of(capsys)[-1]["phase"] == "COMPLETED"
        assert door.asked("answer")["text"] == "June 2013"

    def test_detach_gives_the_id_and_does_not_wait(self, duly, door, package, capsys):
        assert duly("run", package, REQUEST, "--detach", "--json") == 0
        (line,) = lines_of(capsys)
        assert line == {"run_id": next(iter(door.harness.runs))}

    def test_an_autonomous_tier_says_what_the_mandate_approves(self, duly, door, package, capsys):
        door.harness.plan = writing_plan
        assert duly("run", package, REQUEST, "--tier", "bounded_autonomous") == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "you approve what these tools will do: tickets.open" in out
        assert len(door.harness.effects) == 1

    def test_a_plan_of_ones_own_is_named_in_the_mandate(self, duly, door, package, tmp_path, capsys):
        data = writing_plan(REQUEST).to_data()
        data["steps"] = data["steps"][:1]
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(data), encoding="utf-8")
        assert duly("run", package, REQUEST, "--plan", str(file)) == 0
        sent = door.asked("submit")
        assert sent["plan"]["origin"] == "person"
        assert (
            Mandate.peek(sent["mandate"]).plan
            == door.harness.runs[Mandate.peek(sent["mandate"]).run_id].plan_digest
        )


class TestLostConnection:
    def test_the_run_is_looked_for_again_and_followed_on(self, duly, door, package, capsys):
        def gone(request, reply):
            envelope = request["mandate"]
            events = []
            door.harness.publish = events.append
            door.harness.submit(envelope, Request.model_validate(request["request"]))
            reply({"event": events[0]})
            raise BrokenPipeError

        door.override["submit"] = gone
        assert duly("run", package, REQUEST, "--json") == 0
        captured = capsys.readouterr()
        lines = [json.loads(line) for line in captured.out.splitlines()]
        assert lines[0]["kind"] == "run.submitted" and lines[-1]["phase"] == "COMPLETED"
        assert "looking for the run again" in captured.err
        assert door.asked("follow")["after"] == lines[0]["seq"]

    def test_a_submission_that_nobody_answered_is_sent_once_more(self, duly, door, package, capsys):
        def gone(request, reply):
            del door.override["submit"]
            raise BrokenPipeError

        door.override["submit"] = gone
        assert duly("run", package, REQUEST, "--json") == 0
        assert door.ops().count("submit") == 2 and len(door.harness.runs) == 1

    def test_a_submission_that_was_taken_without_a_word_begins_no_second_run(
        self, duly, door, package, capsys
    ):
        def taken(request, reply):
            del door.override["submit"]
            door.harness.submit(request["mandate"], Request.model_validate(request["request"]))
            raise BrokenPipeError

        door.override["submit"] = taken
        assert duly("run", package, REQUEST, "--json") == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["phase"] == "COMPLETED"
        assert door.asked("follow")["after"] == -1 and len(door.harness.runs) == 1

    def test_a_runtime_that_always_breaks_off_is_an_error(self, duly, door, package, capsys):
        def gone(request, reply):
            raise BrokenPipeError

        door.override["submit"] = gone
        assert duly("run", package, REQUEST) == 1
        assert "[runtime.lost]" in capsys.readouterr().err
        assert not door.harness.runs


class TestGates:
    @pytest.fixture
    def waiting(self, duly, door, package, capsys) -> str:
        door.harness.plan = writing_plan
        assert duly("run", package, REQUEST) == 6
        self.shown = capsys.readouterr().out
        return next(iter(door.harness.runs))

    def test_nobody_at_the_terminal_leaves_it_waiting(self, waiting, door):
        assert "WHAT NEEDS YOUR APPROVAL: 1 step of 2" in self.shown
        assert f"duly approve {waiting}" in self.shown and "--with-references" in self.shown
        assert "approve" not in door.ops() and not door.harness.effects

    def test_two_approvals_write_once(self, waiting, duly, door, capsys):
        assert duly("approve", waiting) == 6
        out = capsys.readouterr().out
        assert "ARGUMENTS, exactly as they will be executed" in out and '| name = "B6"' in out
        assert not door.harness.effects
        assert duly("approve", waiting) == 0
        assert door.harness.effects == [{"name": "B6", "note": "sold most"}]

    def test_with_references_one_approval_is_enough(self, waiting, duly, door, capsys):
        assert duly("approve", waiting, "--with-references") == 0
        assert len(door.harness.effects) == 1

    def test_yes_approves_every_gate(self, duly, door, package, capsys):
        door.harness.plan = writing_plan
        assert duly("run", package, REQUEST, "--yes", "--json") == 0
        lines = lines_of(capsys)
        assert [line["type"] for line in lines].count("result") == 1
        assert door.ops().count("approve") == 2 and len(door.harness.effects) == 1

    @pytest.mark.parametrize("gate", [1, 2])
    def test_reject_at_either_gate_fails_and_writes_nothing(self, waiting, duly, door, capsys, gate):
        if gate == 2:
            assert duly("approve", waiting) == 6
        assert duly("reject", waiting) == 3
        assert "gate.rejected" in capsys.readouterr().out and not door.harness.effects

    def test_approving_twice_is_refused(self, waiting, duly, door, capsys):
        duly("approve", waiting, "--with-references")
        assert duly("approve", waiting) == 8
        assert "[gate.already_decided]" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (
                lambda gate: gate.update(text=gate["text"].replace("sold most", "sold least")),
                "gate.text_mismatch",
            ),
            (lambda gate: gate.update(shown="0" * 64), "gate.text_mismatch"),
            (lambda gate: gate.update(plan_digest="0" * 64), "gate.bytes_mismatch"),
            (lambda gate: gate.update(scope_digest="0" * 64), "gate.bytes_mismatch"),
            (lambda gate: gate["steps"]["s2"].update(arguments="0" * 64), "gate.bytes_mismatch"),
            (lambda gate: gate["steps"]["s2"].update(tool="other.open"), "gate.bytes_mismatch"),
            (lambda gate: gate.update(steps={}), "gate.bytes_mismatch"),
            (lambda gate: gate["budget"].update(steps=1_000), "gate.text_mismatch"),
        ],
    )
    def test_a_gate_that_contradicts_its_bytes_is_not_signed(self, waiting, duly, door, capsys, change, code):
        answer = door.harness.gate(waiting)
        change(answer)
        door.override["gate"] = lambda request, reply: reply({**answer, "last": True})
        assert duly("approve", waiting) == 8
        assert f"[{code}]" in capsys.readouterr().err
        assert "approve" not in door.ops()
