"""A model's draft as a whole: the plan of its value, with every fault that keeps it from being one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire.errors import Fault, WireError
from . import validate
from .descriptor import Descriptor
from .manifest import MetricTools
from .model_steps import Wishes
from .package import Package
from .plan import Plan, Provenance, Step
from .scope import Scope


def plan_of(
    value: Any,
    *,
    package: Package,
    descriptors: Mapping[str, Descriptor],
    objective: str,
    steps_max: int,
    plan_id: str,
    version: int = 1,
    provenance: Provenance | None = None,
    scope: Scope | None = None,
) -> tuple[Plan, list[Fault]]:
    """The plan that a model's value describes, and everything that is wrong with it; it is good where nothing is.

    ``scope`` is what the mandate allows. The plan may be empty where the value is not even a map.
    """
    wishes = Wishes(package, descriptors)
    steps = wishes.steps(value)
    report, partial = _ends(value, wishes)
    plan = Plan(
        plan_id=plan_id,
        version=version,
        objective=objective,
        scope=_scope(steps, descriptors),
        steps=steps,
        task_class="open",
        allow_partial=partial,
        report_step=report,
        origin="model",
        provenance=provenance or Provenance(),
    )
    faults = wishes.faults + _too_many(plan, steps_max) + validate.faults_of(plan, descriptors, scope)
    faults += [fault for index, step in enumerate(steps) for fault in _names(package, step, index)]
    return plan, list(dict.fromkeys(faults + _bytes(plan)))


def _ends(value: Any, wishes: Wishes) -> tuple[str | None, bool]:
    given = value if isinstance(value, dict) else {}
    for name in sorted(set(given) - {"steps", "report_step", "allow_partial"}):
        wishes.faults.append(Fault(name[:64], "plan.malformed", "there is no such field."))
    report, partial = given.get("report_step"), given.get("allow_partial", False)
    if report is not None and not isinstance(report, str):
        wishes.faults.append(
            Fault("report_step", "plan.malformed", "report_step is the id of a step, or null.")
        )
        report = None
    if not isinstance(partial, bool):
        wishes.faults.append(Fault("allow_partial", "plan.malformed", "allow_partial is true or false."))
        partial = False
    return report, partial


def _scope(steps: list[Step], descriptors: Mapping[str, Descriptor]) -> Scope:
    """What the steps touch: their sources, and the resources that they write."""
    granted = [descriptors[str(step.tool)] for step in steps if step.tool in descriptors]
    return Scope(
        sources=sorted({source.source for step in steps for source in step.inputs.sources}),
        resources=sorted({one.resource for one in granted if not one.reads_only and one.resource}),
    )


def _too_many(plan: Plan, steps_max: int) -> list[Fault]:
    if len(plan.steps) <= steps_max:
        return []
    return [
        Fault(
            "steps", "plan.too_large", f"this plan may have {steps_max} steps, and it has {len(plan.steps)}."
        )
    ]


def _names(package: Package, step: Step, index: int) -> list[Fault]:
    """Metrics and dimensions of metric tools that the semantics do not know: the call would only fail."""
    tool, arguments = step.tool_contract.tool, step.tool_contract.arguments
    entry = package.manifest.tools.get(tool.server) if tool is not None else None
    if not isinstance(entry, MetricTools) or package.semantics is None or arguments is None:
        return []
    metric, dimension = arguments.get("metric"), arguments.get("dimension")
    where = f"steps/{index}/tool_contract/arguments"
    known = package.semantics.metrics.get(metric) if isinstance(metric, str) else None
    faults = []
    if isinstance(metric, str) and known is None:
        names = ", ".join(sorted(package.semantics.metrics))
        faults.append(
            Fault(f"{where}/metric", "plan.unknown_metric", f"there is no such metric; known: {names}.")
        )
    if known is not None and isinstance(dimension, str) and dimension not in known.dimensions:
        names = ", ".join(known.dimensions)
        message = f"{metric} has no such dimension; known: {names or 'none'}."
        faults.append(Fault(f"{where}/dimension", "plan.unknown_dimension", message))
    return faults


def _bytes(plan: Plan) -> list[Fault]:
    """What has no canonical form: a number that is none, a value nested too deep."""
    try:
        plan.encoded()
    except WireError as error:
        return [Fault((error.place or "").strip("/"), error.code, error.message)]
    return []
