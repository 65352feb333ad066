"""Filling the arguments of one step just before its dispatch, from its objective and its resolved inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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

from ...model_session import Session
from .attempts import Form, attempted


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
    schema = whole(closed({"arguments": strict(descriptor.input_schema)}), definitions())

    def refusal(attempts: Sequence[list[Fault]]) -> PlanError:
        faults = attempts[-1]
        return PlanError(
            "plan.arguments",
            f"The arguments of step {step.step_id} could not be filled in: {faults[0]}",
            place=step.step_id,
            hint="Write them into the plan (duly edit), or say in the request what they are.",
            faults=faults,
        )

    return await attempted(
        session,
        Form("arguments", "arguments", schema),
        attempts=MODEL_ATTEMPTS_MAX,
        write=lambda earlier: work.arguments(step, descriptor, request, inputs, earlier, withheld),
        read=lambda value: arguments_of(value, descriptor),
        refuse=refusal,
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
