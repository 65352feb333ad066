"""Answering a reason step: from its resolved inputs alone, without tools, under the step's own schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from duly.protocol.plan import schema as json_schema
from duly.protocol.plan.model_schema import closed, definitions, strict, whole
from duly.protocol.plan.model_value import plain
from duly.protocol.plan.plan import Step
from duly.protocol.views.slices import work
from duly.protocol.wire import tagged
from duly.protocol.wire.errors import DulyError, Fault, ModelError
from duly.protocol.wire.limits import MODEL_ATTEMPTS_MAX

from ...model_session import Session, user
from ...prompt import load
from .attempts import asked


async def reason(
    session: Session, *, step: Step, inputs: Mapping[str, Any], withheld: Collection[str] = ()
) -> Any:
    """The step's output as a plain value, valid under ``step.output_contract.json_schema``.

    ``inputs`` maps names to plain outputs. Raises ``ModelError``; ``model.bad_answer`` with the faults of the last attempt.
    """
    wanted = step.output_contract.json_schema
    form = whole(closed({"answer": strict(wanted)}), definitions())
    prompt = load("planner", "reason")
    earlier: list[tuple[Any, list[Fault]]] = []
    for _ in range(MODEL_ATTEMPTS_MAX):
        text = work.reason(step, inputs, earlier, withheld)
        value, faults = await asked(session, "reason", prompt, [user(text)], "answer", form)
        if not faults:
            found, faults = _answer(value, wanted)
            if not faults:
                return found
        earlier.append((value, faults))
    faults = earlier[-1][1]
    raise ModelError(
        "model.bad_answer",
        f"The model's answer for step {step.step_id} does not keep to the step's schema: {faults[0]}",
        place=step.step_id,
        faults=faults,
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
