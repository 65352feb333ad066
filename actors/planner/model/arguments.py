"""Filling the arguments of one step just before its dispatch, from its objective and its resolved inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from duly.protocol.plan import schema as json_schema
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.model_schema import closed, definitions, strict, whole
from duly.protocol.plan.model_value import plain
from duly.protocol.plan.plan import Step
from duly.protocol.plan.request import Request
from duly.protocol.views.slices import work
from duly.protocol.wire import tagged
from duly.protocol.wire.errors import DulyError, Fault, PlanError
from duly.protocol.wire.limits import MODEL_ATTEMPTS_MAX

from ...model_session import Session, user
from ...prompt import load
from .attempts import asked


async def extract_arguments(
    session: Session,
    *,
    step: Step,
    descriptor: Descriptor,
    request: Request,
    inputs: Mapping[str, Any],
    withheld: Collection[str] = (),
) -> dict[str, Any]:
    """Arguments in their tagged form, valid under the tool's schema and without any reference.

    ``inputs`` maps names to plain outputs; ``withheld`` are those whose values the model may not see. Raises
    ``PlanError`` ``plan.arguments`` with every fault of the last attempt, ``ModelError`` where the model fails.
    """
    form = whole(closed({"arguments": strict(descriptor.input_schema)}), definitions())
    prompt = load("planner", "arguments")
    earlier: list[tuple[Any, list[Fault]]] = []
    for _ in range(MODEL_ATTEMPTS_MAX):
        text = work.arguments(step, descriptor, request, inputs, earlier, withheld)
        value, faults = await asked(session, "arguments", prompt, [user(text)], "arguments", form)
        if not faults:
            found, faults = arguments_of(value, descriptor)
            if not faults:
                return found
        earlier.append((value, faults))
    faults = earlier[-1][1]
    raise PlanError(
        "plan.arguments",
        f"The arguments of step {step.step_id} could not be filled in: {faults[0]}",
        place=step.step_id,
        hint="Write them into the plan (duly edit), or say in the request what they are.",
        faults=faults,
    )


def arguments_of(value: Any, descriptor: Descriptor) -> tuple[dict[str, Any], list[Fault]]:
    """The arguments in a model's value (``{"arguments": …}``), tagged, and everything that is wrong with them."""
    faults: list[Fault] = []
    given = value.get("arguments") if isinstance(value, dict) else None
    found = plain(given, descriptor.input_schema, "arguments", faults)
    if not isinstance(found, dict):
        return {}, [*faults, Fault("arguments", "plan.bad_arguments", "arguments are a map by name.")]
    try:
        made = tagged.to_tagged(found)
        faults += json_schema.faults_of(found, descriptor.input_schema, "arguments", "plan.bad_arguments")
    except DulyError as error:
        return {}, [*faults, Fault("arguments", error.code, error.message)]
    return made, faults
