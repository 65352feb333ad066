"""Answering a reason step: from its resolved inputs alone, without tools, under the step's own schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from duly.protocol.plan import schema as json_schema
from duly.protocol.plan.model_schema import closed, definitions, strict, whole
from duly.protocol.plan.model_value import plain
from duly.protocol.plan.plan import Step
from duly.protocol.views.slices import work
from duly.protocol.wire import tagged
from duly.protocol.wire.errors import DulyError, Fault, ModelError
from duly.protocol.wire.limits import MODEL_ATTEMPTS_MAX

from ...model_session import Session
from .attempts import Form, attempted


async def reason(
    session: Session, *, step: Step, inputs: Mapping[str, Any], withheld: Collection[str] = ()
) -> Any:
    """The step's output as a plain value, valid under ``step.output_contract.json_schema``.

    ``inputs`` maps names to plain outputs. Raises ``ModelError``; ``model.bad_answer`` with the faults of the last attempt.
    """
    wanted = step.output_contract.json_schema
    schema = whole(closed({"answer": strict(wanted)}), definitions())

    def refusal(attempts: Sequence[list[Fault]]) -> ModelError:
        faults = attempts[-1]
        return ModelError(
            "model.bad_answer",
            f"The model's answer for step {step.step_id} does not keep to the step's schema: {faults[0]}",
            place=step.step_id,
            faults=faults,
        )

    return await attempted(
        session,
        Form("reason", "answer", schema),
        attempts=MODEL_ATTEMPTS_MAX,
        write=lambda earlier: work.reason(step, inputs, earlier, withheld),
        read=lambda value: _answer(value, wanted),
        refuse=refusal,
    )


def _answer(value: Any, wanted: dict[str, Any]) -> tuple[Any, list[Fault]]:
    if not isinstance(value, dict) or set(value) != {"answer"}:
        return None, [Fault("", "model.bad_answer", "the answer is a map with the one key answer.")]
    faults: list[Fault] = []
    found = plain(value["answer"], wanted, "answer", faults)
    try:
        tagged.to_tagged(found)
        faults += json_schema.faults_of(found, wanted, "answer", "model.bad_answer")
    except DulyError as error:
        faults.append(Fault("answer", error.code, error.message))
    return found, faults
