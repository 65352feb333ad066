"""Drafting a plan with a model: a few attempts, each fed every fault and all guidance, and never half a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.model_draft import plan_of
from duly.protocol.plan.model_plan import SCHEMA_NAME, plan_form
from duly.protocol.plan.package import Package
from duly.protocol.plan.plan import Plan, Provenance
from duly.protocol.plan.request import Binding, Request
from duly.protocol.plan.scope import Scope
from duly.protocol.views.slices import planning
from duly.protocol.wire.errors import Fault, PlanError
from duly.protocol.wire.limits import DRAFTS_PER_PLAN_MAX, MODEL_PLAN_STEPS_MAX

from ...model_session import Session
from .attempts import Form, attempted

_LIMITS = ("steps", "tool_calls", "rows_scanned")


async def draft_plan(
    session: Session,
    *,
    request: Request,
    binding: Binding,
    package: Package,
    agent: AgentSpec,
    catalogue: Catalogue,
    descriptors: Mapping[str, Descriptor],
    plan_id: str,
    version: int,
    provenance: Provenance | None,
    guidance: Sequence[str],
    left: Mapping[str, int],
    scope: Scope | None = None,
) -> Plan:
    """A plan without a fault. ``left`` is what the run's budget still has; ``scope`` what its mandate allows.

    Raises ``PlanError`` ``plan.refused`` with every fault of the last attempt, ``ModelError`` where the model fails.
    """
    granted = {name: descriptors[name] for name in agent.tools if name in descriptors}
    steps_max = min([MODEL_PLAN_STEPS_MAX, *(left[name] for name in ("steps", "tool_calls") if name in left)])
    form = plan_form(granted, steps_max=steps_max)
    limits = {**{name: left[name] for name in _LIMITS if name in left}, "steps": form.steps_max}
    return await attempted(
        session,
        Form("plan", SCHEMA_NAME, form.json_schema),
        attempts=DRAFTS_PER_PLAN_MAX,
        write=lambda earlier: planning.planner(
            request=request,
            binding=binding,
            package=package,
            agent=agent,
            catalogue=catalogue,
            descriptors=granted,
            limits=limits,
            guidance=guidance,
            earlier=earlier,
        ),
        read=lambda value: plan_of(
            value,
            package=package,
            descriptors=granted,
            objective=request.text,
            steps_max=form.steps_max,
            plan_id=plan_id,
            version=version,
            provenance=provenance,
            scope=scope,
        ),
        refuse=_refusal,
    )


def _refusal(attempts: Sequence[Sequence[Fault]]) -> PlanError:
    """What ends a draft whose attempts are used up: the faults of the last one, and how many each had."""
    last = attempts[-1]
    return PlanError(
        "plan.refused",
        f"The model drafted {len(attempts)} plans, and each was refused; the last one has {len(last)} "
        f"fault{'' if len(last) == 1 else 's'}: {last[0]}",
        hint="Say more in the request, write the plan yourself (duly run --plan), or set a stronger model.",
        story=[f"attempt {number}: {_count(faults)}" for number, faults in enumerate(attempts, 1)],
        faults=last,
    )


def _count(faults: Sequence[Fault]) -> str:
    codes = sorted({fault.code for fault in faults})
    return f"{len(faults)} fault{'' if len(faults) == 1 else 's'} ({', '.join(codes)})"
