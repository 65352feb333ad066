"""What may come into a run: the order that begins it, and every plan for it."""

from __future__ import annotations

from collections.abc import Mapping

from ..plan import validate
from ..plan.agent import BUDGET_NAMES
from ..plan.plan import Plan, Provenance, Step
from ..wire.errors import AuthorityError, BudgetError, Fault, PlanError, WireError
from . import gates
from .calls import literal_key
from .run import Run
from .stimuli import Amended, Submitted


def check_order(order: Submitted) -> None:
    """Raises ``AuthorityError`` where a mandate does not say what was submitted with it, ``BudgetError`` for a bad budget.

    The signature was checked before; what was signed is compared here.
    """
    mandate = order.mandate
    mandate.check(run_id=mandate.run_id, now_ms=order.now_ms)
    plan = None if order.plan is None else order.plan.content_digest()
    problems = (
        (mandate.request != order.request.digest(), "mandate.other_request", "another request"),
        (
            (mandate.agent, mandate.agent_version) != (order.agent.name, order.agent.version),
            "mandate.other_agent",
            "another agent",
        ),
        (mandate.plan != plan, "mandate.other_plan", "another plan than the one that came with it"),
    )
    for wrong, code, what in problems:
        if wrong:
            raise AuthorityError(code, f"The mandate is for {what}.", hint="Submit the request again.")
    if mandate.from_run != (order.from_run or None):
        raise AuthorityError("mandate.other_from_run", "The mandate names other results of an earlier run.")
    for name, descriptor in order.descriptors.items():
        if not mandate.names(name, descriptor.digest()):
            raise AuthorityError(
                "mandate.tool_not_named",
                f"The mandate does not name {name} as it is described now.",
                hint="Submit the request again.",
            )
    _check_budget(mandate.budget)


def _check_budget(budget: Mapping[str, int]) -> None:
    for name, amount in budget.items():
        if name not in BUDGET_NAMES or amount < 0:
            raise BudgetError(
                "budget.bad_value",
                f"{name}={amount} is no budget.",
                hint=f"Names are {', '.join(BUDGET_NAMES)}; values are whole numbers from 0 on.",
            )


def check_amendment(run: Run, order: Amended) -> None:
    """Raises ``AuthorityError`` where a mandate is not for this run, this agent and the request that came with it.

    It may name fewer tools than before and never others: what the run was granted, it was granted at its submission.
    """
    mandate, before = order.mandate, run.mandate
    mandate.check(run_id=run.run_id, now_ms=order.now_ms)
    ours = (mandate.agent, mandate.agent_version, mandate.package)
    problems = (
        (mandate.request != order.request.digest(), "mandate.other_request", "another request"),
        (
            ours != (before.agent, before.agent_version, before.package),
            "mandate.other_agent",
            "another agent",
        ),
        (mandate.plan is not None, "mandate.other_plan", "a plan; an amended objective is planned anew"),
        (mandate.from_run != before.from_run, "mandate.other_from_run", "other results of an earlier run"),
        (
            mandate.shadow != before.shadow,
            "mandate.shadow",
            "another mode: a shadow run stays one, and no other becomes one",
        ),
        (
            mandate.nonce == before.nonce,
            "mandate.replayed",
            "what the run has done so far: it is the same one again",
        ),
        (
            bool(set(before.gated_tools) - set(mandate.gated_tools))
            or (before.gate, mandate.gate) == ("always", "consequential"),
            "mandate.gate_weakened",
            "fewer gates than before",
        ),
    )
    for wrong, code, what in problems:
        if wrong:
            raise AuthorityError(code, f"The mandate is for {what}.", hint="Sign a mandate for this run.")
    for name, tool in mandate.tools.items():
        descriptor = run.descriptors.get(name)
        if descriptor is None:
            raise AuthorityError("mandate.tool_not_granted", f"{name} is not granted to this run.")
        if descriptor.digest() != tool.descriptor:
            raise AuthorityError("mandate.descriptor_changed", f"{name} is described differently now.")
    _check_budget(mandate.budget)
    for name in ("steps", "tool_calls"):
        taken = run.budget.used(name) + run.budget.reserved.get(name, 0)
        if mandate.budget.get(name, taken) < taken:
            raise BudgetError("budget.already_spent", f"The run has spent {taken} {name} already.")


def edited_plan(run: Run, plan: Plan) -> Plan:
    """A person's version of the waiting plan. Raises ``PlanError`` ``plan.invalid`` with every fault.

    What only bounds a planner does not bound a person: they may repeat a call, or take another way to an effect.
    """
    version = (run.plan.version if run.plan else 0) + 1
    provenance = Provenance(kind="edited", number=version, reason="a person")
    plan = plan.model_copy(
        update={
            "plan_id": f"p-{run.run_id}",
            "version": version,
            "origin": "person",
            "provenance": provenance,
        }
    )
    faults = _faults(run, plan)
    if plan.objective != run.request.text:
        faults.append(Fault("objective", "replan.objective", "another objective needs an amended mandate."))
    if faults:
        more = "" if len(faults) == 1 else f" (and {len(faults) - 1} more)"
        raise PlanError("plan.invalid", f"The plan has faults: {faults[0]}{more}", faults=faults)
    if plan.content_digest() == run.plan_digest:
        raise PlanError("plan.unchanged", "This is the plan that waits, nothing in it was changed.")
    if plan.content_digest() in run.rejected_plans:
        raise _move("plan.already_rejected", [("", "this plan was rejected before.")])
    return plan


def refused(run: Run, plan: Plan) -> PlanError | None:
    """Why a plan may not become the plan of a run, with every fault; ``None`` where it may."""
    faults = _faults(run, plan)
    if faults:
        return PlanError("plan.refused", f"The plan has {len(faults)} faults.", faults=faults)
    return _refused_move(run, plan)


def direct_faults(run: Run, plan: Plan) -> list[Fault]:
    """What is wrong with the plan of a direct run and its newest call. Nothing of it is verified, so nothing has to say
    how it would be."""
    return [fault for fault in _faults(run, plan) if fault.code != "plan.no_read_back"]


def _faults(run: Run, plan: Plan) -> list[Fault]:
    faults = validate.faults_of(plan, run.descriptors, run.mandate.scope)
    faults += [
        fault for index, step in enumerate(plan.steps) for fault in _cannot_run(run, step, f"steps/{index}")
    ]
    try:
        plan.encoded()
    except WireError as error:
        faults.append(Fault((error.place or "").strip("/"), error.code, error.message))
    return faults


def _cannot_run(run: Run, step: Step, path: str) -> list[Fault]:
    """What only a model could do, and what a tool was before it changed."""
    if (step.tool or "") in run.withdrawn:
        where = f"{path}/tool_contract/tool/descriptor"
        return [
            Fault(
                where,
                "plan.descriptor_changed",
                f"{step.tool} is not described as it was when the run began.",
            )
        ]
    if run.has_model:
        return []
    if step.kind == "reason":
        return [Fault(f"{path}/kind", "model.none", "a reason step needs a model to answer it.")]
    if step.tool_contract.arguments is None:
        return [
            Fault(
                f"{path}/tool_contract/arguments", "model.none", "open arguments need a model to fill them."
            )
        ]
    return []


def _refused_move(run: Run, plan: Plan) -> PlanError | None:
    """The moves that a replan may not make: a rejected plan again, a failed call again, another objective, a wider scope
    where nobody would be asked about it, the effect of a denied step by another tool."""
    if plan.content_digest() in run.rejected_plans:
        return _move("plan.already_rejected", [("", "this plan was rejected before.")])
    if not run.replans:
        return None
    if plan.content_digest() in run.failed_plans:
        return _move("replan.identical", [("", "this plan failed before.")])
    if plan.objective != run.request.text:
        return _move("replan.objective", [("objective", "only a person amends the objective.")])
    repeats = [
        (f"steps/{index}", f"{step.step_id} repeats a call that failed.")
        for index, step in enumerate(plan.steps)
        if literal_key(step) in run.failed_keys
    ]
    if repeats:
        return _move("replan.identical", repeats)
    around = [
        (f"steps/{index}", f"{step.step_id} does by {step.tool} what was denied before.")
        for index, step in enumerate(plan.steps)
        if _goes_around(run, step)
    ]
    if around:
        return _move("replan.same_effect", around)
    if run.settled_scope is not None and not gates.gate_on(run):
        wider = plan.scope.beyond(run.settled_scope)
        if wider:
            return _move("replan.scope", [("scope", f"{', '.join(wider[:10])} was not approved.")])
    return None


def _goes_around(run: Run, step: Step) -> bool:
    """Whether a step has the effect class and the resource of a denied one, by another tool."""
    descriptor = run.descriptors.get(step.tool or "")
    if descriptor is None or not descriptor.resource:
        return False
    return any(
        (effect, resource) == (descriptor.effect, descriptor.resource) and tool != descriptor.full_name
        for tool, effect, resource in run.denied
    )


def _move(code: str, places: list[tuple[str, str]]) -> PlanError:
    faults = [Fault(path, code, message) for path, message in places]
    return PlanError(code, f"The new plan may not be: {faults[0].message}", faults=faults)
