"""A person steers a run of real processes: conditions of a policy, an edit, an amendment, a continuation, a shadow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime_home import FLIGHTS, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
PAYING = Path(__file__).resolve().parent.parent / "packages" / "paying"
INCIDENT = "Open an incident for the carrier that contributed most to the fall in June"
AUTONOMOUS = ("--tier", "long_autonomous")


class Payments:
    """The file that payments leave, looked at from outside, and plans that pay."""

    def __init__(self, runtime: RuntimeHome) -> None:
        self._file = runtime.root / "tests" / "paying" / "payments"
        listed = runtime.duly("tools", "list", str(PAYING), "--json")
        assert listed.code == 0, listed.err
        self.tools = {one["full_name"]: one for one in listed.result["tools"]}

    def made(self) -> list[str]:
        """Who was paid how much."""
        if not self._file.exists():
            return []
        return [line.partition(" ")[2] for line in self._file.read_text(encoding="utf-8").splitlines()]

    def plan(self, file: Path, objective: str, to: str, amount: float) -> str:
        pay, paid = (
            {name: self.tools[full][name] for name in ("server", "name")}
            for full in ("bank.pay", "bank.paid")
        )
        pay["descriptor"], paid["descriptor"] = (
            self.tools[one]["digest"] for one in ("bank.pay", "bank.paid")
        )
        step = {
            "step_id": "s1",
            "objective": f"{to} has what is owed",
            "inputs": {},
            "tool_contract": {
                "tool": pay,
                "arguments": {"to": to, "amount": amount},
                "effect": "write",
                "timeout_seconds": 20,
                "idempotency": "key",
            },
            "output_contract": {"json_schema": {"type": "object"}, "artifact": "payment"},
            "verification": {
                "acceptance": {"none": "nothing to accept"},
                "tolerance": {"none": "exact"},
                "independent": {"read_back": paid, "arguments": {"to": to}, "agree": {"/to": "/to"}},
            },
            "on_failure": [{"do": "escalate"}],
        }
        scope = {"resources": ["file:payments"]}
        file.write_text(
            json.dumps({"objective": objective, "steps": [step], "scope": scope}), encoding="utf-8"
        )
        return str(file)


@pytest.fixture
def payments(runtime: RuntimeHome) -> Payments:
    return Payments(runtime)


def pays(
    runtime: RuntimeHome, payments: Payments, tmp_path: Path, to: str, amount: float, *options: str
) -> Any:
    text = f"Pay {to} what is owed"
    plan = payments.plan(tmp_path / f"{to}.json", text, to, amount)
    return runtime.ask(PAYING, text, "--plan", plan, *AUTONOMOUS, *options)


class TestConditions:
    def test_below_the_line_nobody_is_asked(self, runtime, payments, tmp_path):
        outcome = pays(runtime, payments, tmp_path, "ada", 1000)
        assert outcome.code in (0, 4), (
            outcome.err
        )  # no critic is configured, so the tier may not call it verified
        assert [one["gated"] for one in outcome.facts("policy.judged")] == [False]
        assert "gate.asked" not in outcome.kinds() and payments.made().count("ada 1000") == 1

    def test_above_it_a_person_sees_the_arguments_first(self, runtime, payments, tmp_path):
        outcome = pays(runtime, payments, tmp_path, "bo", 1000.5)
        assert (outcome.code, outcome.result["needs"]["approval"]) == (6, "step")
        assert [one["gated"] for one in outcome.facts("policy.judged")] == [True]
        assert "bo 1000.5" not in payments.made()
        run_id = outcome.result["run_id"]
        assert "| amount = 1000.5" in runtime.duly("inbox", run_id).out
        assert runtime.duly("approve", run_id, "--json").code in (0, 4)
        assert payments.made().count("bo 1000.5") == 1

    def test_a_condition_that_is_no_expression_is_told_with_its_line_and_nothing_runs(
        self, runtime, tmp_path
    ):
        folder = tmp_path / "bad"
        folder.mkdir()
        for file in PAYING.iterdir():
            if file.is_file():
                (folder / file.name).write_text(
                    file.read_text(encoding="utf-8").replace("arguments.amount > 1000", "arguments.amount >"),
                    encoding="utf-8",
                )
        outcome = runtime.ask(folder, "Pay.")
        assert outcome.code == 2 and "[package.expression]" in outcome.err
        line = (folder / "agent.toml").read_text(encoding="utf-8").splitlines().index(
            'when = "arguments.amount >"'
        ) + 1
        assert f"agent.toml:{line}: policy/gates/0/when" in " ".join(outcome.err.split())

    def test_a_shadow_run_pays_nobody(self, runtime, payments, tmp_path):
        outcome = pays(runtime, payments, tmp_path, "cy", 5000, "--shadow")
        assert (outcome.code, outcome.result["reason"]) == (4, "shadow")
        assert outcome.result["needs"]["shadowed"] == ["s1"] and "cy 5000" not in payments.made()


class TestAPlanAtItsGate:
    @pytest.fixture
    def waiting(self, runtime: RuntimeHome) -> str:
        outcome = runtime.ask(FLIGHTS, INCIDENT)
        assert outcome.code == 6, outcome.err
        return str(outcome.result["run_id"])

    def test_an_edit_is_shown_again_and_what_is_not_valid_changes_nothing(self, runtime, waiting, tmp_path):
        text = runtime.duly("edit", waiting, "--print").out
        file = tmp_path / "plan.yaml"
        file.write_text(text.replace("task_class: deterministic", "task_class: wild"), encoding="utf-8")
        refused = runtime.duly("edit", waiting, "--file", str(file))
        assert refused.code == 8 and "plan.yaml:" in "".join(refused.err.split())
        file.write_text(text.replace("allow_partial: false", "allow_partial: true"), encoding="utf-8")
        edited = runtime.duly("edit", waiting, "--file", str(file), "--json")
        assert edited.code == 6, edited.err
        assert edited.kinds()[:2] == ["plan.edited", "gate.asked"]
        shown = runtime.duly("inbox", waiting).out
        assert "WHAT CHANGED SINCE THE LAST PLAN" in shown and "+ allow_partial = true" in shown

    def test_an_amended_run_plans_anew_and_waits_again(self, runtime, waiting):
        amended = runtime.duly("amend", waiting, INCIDENT.replace("June", "July"), "--json")
        assert amended.code in (6, 7), amended.err
        assert "objective.amended" in amended.kinds()
        assert runtime.duly("show", waiting, "--json").result["run_id"] == waiting
        assert "July" in runtime.duly("inbox", waiting).out

    def test_what_ended_is_continued_under_a_mandate_that_names_it(self, runtime, waiting):
        assert runtime.duly("approve", waiting, "--json").code == 6  # the step, after its reads
        assert runtime.duly("reject", waiting).code == 3
        again = runtime.duly("run", "--from", waiting, "--json")
        assert again.code == 6, again.err
        assert again.facts("results.imported")[0]["from_run"] == waiting
        approved = runtime.duly("approve", again.result["run_id"], "--json")
        assert "step.reused" in approved.kinds() and "step.started" not in approved.kinds()

    def test_resume_says_what_each_run_waits_for(self, runtime, waiting):
        one = runtime.duly("resume", waiting, "--json")
        assert one.code == 6 and one.result["phase"] == "WAITING_APPROVAL"
        every = runtime.duly("resume", "--json")
        assert every.code == 0
        assert (
            "an approval of its plan"
            in {run["run_id"]: run["waits_for"] for run in every.result["runs"]}[waiting]
        )
