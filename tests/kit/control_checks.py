"""Safety of control: approvals, policies, shadows, breakers, rows and bounds, judged from the record alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from chance_world import World
from duly.protocol.authority.approval import Approval
from duly.protocol.machine.run import Run
from duly.protocol.plan import refs
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from violations import LONGER_PLAN, NEW_PLAN, acts, hold, plans_of

Leaf = Mapping[str, Any]
GATED_TIERS = ("assisted", "supervised")
CRITIC_TIERS = ("supervised", "bounded_autonomous", "long_autonomous")
BREAKER = 5
BOUNDS = {
    "gate_feedback": 3,
    "step_failure": 2,  # with the two that are special cases of it
    "failed_verification": 2,
    "budget_nearly_exhausted": 1,
    "objective_changed": 20,
}


def check_control(leaves: list[Leaf], world: World, run: Run) -> None:
    """Raises ``Violation`` for the first thing that control should have kept from happening."""
    _nothing_starts_while_somebody_is_waited_for(leaves)
    _what_acts_was_approved(leaves, world)
    _a_shadow_touches_nothing(leaves, world)
    _breakers_hold(leaves)
    _rows_hold(leaves, run.mandate.budget.get("rows_scanned"))
    _changed_tools_never_run(leaves)
    _replans_are_bounded(leaves)
    _the_critic_had_its_word(leaves, world, run)


class _Approvals:
    """Which calls somebody approved, as the record says it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.policy = world.submitted["policy"]
        self.digest = "policy-1"
        self.tier = ""
        self.plan = ""
        self.given: list[Approval] = []
        self.judged: dict[str, bool] = {}

    def take(self, leaf: Leaf) -> None:
        facts, kind = leaf["facts"], leaf["kind"]
        if kind in ("run.submitted", "objective.amended"):
            self.tier = facts["tier"]
        elif kind in NEW_PLAN:
            self.plan, self.judged = facts["digest"], {}
        elif kind == LONGER_PLAN:
            self.plan = facts["digest"]
        elif kind in ("plan.approved", "step.approved"):
            self.given.append(Approval.peek(self.world.record.artifacts[leaf["artifacts"]["approval"]]))
        elif kind == "step.failed" and facts["then"] == "gate":
            self.given = [one for one in self.given if facts["step_id"] not in one.steps]
        elif kind == "run.resumed":
            self.digest = facts["digests"].get("policy", self.digest)
        elif kind == "policy.judged":
            self.judged[facts["step_id"]] = facts["gated"]

    def is_needed(self, step_id: str, tool: str) -> bool:
        """Whether a person has to have seen a call: a write where gates are on, a gated tool everywhere."""
        gates_on = self.tier in GATED_TIERS or bool(self.policy.approvers)
        if self.policy.expressions(tool) and tool not in self.world.settings["gated_tools"]:
            hold(step_id in self.judged, f"{step_id} started before the policy was asked")
        gated = tool in self.world.settings["gated_tools"] or tool in self.policy.gated()
        return gated or self.judged.get(step_id, False) or (gates_on and acts(tool))

    def covers(self, plan: Plan, step_id: str, at_ms: int) -> bool:
        arguments = plan.step(step_id).tool_contract.arguments
        is_open = arguments is None  # a model filled them after the plan was approved
        by_reference = any(True for _ in refs.find(arguments))
        return any(
            one.plan == self.plan
            and one.policy == self.digest
            and at_ms <= one.expires_ms
            and step_id in one.steps
            and (one.kind == "step" or (not is_open and (one.with_references or not by_reference)))
            for one in self.given
        )


def _what_acts_was_approved(leaves: list[Leaf], world: World) -> None:
    """Every call that a person has to see starts under a valid approval of exactly this plan or this step."""
    approvals = _Approvals(world)
    for leaf, plan in plans_of(leaves, world.record):
        approvals.take(leaf)
        if leaf["kind"] != "step.started":
            continue
        assert plan is not None
        facts = leaf["facts"]
        if approvals.is_needed(facts["step_id"], facts["tool"]):
            good = approvals.covers(plan, facts["step_id"], facts["at_ms"])
            hold(good, f"{facts['step_id']} started without an approval")


def _nothing_starts_while_somebody_is_waited_for(leaves: Iterable[Leaf]) -> None:
    waits = ""
    for leaf in leaves:
        kind = leaf["kind"]
        if kind == "step.started":
            hold(not waits, f"a step started after {waits}")
        elif kind in ("gate.asked", "input.asked", "run.stalled"):
            waits = kind
        elif (
            kind in ("plan.approved", "step.approved", "plan.rejected", "replan.triggered")
            or kind in NEW_PLAN
            or kind == "input.given"
        ):
            waits = "" if waits != "run.stalled" else waits
        elif kind == "run.resumed":
            waits = "" if waits == "run.stalled" else waits


def _a_shadow_touches_nothing(leaves: Iterable[Leaf], world: World) -> None:
    if not world.settings["shadow"]:
        return
    for leaf in leaves:
        if leaf["kind"] == "step.started":
            hold(not acts(leaf["facts"]["tool"]), "a shadow run started a write")


def _breakers_hold(leaves: Iterable[Leaf]) -> None:
    """After five failures in a row that may pass, a tool is left alone until it works again."""
    tools: dict[str, str] = {}
    row: Counter[str] = Counter()
    for leaf in leaves:
        facts, kind = leaf["facts"], leaf["kind"]
        if kind == "step.started":
            tools[facts["step_id"]] = facts["tool"]
            hold(row[facts["tool"]] < BREAKER, f"{facts['tool']} was called again after {BREAKER} failures")
        elif kind == "step.failed" and "wave" in facts:
            tool = tools[facts["step_id"]]
            if facts["transient"] or facts["lost"]:
                row[tool] += 1
            elif not facts["not_started"]:
                row[tool] = 0
        elif kind == "step.outcome_unknown" and facts["counts"]:
            row[tools[facts["step_id"]]] += 1
        elif kind == "step.succeeded":
            row[tools[facts["step_id"]]] = 0


def _rows_hold(leaves: Iterable[Leaf], limit: int | None) -> None:
    """What is granted never exceeds what is left, whatever happens to it."""
    if limit is None:
        return
    spent = 0
    shares: dict[str, int] = {}
    for leaf in leaves:
        facts, kind = leaf["facts"], leaf["kind"]
        if kind == "budget.reserved":
            amount = facts["amounts"].get("rows_scanned", 0)
            hold(spent + sum(shares.values()) + amount <= limit, "more rows were granted than were left")
            if facts["purpose"] != "wave":
                shares[""] = amount
        elif kind == "step.started":
            shares[facts["step_id"]] = facts["rows_max"]
        elif kind in ("step.succeeded", "step.failed", "step.outcome_unknown") and facts["step_id"] in shares:
            share = shares.pop(facts["step_id"])
            spent += facts.get("rows", share)
        elif kind in ("checks.returned", "verdict.reached", "step.probed"):
            shares.pop("", None)
            spent += facts["spent"].get("rows_scanned", 0) if "spent" in facts else facts["rows"]
        elif kind in ("run.resumed", "objective.amended"):
            spent += sum(shares.values())
            shares.clear()


def _changed_tools_never_run(leaves: Iterable[Leaf]) -> None:
    withdrawn: set[str] = set()
    for leaf in leaves:
        if leaf["kind"] == "run.resumed":
            withdrawn |= set(leaf["facts"]["withdrawn"])
        elif leaf["kind"] == "step.started":
            tool = leaf["facts"]["tool"]
            hold(tool not in withdrawn, f"{tool} ran, which is described differently now")


def _replans_are_bounded(leaves: Iterable[Leaf]) -> None:
    count = Counter(leaf["facts"]["trigger"] for leaf in leaves if leaf["kind"] == "replan.triggered")
    for special in ("missing_source", "new_dependency"):
        count["step_failure"] += count.pop(special, 0)
    for trigger, times in count.items():
        hold(times <= BOUNDS[trigger], f"{times} replans for {trigger}")


def _the_critic_had_its_word(leaves: Iterable[Leaf], world: World, run: Run) -> None:
    """Where the tier asks the critic and there is one, nothing completes without its pass."""
    asked = run.mandate.tier in CRITIC_TIERS and world.submitted["has_critic"]
    if str(run.phase) != "COMPLETED" or not asked or run.route == "direct":
        return
    verdict = [leaf for leaf in leaves if leaf["kind"] == "verdict.reached"][-1]
    checks = canon.decode(world.record.artifacts[verdict["artifacts"]["checks"]])
    words = [check["outcome"] for check in checks if check["kind"] == "critic"]
    hold("pass" in words and "fail" not in words, f"completed, and the critic said {words}")
