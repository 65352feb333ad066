"""What may come into a run: the order that begins it, and every plan for it."""

from __future__ import annotations

from ..plan import refs, validate
from ..plan.agent import BUDGET_NAMES
from ..plan.plan import Plan, Step
from ..wire.errors import AuthorityError, BudgetError, Fault, PlanError, WireError
from .calls import step_key
from .run import Run
from .stimuli import Submitted


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
    for name, descriptor in order.descriptors.items():
        if not mandate.names(name, descriptor.digest()):
            raise AuthorityError(
                "mandate.tool_not_named",
                f"The mandate does not name {name} as it is described now.",
                hint="Submit the request again.",
            )
    for name, amount in mandate.budget.items():
        if name not in BUDGET_NAMES or amount < 0:
            raise BudgetError(
                "budget.bad_value",
                f"{name}={amount} is no budget.",
                hint=f"Names are {', '.join(BUDGET_NAMES)}; values are whole numbers from 0 on.",
            )


def refused(run: Run, plan: Plan) -> PlanError | None:
    """Why a plan may not become the plan of a run, with every fault; ``None`` where it may."""
    faults = validate.faults_of(plan, run.descriptors, run.mandate.scope)
    faults += [
        fault for index, step in enumerate(plan.steps) for fault in _cannot_run(step, f"steps/{index}")
    ]
    try:
        plan.encoded()
    except WireError as error:
        faults.append(Fault((error.place or "").strip("/"), error.code, error.message))
    if faults:
        return PlanError("plan.refused", f"The plan has {len(faults)} faults.", faults=faults)
    return _refused_move(run, plan)


def _cannot_run(step: Step, path: str) -> list[Fault]:
    """What only a model could do."""
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
    """The moves that a replan may not make: a rejected plan again, a failed call again, another objective."""
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
        if _literal_key(step) in run.failed_keys
    ]
    return _move("replan.identical", repeats) if repeats else None


def _move(code: str, places: list[tuple[str, str]]) -> PlanError:
    faults = [Fault(path, code, message) for path, message in places]
    return PlanError(code, f"The new plan may not be: {faults[0].message}", faults=faults)


def _literal_key(step: Step) -> str:
    arguments = step.tool_contract.arguments
    if any(True for _ in refs.find(arguments)):
        return ""
    return step_key(step, arguments)
