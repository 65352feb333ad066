"""Steering with the machine behind the front door: what a person does changes the run as it says, and nothing more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.protocol.machine.stimuli import Resumed
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.policy import Policy, PolicyGate
from scripted_harness import READ, writing_plan


@pytest.fixture
def waiting(duly, door, package, capsys) -> str:
    door.harness.plan = writing_plan
    assert duly("run", package, "Open a ticket.") == 6
    capsys.readouterr()
    return next(iter(door.harness.runs))


def text_of(duly: Any, run_id: str, capsys: Any) -> str:
    assert duly("edit", run_id, "--print") == 0
    return str(capsys.readouterr().out)


def edit(duly: Any, run_id: str, file: Any, text: str) -> int:
    file.write_text(text, encoding="utf-8")
    return int(duly("edit", run_id, "--file", str(file)))


class TestEdit:
    def test_the_edited_plan_is_shown_with_the_difference_first_and_runs_as_it_was_approved(
        self, waiting, duly, door, tmp_path, capsys
    ):
        text = text_of(duly, waiting, capsys)
        code = edit(duly, waiting, tmp_path / "plan.yaml", text.replace('"sold most"', '"look at it"'))
        out = capsys.readouterr().out
        assert code == 6 and "from your edit" in out
        shown = out.partition("APPROVAL OF A PLAN")[2]
        assert shown.index("WHAT CHANGED SINCE THE LAST PLAN") < shown.index("WHAT NEEDS YOUR APPROVAL")
        assert '- steps.s2.tool_contract.arguments.note = "sold most"' in shown.replace("\n|>", "")
        assert '+ steps.s2.tool_contract.arguments.note = "look at it"' in shown.replace("\n|>", "")
        assert not door.harness.effects
        assert duly("approve", waiting, "--with-references") == 0
        assert door.harness.effects == [{"name": "B6", "note": "look at it"}]

    def test_an_approval_of_the_plan_before_opens_nothing(self, waiting, duly, door, tmp_path, capsys):
        before = door.harness.gate(waiting)
        text = text_of(duly, waiting, capsys)
        assert edit(duly, waiting, tmp_path / "plan.yaml", text.replace('"sold most"', '"other"')) == 6
        door.override["gate"] = lambda request, reply: reply({**before, "last": True})
        assert duly("approve", waiting, "--with-references") == 8
        assert "[gate.already_decided]" in capsys.readouterr().err and not door.harness.effects

    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            ("resources: [", 'resources: ["sqlite:salaries", ', "lies outside of the mandate"),
            ("effect: write", "effect: read", "is a write"),
            ("read_back:", "nobody:", "there is no such field"),
        ],
    )
    def test_what_the_mandate_and_the_tools_do_not_allow_is_refused(
        self, waiting, duly, door, tmp_path, capsys, old, new, told
    ):
        text = text_of(duly, waiting, capsys)
        assert old in text
        digest = door.harness.runs[waiting].plan_digest
        assert edit(duly, waiting, tmp_path / "plan.yaml", text.replace(old, new)) == 8
        assert told in " ".join(capsys.readouterr().err.split())
        assert door.harness.runs[waiting].plan_digest == digest

    def test_a_plan_that_only_reads_still_waits_for_whoever_looks_at_it(
        self, waiting, duly, door, tmp_path, capsys
    ):
        text = text_of(duly, waiting, capsys)
        only = text[: text.index("  # step 2 of 2")]
        assert edit(duly, waiting, tmp_path / "plan.yaml", only) == 6
        assert "THIS PLAN CHANGES NOTHING" in capsys.readouterr().out
        assert duly("approve", waiting) == 0 and not door.harness.effects


class TestGuideAndAmend:
    def test_guidance_at_a_gate_makes_another_plan_that_waits(self, waiting, duly, door, capsys):
        def other(objective: str) -> Plan:
            data = writing_plan(objective).to_data()
            data["steps"][1]["tool_contract"]["arguments"]["note"] = "as guided"
            return Plan.model_validate(data)

        door.harness.plan = other
        assert duly("guide", waiting, "Say it otherwise.") == 6
        out = capsys.readouterr().out
        assert "guidance given" in out and '"as guided"' in out and "WHAT CHANGED SINCE THE LAST PLAN" in out
        assert door.harness.runs[waiting].guidance == ("Say it otherwise.",)

    def test_an_amended_run_is_planned_for_the_new_request_and_waits(self, waiting, duly, door, capsys):
        assert duly("amend", waiting, "Close a ticket.") == 6
        run = door.harness.runs[waiting]
        assert run.request.text == "Close a ticket." and run.plan.objective == "Close a ticket."
        assert run.mandate.request == run.request.digest()
        out = capsys.readouterr().out
        assert "becomes   Close a ticket." in out and "another request, under a new mandate" in out
        assert not door.harness.effects
        assert duly("approve", waiting, "--with-references") == 0 and len(door.harness.effects) == 1

    def test_an_approval_for_the_old_request_allows_nothing_of_the_new_one(self, waiting, duly, door, capsys):
        assert duly("approve", waiting) == 6  # the plan, not the step
        assert duly("amend", waiting, "Close a ticket.") == 6
        assert "APPROVAL OF A PLAN" in capsys.readouterr().out and not door.harness.effects


class TestShadow:
    def test_nothing_is_written_and_the_list_is_told(self, duly, door, package, capsys):
        door.harness.plan = writing_plan
        assert duly("run", package, "Open a ticket.", "--shadow") == 4
        out = " ".join(capsys.readouterr().out.split())
        run_id = next(iter(door.harness.runs))
        assert not door.harness.effects and "approve" not in door.ops()
        assert "would run - s2" in out and "Would have run: s2 (tickets.open)" in out
        assert f"`duly run --from {run_id}` to do it for real" in out
        assert duly("show", run_id, "s2") == 0
        assert '| name = "B6"' in capsys.readouterr().out

    def test_json(self, duly, door, package, capsys):
        door.harness.plan = writing_plan
        assert duly("run", package, "Open a ticket.", "--shadow", "--json") == 4
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert result["reason"] == "shadow" and result["needs"]["shadowed"] == ["s2"]


class TestPolicies:
    def test_a_gated_read_waits_in_every_tier(self, duly, door, package, capsys):
        door.harness.policy = Policy(gates=[PolicyGate(tool=READ.full_name)])
        assert duly("run", package, "Which sold most?", "--tier", "long_autonomous") == 6
        assert duly("inbox", "--json") == 0
        (entry,) = json.loads(capsys.readouterr().out.splitlines()[-1])["waiting"]
        assert entry["kind"] == "step" and entry["reason"] == "arguments"

    def test_yes_of_somebody_whom_the_policy_does_not_name_leaves_it_open(self, duly, door, package, capsys):
        door.harness.policy = Policy(approvers=["ada"])
        door.harness.plan = writing_plan
        assert duly("run", package, "Open a ticket.", "--yes") == 6
        assert "[approval.not_an_approver]" in capsys.readouterr().err and not door.harness.effects


class TestInbox:
    def test_a_gate_that_reopened_says_what_changed(self, waiting, duly, door, capsys):
        harness = door.harness
        harness._give(
            waiting,
            Resumed(**harness._moment(), epoch=2, changed=["policy", "semantics"], digests={"policy": "new"}),
        )
        assert duly("inbox") == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "why what was shown before has changed: policy, semantics" in out
        assert duly("inbox", "--json") == 0
        assert json.loads(capsys.readouterr().out)["waiting"][0]["changed"] == ["policy", "semantics"]
