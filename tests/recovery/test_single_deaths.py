"""SIGKILL of one process in the middle of a run: the run ends in the same report, and nothing is written twice.

"In the middle" is a place, not a moment: a tool stands still until the test lets it go on, or the process that is to die
is stopped before it is asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holding import PACKAGE, Holding, held_flights, holding
from report_values import Report
from runtime_home import FLIGHTS, Outcome, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
FREE = ("--tier", "bounded_autonomous")
REQUEST = "Why did on-time arrivals fall in June compared with May?"


@pytest.fixture
def held(runtime: RuntimeHome) -> Iterator[Holding]:
    with holding(runtime.root / "tests" / "holding") as one:
        yield one


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def essence(outcome: Outcome) -> dict[str, object]:
    """What two runs of the same request have in common: no ids, no times, no amounts."""
    result = outcome.result
    return {
        "code": outcome.code,
        **{name: result[name] for name in ("phase", "verdict", "reason", "message", "next_owner", "needs")},
        "report": result["report"] and Report(result).essence(),
        "artifacts": len(result["trusted_artifacts"]),
        "plan": result["plan_digest"],
        "succeeded": sorted(one["step_id"] for one in outcome.facts("step.succeeded")),
    }


def until(command: subprocess.Popen[str], kind: str) -> str:
    """What the command has printed up to the first event of a kind."""
    assert command.stdout is not None
    read = ""
    for line in command.stdout:
        read += line
        if f'"kind":"{kind}"' in line:
            return read
    raise AssertionError(f"the command ended without {kind}: {read}")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return held_flights(tmp_path_factory.mktemp("held") / "flights")


@pytest.fixture(scope="module")
def flagship(runtime: RuntimeHome, package: Path) -> dict[str, object]:
    """The flagship undisturbed; the read more changes nothing of its report."""
    outcome = runtime.ask(package, REQUEST)
    assert outcome.code == 0, outcome.err
    plain = runtime.ask(FLIGHTS, REQUEST)
    assert Report(plain.result).essence() == Report(outcome.result).essence()
    return essence(outcome)


@pytest.fixture(scope="module")
def looked(runtime: RuntimeHome) -> dict[str, object]:
    outcome = runtime.ask(PACKAGE, "look around")
    assert outcome.code == 0, outcome.err
    return essence(outcome)


@pytest.fixture(scope="module")
def noted(runtime: RuntimeHome) -> dict[str, object]:
    with holding(runtime.root / "tests" / "holding") as held:
        outcome = runtime.ask(PACKAGE, "note it", *FREE)
        assert outcome.code == 0, outcome.err
        assert len(held.sink) == 1
    return essence(outcome)


class TestFlights:
    """The flagship's plan, with every process that the issue names."""

    @pytest.mark.parametrize(
        ("role", "name"), [("Executor", "executor-node-1-0"), ("Executor", "executor-node-1-1"), ("host read", "")]
    )  # fmt: skip
    def test_in_the_level_of_parallel_reads(self, runtime, package, flagship, role, name):
        with holding(runtime.root / "examples" / "flights") as held:
            held.hold("held")
            command = runtime.begin("run", str(package), REQUEST, "--json")
            held.arrived()
            kill(runtime.pid(role, name))
            held.release("held")
            outcome = runtime.finish(command)
        assert essence(outcome) == flagship
        runtime.verified()

    def test_the_verifier_while_it_judges(self, runtime, package, flagship):
        with holding(runtime.root / "examples" / "flights") as held:
            held.hold("held")
            command = runtime.begin("run", str(package), REQUEST, "--json")
            held.arrived()
            verifier = runtime.pid("Verifier")
            os.kill(verifier, signal.SIGSTOP)
            held.release("held")
            read = until(command, "verification.started")
            kill(verifier)
            outcome = runtime.finish(command, read)
        assert essence(outcome) == flagship
        runtime.verified()


class TestReads:
    """Two reads side by side and one that joins them."""

    def test_the_harness(self, runtime, held, looked):
        """The command finds the next one by itself; both reads run again under the new epoch."""
        held.hold("left")
        command = runtime.begin("run", str(PACKAGE), "look around", "--json")
        held.arrived()
        kill(runtime.pid("Harness"))
        held.arrived()
        held.release("left")
        outcome = runtime.finish(command)
        assert essence(outcome) == looked
        assert len(outcome.facts("run.resumed")) == 1
        started = [one["attempt"] for one in outcome.facts("step.started") if one["step_id"] == "left"]
        assert started == [1, 1], (
            "a read that was under way is started anew, and that is no other attempt of it"
        )
        runtime.verified()

    @pytest.mark.parametrize(
        ("role", "before"),
        [("Planner", "run.submitted"), ("PlanCache", "route.chosen")],
    )
    def test_an_actor_that_is_asked_while_the_plan_is_made(self, runtime, looked, role, before):
        pid = runtime.pid(role)
        os.kill(pid, signal.SIGSTOP)
        command = runtime.begin("run", str(PACKAGE), "look around", "--json")
        read = until(command, before)
        kill(pid)
        assert essence(runtime.finish(command, read)) == looked

    def test_the_journal_while_results_come_in(self, runtime, held, looked):
        """Nobody knows whether it took the last events, so the harness ends too, and the next one reads them."""
        held.hold("left")
        command = runtime.begin("run", str(PACKAGE), "look around", "--json")
        held.arrived()
        journal = runtime.pid("AuditJournal")
        os.kill(journal, signal.SIGSTOP)
        held.release("left")
        kill(journal)
        assert essence(runtime.finish(command)) == looked
        runtime.verified()

    def test_the_worker_in_which_a_tool_runs(self, runtime, held, looked):
        held.hold("left")
        command = runtime.begin("run", str(PACKAGE), "look around", "--json")
        held.arrived()
        kill(held.holder("left"))
        held.release("left")
        outcome = runtime.finish(command)
        assert essence(outcome) == looked

    def test_an_executor_that_dies_while_nothing_runs_costs_nothing(self, runtime, looked):
        lost = runtime.pid("Executor", "executor-node-1-0")
        kill(lost)
        runtime.await_another("executor-node-1-0", lost)
        outcome = runtime.ask(PACKAGE, "look around")
        assert essence(outcome) == looked
        assert not outcome.facts("step.failed")


class TestWrites:
    """Effects are counted at their sink."""

    @pytest.mark.parametrize(
        ("role", "name"),
        [("host write", ""), ("Executor", "executor-node-1-0"), ("Executor", "executor-node-1-1"), ("Harness", "")],
    )  # fmt: skip
    def test_an_idempotent_write_happens_once(self, runtime, held, noted, role, name):
        """It stands between its effect and its answer; the second call has the same key."""
        held.hold("note")
        command = runtime.begin("run", str(PACKAGE), "note it", "--json", *FREE)
        held.arrived()
        assert len(held.sink) == 1
        kill(runtime.pid(role, name))
        held.release("note")
        outcome = runtime.finish(command)
        assert len(held.sink) == 1
        assert essence(outcome) == noted
        runtime.verified()

    @pytest.mark.parametrize("role", ["host verify", "Verifier"])
    def test_the_reading_back(self, runtime, held, noted, role):
        held.hold("noted")
        command = runtime.begin("run", str(PACKAGE), "note it", "--json", *FREE)
        held.arrived()
        kill(runtime.pid(role))
        held.release("noted")
        outcome = runtime.finish(command)
        assert len(held.sink) == 1
        assert essence(outcome) == noted

    def test_what_cannot_be_told_from_a_repetition_is_never_repeated(self, runtime, held):
        """Its host died with the only word of it: a person is asked, with the evidence."""
        held.hold("send")
        command = runtime.begin("run", str(PACKAGE), "send it", "--json", *FREE)
        held.arrived()
        kill(runtime.pid("host write"))
        held.release("send")
        outcome = runtime.finish(command)
        assert (outcome.code, outcome.result["phase"]) == (7, "WAITING_INPUT")
        assert "step.outcome_unknown" in outcome.kinds()
        assert held.sink == ["sent LEFT"]
        needs = outcome.result["needs"]
        answered = runtime.duly("answer", outcome.result["run_id"], needs["choices"][0], "--json")
        assert answered.code == 0 and held.sink == ["sent LEFT"]
        runtime.verified()

    @pytest.mark.parametrize(
        ("role", "name"),
        [("Harness", ""), ("Executor", "executor-node-1-0"), ("Executor", "executor-node-1-1")],
    )
    def test_a_host_that_lives_knows_what_it_did(self, runtime, held, role, name):
        """The effect goes on without those who ordered it, and its result is fetched from its host: not run again."""
        held.hold("send")
        command = runtime.begin("run", str(PACKAGE), "send it", "--json", *FREE)
        held.arrived()
        kill(runtime.pid(role, name))
        held.release("send")
        outcome = runtime.finish(command)
        assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED")
        assert held.sink == ["sent LEFT"] and "step.outcome_unknown" not in outcome.kinds()
        runtime.verified()
