"""What must hold of every story, judged from the record and the sink alone: none of this asks the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chance_world import World
from control_checks import check_control
from duly.protocol.machine.run import Run
from duly.protocol.plan.schedule import dependencies
from duly.protocol.wire import canon
from memory_record import MemoryRecord
from violations import LONGER_PLAN, NEW_PLAN, Violation, acts, hold, plans_of

GOOD = {"succeeded", "reused"}
SETTLED = {*GOOD, "stated", "degraded", "skipped", "shadowed"}


def check_story(world: World, run: Run) -> None:
    leaves = [canon.decode(leaf) for leaf in world.record.leaves]
    _effects_happen_once(world)
    _starts_have_a_cause(leaves)
    _order_and_solitude(leaves, world.record)
    _budgets_hold(leaves, run.mandate.budget)
    check_control(leaves, world, run)
    _ends_are_true(leaves, world, run)


def _effects_happen_once(world: World) -> None:
    for (name, key), count in world.sink.effects.items():
        hold(count == 1, f"{name} acted {count} times for {key}")


def _starts_have_a_cause(leaves: Iterable[Mapping[str, Any]]) -> None:
    """A step of one plan starts a second time only after a failure that leads there, a person's word, or a restart."""
    may: dict[str, bool] = {}
    for leaf in leaves:
        facts, kind = leaf["facts"], leaf["kind"]
        if kind in NEW_PLAN:
            may.clear()
        elif kind == "step.started":
            hold(may.get(facts["step_id"], True), f"{facts['step_id']} started again without a cause")
            may[facts["step_id"]] = False
        elif (
            kind == "step.failed"
            and facts["then"] in ("retry", "again", "gate")
            or kind == "step.outcome_stated"
            and facts["said"] == "did_not_happen"
            or kind == "step.probed"
            and facts["outcome"] == "did_not_happen"
        ):
            may[facts["step_id"]] = True
        elif kind == "input.given" and facts["said"] == "retry":
            may[facts["about"].partition(":")[2]] = True
        elif kind in ("run.resumed", "objective.amended"):
            may.clear()


def _order_and_solitude(leaves: list[Mapping[str, Any]], record: MemoryRecord) -> None:
    """A step starts after everything it depends on; an effect after its inputs passed their checks, and alone."""
    status: dict[str, str] = {}
    checked: dict[str, str] = {}
    keys: dict[str, str] = {}
    stated: set[str] = set()  # calls of which a person said that they happened
    running: set[str] = set()
    effect: dict[str, bool] = {}
    together: int = 0
    for leaf, plan in plans_of(leaves, record):
        facts, kind = leaf["facts"], leaf["kind"]
        step_id = facts.get("step_id")
        if kind in NEW_PLAN:
            hold(not running, "a plan was replaced under running calls")
            assert plan is not None
            status.clear()
            checked.clear()
            effect = {one.step_id: acts(one.tool or "") for one in plan.steps}
        elif kind == LONGER_PLAN:
            assert plan is not None and step_id is not None
            effect[step_id] = acts(plan.step(step_id).tool or "")
        elif kind == "step.started":
            assert plan is not None and step_id is not None
            for need in dependencies(plan.step(step_id)):
                same_wave = need in running and facts["template"]
                hold(
                    status.get(need) in SETTLED
                    or same_wave
                    or (need in running and facts["wave"] == together),
                    f"{step_id} started before {need} was done",
                )
                good = checked.get(need) == "pass" or status.get(need) not in GOOD
                hold(
                    good or not effect[step_id],
                    f"the effect {step_id} started on {need}, which nobody checked",
                )
            together = facts["wave"]
            hold(not any(effect[name] for name in running), f"{step_id} started beside an effect")
            hold(not (running and effect[step_id]), f"the effect {step_id} started beside others")
            running.add(step_id)
        elif kind in ("step.succeeded", "step.failed", "step.outcome_unknown"):
            running.discard(step_id or "")
            word = {"step.succeeded": "succeeded", "step.outcome_unknown": "unknown"}.get(kind)
            status[step_id or ""] = word or ("degraded" if facts["then"] == "degrade" else "failed")
            keys[step_id or ""] = facts["key"]
        elif kind == "step.checked":
            checked[step_id or ""] = facts["outcome"]
        elif kind in ("step.reused", "step.skipped", "step.shadowed"):
            status[step_id or ""] = kind.removeprefix("step.")
            if facts.get("key") in stated:
                status[step_id or ""] = "stated"
        elif kind == "step.outcome_stated" and facts["said"] == "happened":
            status[step_id or ""] = "stated"
            stated.add(keys[step_id or ""])
        elif kind == "input.given" and facts["said"] == "skip":
            status[facts["about"].partition(":")[2]] = "degraded"
        elif kind in ("run.resumed", "objective.amended"):
            running.clear()


def _budgets_hold(leaves: Iterable[Mapping[str, Any]], limits: Mapping[str, int]) -> None:
    """Everything that was ever started was reserved first, and what was reserved never exceeds what is allowed."""
    reserved = {"steps": 0, "tool_calls": 0}
    started = 0
    for leaf in leaves:
        facts, kind = leaf["facts"], leaf["kind"]
        if kind == "budget.reserved":
            for name in reserved:
                reserved[name] += facts["amounts"].get(name, 0)
        elif kind == "step.started":
            started += 1
        elif kind == "step.failed" and facts["not_started"] and "wave" in facts:
            started -= 1
            for name in reserved:
                reserved[name] -= 1
        for name, amount in reserved.items():
            hold(amount <= limits[name], f"{amount} {name} were reserved of {limits[name]}")
        hold(started <= reserved["steps"], "a step started without a reservation")


def _ends_are_true(leaves: list[Mapping[str, Any]], world: World, run: Run) -> None:
    last = (
        leaves[-1]
        if leaves[-1]["kind"] != "step.late_result"
        else next(leaf for leaf in reversed(leaves) if leaf["kind"] != "step.late_result")
    )
    hold(last["kind"] in ("run.ended", "budget.warned"), f"the story stops with {last['kind']}")
    hold(sum(leaf["kind"] == "run.ended" for leaf in leaves) == 1, "a run ends once")
    hold(bool(run.reason), "an end has a reason")
    verdicts = [leaf["facts"]["outcome"] for leaf in leaves if leaf["kind"] == "verdict.reached"]
    if str(run.phase) != "COMPLETED":
        return
    if [leaf["facts"]["route"] for leaf in leaves if leaf["kind"] == "route.chosen"][-1] == "direct":
        kinds = [leaf["kind"] for leaf in leaves]
        said = kinds[kinds.index("run.ended") - 1] == "direct.answered"
        hold(run.verdict == "none" and said, "an answer that was not given")
        return
    hold(verdicts[-1:] == ["pass"], "completed without a passing verdict")
    verdict = next(leaf for leaf in reversed(leaves) if leaf["kind"] == "verdict.reached")
    checks = canon.decode(world.record.artifacts[verdict["artifacts"]["checks"]])
    bad = [
        check
        for check in checks
        if check["outcome"] == "fail" or (check["mandatory"] and check["outcome"] != "pass")
    ]
    hold(not bad, f"completed although {bad[:1]}")
    assert run.plan is not None
    unseen = {one.step_id for one in run.plan.steps} - {check["step_id"] for check in checks}
    hold(not unseen, f"completed although nobody checked {unseen}")
    for one in run.plan.steps:
        hold(run.steps[one.step_id].status in GOOD, f"completed, and {one.step_id} is not done")
        arguments = run.step(one.step_id).tool_contract.arguments or {}
        if acts(one.tool or ""):
            hold(
                world.sink.holds(arguments["key"]), f"completed, and the effect of {one.step_id} is not there"
            )


__all__ = ["Violation", "check_story"]
