"""A good plan as a playbook's file: the same plan for the same request, and for that request with other values, without a
model.

What the request itself named becomes typed parameters (``plan_parameters``); everything else stands in the file as the
plan has it, where it can be read and changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from ..plan import refs
from ..plan.descriptor import Descriptor
from ..plan.manifest import MetricTools
from ..plan.package import Package
from ..plan.plan import Plan, ReadBack, Step
from ..plan.playbook_yaml import parse_playbook
from ..plan.reads import sources_of
from ..wire.errors import Fault, PackageError, PlanError
from .plan_parameters import Parameters, parameters_of
from .plan_slots import slots_of

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")


class _Dumper(yaml.SafeDumper):
    """Writes equal things twice: a playbook has no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def playbook_of(plan: Plan, package: Package, descriptors: Mapping[str, Descriptor], *, name: str) -> bytes:
    """The bytes of ``playbooks/<name>.yaml``, which this package reads without a fault.

    Raises ``PlanError`` ``plan.no_playbook_of`` with everything that a playbook cannot hold: reason steps, arguments to be
    filled in later, ids or names that are none of a playbook.
    """
    faults = _faults(plan, name)
    if name in package.playbooks:
        faults.append(Fault("name", "plan.no_playbook_of", f"the package has a playbook {name} already."))
    if faults:
        raise _refused(faults)
    parameters = parameters_of(plan, package)
    slots = slots_of(plan, parameters.values)
    parameters = parameters.placed(slots)
    tree: dict[str, Any] = {
        "name": name,
        "title": " ".join(plan.objective.split())[:80],
        "task_class": plan.task_class,
        "allow_partial": plan.allow_partial,
        "constraints": list(plan.constraints),
        "match": {"request": slots.request},
        "parameters": parameters.declared,
        "steps": [_step(step, plan, package, descriptors, parameters) for step in plan.steps],
        "report": plan.report_step,
    }
    kept = {key: value for key, value in tree.items() if value not in ([], {}, None)}
    written = yaml.dump(kept, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110).encode("utf-8")
    try:
        parse_playbook(written, f"{name}.yaml", tools=package.manifest.tool_names())
    except PackageError as error:
        raise _refused(error.faults) from None
    return written


def _refused(faults: Any) -> PlanError:
    return PlanError(
        "plan.no_playbook_of",
        f"This plan cannot be kept as a playbook: {faults[0]}",
        hint="Keep the plan itself (duly plan --json), and run it with duly run --plan.",
        faults=faults,
    )


def _faults(plan: Plan, name: str) -> list[Fault]:
    code = "plan.no_playbook_of"
    faults = []
    if not _NAME.match(name):
        faults.append(Fault("name", code, "a playbook's name has letters, digits, _ and -, a letter first."))
    for index, step in enumerate(plan.steps):
        path = f"steps/{index}"
        if step.kind == "reason":
            faults.append(Fault(f"{path}/kind", code, "a reason step needs a model at every run."))
        elif step.tool_contract.arguments is None:
            faults.append(
                Fault(
                    f"{path}/tool_contract/arguments", code, "a model fills these arguments in at every run."
                )
            )
        if not _NAME.match(step.step_id):
            faults.append(Fault(f"{path}/step_id", code, f"{step.step_id} is no id of a playbook's step."))
    return faults


def _step(
    step: Step,
    plan: Plan,
    package: Package,
    descriptors: Mapping[str, Descriptor],
    parameters: Parameters,
) -> dict[str, Any]:
    contract, descriptor = step.tool_contract, descriptors.get(str(step.tool))
    referred = refs.steps_of(contract.arguments)
    found: dict[str, Any] = {
        "id": step.step_id,
        "tool": step.tool,
        "objective": parameters.objective(step.objective),
        "arguments": parameters.templated(contract.arguments),
    }
    after = [name for name in step.depends_on if name not in referred]
    if after:
        found["after"] = after
    if _other_sources(step, package, parameters):
        found["sources"] = [one.source for one in step.inputs.sources]
    found["output"] = _output(step, descriptor)
    found["verification"] = _verification(step, parameters)
    found["on_failure"] = [one.to_data() for one in step.on_failure]
    if descriptor is None or contract.timeout_seconds != descriptor.timeout_seconds:
        found["timeout_seconds"] = contract.timeout_seconds
    if descriptor is None or contract.authority != descriptor.authority:
        found["authority"] = contract.authority
    return found


def _other_sources(step: Step, package: Package, parameters: Parameters) -> bool:
    """Whether a step names other sources than a playbook's step would get by rule: those of the bound metric."""
    named = [one.source for one in step.inputs.sources]
    server = str(step.tool).partition(".")[0]
    if "metric" not in parameters.values or not isinstance(package.manifest.tools.get(server), MetricTools):
        return bool(named)
    return named != sources_of(package, str(step.tool), step.tool_contract.arguments)


def _output(step: Step, descriptor: Descriptor | None) -> dict[str, Any]:
    contract = step.output_contract
    found: dict[str, Any] = {"artifact": contract.artifact, "version": contract.version}
    if descriptor is None or contract.evidence != descriptor.evidence:
        found["evidence"] = contract.evidence
    if descriptor is None or contract.json_schema != descriptor.output_schema:
        found["json_schema"] = contract.json_schema
    return found


def _verification(step: Step, parameters: Parameters) -> dict[str, Any]:
    found = step.verification.to_data()
    independent = step.verification.independent
    if isinstance(independent, ReadBack):
        found["independent"] = {
            "read_back": independent.read_back.full_name,
            "arguments": parameters.templated(independent.arguments),
            "agree": dict(independent.agree),
        }
    return found
