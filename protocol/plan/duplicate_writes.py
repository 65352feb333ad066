"""Faults of two writes that would be one: a tool that takes an idempotency key acts once for equal arguments."""

from __future__ import annotations

from collections.abc import Mapping

from ..wire import canon
from ..wire.errors import DulyError, Fault
from .descriptor import Descriptor
from .plan import Plan


def faults_of(plan: Plan, descriptors: Mapping[str, Descriptor]) -> list[Fault]:
    """A fault for every step that would repeat an earlier one under its key, so that the tool would drop it.

    The key is of run, tool, resource and arguments (DESIGN 9), not of the step: that is what keeps it across replans.
    Equal references resolve to equal values, so they count as equal. Tools without a key act each time they are called.
    """
    first: dict[tuple[str, str], str] = {}
    faults = []
    for index, step in enumerate(plan.steps):
        descriptor = descriptors.get(step.tool or "")
        arguments = step.tool_contract.arguments
        if (
            descriptor is None
            or descriptor.idempotency != "key"
            or descriptor.reads_only
            or arguments is None
        ):
            continue
        try:
            effect = descriptor.full_name, canon.digest("arguments", arguments)
        except DulyError:
            continue  # values that no plan can carry are named where arguments are judged
        earlier = first.setdefault(effect, step.step_id)
        if earlier != step.step_id:
            text = (
                f"{step.step_id} is the very effect of {earlier}: {step.tool} acts once for equal arguments and would "
                f"drop this one. Leave one of them out, or let their arguments differ."
            )
            faults.append(Fault(f"steps/{index}/tool_contract/arguments", "plan.duplicate_write", text))
    return faults
