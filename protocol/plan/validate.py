"""Every fault of a plan at once: ids, graph, references, tools, arguments, contracts, scope, limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..wire import model as wire_model
from ..wire.errors import DulyError, Fault, PlanError
from ..wire.ids import is_name
from ..wire.limits import STEPS_MAX
from ..wire.plain_view import plain_view
from . import acceptance, duplicate_writes, refs, schema
from .ancestors import Ancestors
from .descriptor import Descriptor
from .plan import Plan, Step
from .schedule import dependencies, levels_of
from .scope import Scope


def parse_plan(data: Any) -> Plan:
    """The plan of plain data. Raises ``PlanError`` ``plan.malformed`` with one fault for every wrong field."""
    try:
        return Plan.model_validate(data)
    except ValidationError as problem:
        faults = wire_model.faults_of(problem, "plan.malformed")
        raise PlanError("plan.malformed", f"The plan has {len(faults)} faults.", faults=faults) from None


def faults_of(plan: Plan, descriptors: Mapping[str, Descriptor], scope: Scope | None = None) -> list[Fault]:
    """Everything that is wrong with a plan for an agent that is granted these tools within this scope."""
    faults = _size(plan)
    faults += _graph(plan)
    known = frozenset(step.step_id for step in plan.steps)
    above = Ancestors(plan)
    digests = {name: descriptor.digest() for name, descriptor in descriptors.items()}
    by_id = {step.step_id: step for step in plan.steps}
    for index, step in enumerate(plan.steps):
        path = f"steps/{index}"
        faults += _contract(step, path, descriptors, digests)
        faults += _references(step, path, known, above, by_id, descriptors)
        faults += acceptance.faults_of(step, path, descriptors, digests, known)
        faults += _failure(step, path)
    faults += duplicate_writes.faults_of(plan, descriptors)
    if plan.report_step is not None and plan.report_step not in known:
        faults.append(Fault("report_step", "plan.unknown_step", f"there is no step {plan.report_step}."))
    if scope is not None:
        faults += [
            Fault("scope", "plan.scope", f"{text} lies outside of the mandate.")
            for text in plan.scope.beyond(scope)
        ]
    return faults


def check(plan: Plan, descriptors: Mapping[str, Descriptor], scope: Scope | None = None) -> None:
    """Raises ``PlanError`` ``plan.invalid`` with every fault, where there is one."""
    faults = faults_of(plan, descriptors, scope)
    if faults:
        more = "" if len(faults) == 1 else f" (and {len(faults) - 1} more)"
        raise PlanError("plan.invalid", f"The plan has faults: {faults[0]}{more}", faults=faults)


def _size(plan: Plan) -> list[Fault]:
    faults = []
    if not plan.steps:
        faults.append(Fault("steps", "plan.empty", "a plan has at least one step."))
    if len(plan.steps) > STEPS_MAX:
        faults.append(
            Fault(
                "steps",
                "plan.too_large",
                f"a plan has at most {STEPS_MAX} steps, this one {len(plan.steps)}.",
            )
        )
    if not plan.objective.strip():
        faults.append(Fault("objective", "plan.objective", "a plan names its objective."))
    return faults


def _graph(plan: Plan) -> list[Fault]:
    faults: list[Fault] = []
    seen: set[str] = set()
    known = {step.step_id for step in plan.steps}
    for index, step in enumerate(plan.steps):
        if not is_name(step.step_id):
            faults.append(
                Fault(f"steps/{index}/step_id", "plan.bad_id", "an id has letters, digits and _ . : - only.")
            )
        if step.step_id in seen:
            faults.append(
                Fault(f"steps/{index}/step_id", "plan.duplicate_id", f"{step.step_id} stands twice.")
            )
        seen.add(step.step_id)
        for need in step.depends_on:
            if need not in known:
                faults.append(
                    Fault(f"steps/{index}/depends_on", "plan.unknown_step", f"there is no step {need}.")
                )
    placed = {
        name
        for level in levels_of([(s.step_id, [d for d in dependencies(s) if d in known]) for s in plan.steps])
        for name in level
    }
    circling = [step.step_id for step in plan.steps if step.step_id not in placed]
    if circling:
        faults.append(
            Fault("steps", "plan.cycle", f"these steps wait for each other: {', '.join(circling[:20])}.")
        )
    return faults


def _contract(
    step: Step, path: str, descriptors: Mapping[str, Descriptor], digests: Mapping[str, str]
) -> list[Fault]:
    contract = step.tool_contract
    if not step.objective.strip():
        return [Fault(f"{path}/objective", "plan.objective", "a step names the uncertainty that it reduces.")]
    if step.kind == "reason":
        if contract.tool is not None or contract.model is None:
            return [
                Fault(
                    f"{path}/tool_contract",
                    "plan.reason_contract",
                    "a reason step has tool: null and a model contract.",
                )
            ]
        return []
    if contract.tool is None:
        return [Fault(f"{path}/tool_contract/tool", "plan.no_tool", "a tool step names its tool.")]
    descriptor = descriptors.get(contract.tool.full_name)
    if descriptor is None:
        return [
            Fault(
                f"{path}/tool_contract/tool",
                "plan.tool_not_granted",
                f"{contract.tool.full_name} is not granted to this agent.",
            )
        ]
    faults = _against(step, path, descriptor, digests[contract.tool.full_name])
    if contract.arguments is not None:
        faults += argument_faults(
            contract.arguments, descriptor.input_schema, f"{path}/tool_contract/arguments"
        )
    try:
        schema.compiled(step.output_contract.json_schema)
    except DulyError as error:
        faults.append(Fault(f"{path}/output_contract/json_schema", error.code, error.message))
    return faults


def _against(step: Step, path: str, descriptor: Descriptor, digest: str) -> list[Fault]:
    """Where a step's contract says something else than the descriptor that was granted."""
    contract = step.tool_contract
    faults = []
    if contract.tool is not None and contract.tool.descriptor != digest:
        where = f"{path}/tool_contract/tool/descriptor"
        faults.append(Fault(where, "plan.descriptor_changed", f"{step.tool} is described differently now."))
    if contract.effect != descriptor.effect:
        faults.append(
            Fault(f"{path}/tool_contract/effect", "plan.effect", f"{step.tool} is a {descriptor.effect}.")
        )
    if contract.timeout_seconds > descriptor.timeout_seconds:
        where = f"{path}/tool_contract/timeout_seconds"
        faults.append(Fault(where, "plan.timeout", f"the tool allows {descriptor.timeout_seconds} s."))
    return faults


def argument_faults(arguments: dict[str, Any], wanted: dict[str, Any], path: str) -> list[Fault]:
    """What is wrong with arguments under a tool's schema; references may stand where values will."""
    holes = [where.replace("/$$", "/$") for where, _ in refs.find(arguments)]
    try:
        return schema.faults_of(plain_view(arguments), wanted, path, "plan.bad_arguments", holes)
    except DulyError as error:
        return [Fault(path, error.code, error.message)]


def _references(
    step: Step,
    path: str,
    known: frozenset[str],
    above: Ancestors,
    by_id: Mapping[str, Step],
    descriptors: Mapping[str, Descriptor],
) -> list[Fault]:
    where = f"{path}/tool_contract/arguments"
    faults = refs.faults_in(step.tool_contract.arguments, known, where)
    needs = dependencies(
        step
    )  # what stands here comes before, also where a cycle leaves the step without a level
    for name, target in step.inputs.artifacts.items():
        if target not in known:
            faults.append(
                Fault(f"{path}/inputs/artifacts/{name}", "plan.unknown_step", f"there is no step {target}.")
            )
        elif target not in needs and not above.come_before(target, step.step_id):
            faults.append(
                Fault(
                    f"{path}/inputs/artifacts/{name}",
                    "plan.not_an_ancestor",
                    f"{target} does not come before this step.",
                )
            )
    descriptor = descriptors.get(step.tool or "")
    for place, raw in refs.find(step.tool_contract.arguments):
        try:
            ref = refs.parse(raw["$ref"])
        except (PlanError, TypeError, AttributeError):
            continue  # faults_in named it
        producer = by_id.get(ref.step_id)
        if producer is None:
            continue
        produced = schema.at(producer.output_contract.json_schema, ref.pointer)
        if produced is None:
            faults.append(
                Fault(where + place, "plan.reference_missing", f"{ref.step_id} gives nothing at {ref}.")
            )
        elif descriptor is not None:
            wanted = schema.at(descriptor.input_schema, refs.pointer_parts(place))
            if wanted and not schema.may_fit(produced, wanted):
                faults.append(
                    Fault(
                        where + place,
                        "plan.reference_type",
                        f"{ref} is {json.dumps(produced.get('type'))}, wanted {json.dumps(wanted.get('type'))}.",
                    )
                )
    return faults


def _failure(step: Step, path: str) -> list[Fault]:
    """Ordered destinations that end: any number of retries first, then one that leaves the step."""
    if not step.on_failure:
        return [
            Fault(f"{path}/on_failure", "plan.no_destination", "on_failure names at least one destination.")
        ]
    faults = []
    for index, destination in enumerate(step.on_failure):
        last = index == len(step.on_failure) - 1
        if last and destination.do == "retry":
            faults.append(
                Fault(
                    f"{path}/on_failure/{index}",
                    "plan.endless",
                    "on_failure ends in a destination, not in a retry.",
                )
            )
        if destination.do == "retry" and index and step.on_failure[index - 1].do != "retry":
            faults.append(Fault(f"{path}/on_failure/{index}", "plan.retry_order", "retries come first."))
    return faults
