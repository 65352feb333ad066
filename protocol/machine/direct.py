"""Direct mode: the model answers and calls tools as it goes. Nobody checks the answer, and the result says so.

Each call it wants becomes a step of a plan that grows by one step a turn, so that it is granted, budgeted, gated and
journaled like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..plan.descriptor import Descriptor
from ..plan.plan import (
    Degrade,
    Inputs,
    Nothing,
    OutputContract,
    Plan,
    Retry,
    SourceInput,
    Step,
    ToolContract,
    ToolRef,
    Verification,
)
from ..plan.scope import Scope
from ..wire import canon
from ..wire.errors import PlanError
from ..wire.limits import DIRECT_OBJECTIVE_CHARACTERS_MAX, DIRECT_TURNS_MAX
from . import calls
from .run import DONE, Run

UNCHECKED = "nobody checks a direct run"


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """One call that the model wanted, and what became of it: ``outcome`` is ``ok`` or a code; ``output`` is tagged bytes."""

    tool: str
    arguments: Any
    outcome: str
    step_id: str = ""  # of a call that was made
    output: bytes | None = None
    message: str = ""


def is_last(run: Run) -> bool:
    """Whether the next turn has to be an answer."""
    return len(run.turns) >= DIRECT_TURNS_MAX - 1


def turns(run: Run) -> list[TurnTaken]:
    """What happened in a direct run so far, in order."""
    found = []
    for turn in run.turns:
        step_id = turn.get("step_id")
        if step_id is None:
            found.append(
                TurnTaken(turn["tool"], turn["arguments"], "plan.refused", message="; ".join(turn["faults"]))
            )
            continue
        state, step = run.steps[step_id], run.step(step_id)
        try:
            arguments = calls.resolved(run, step)
        except PlanError:
            arguments = None
        done = state.status in DONE
        found.append(
            TurnTaken(
                step.tool or "",
                arguments,
                "ok" if done else state.code or state.status,
                step_id,
                run.outputs.get(step_id),
                "" if done else state.message,
            )
        )
    return found


def transcript(run: Run, answer: str) -> bytes:
    """The whole conversation as canonical bytes: the request, every call with its outcome, the answer."""
    told = [
        {"tool": one.tool, "arguments": one.arguments, "outcome": one.outcome, "message": one.message}
        for one in turns(run)
    ]
    steps = [turn.get("step_id", "") for turn in run.turns]
    return canon.encode({"request": run.request.text, "turns": told, "steps": steps, "answer": answer})


def extended(
    run: Run, tool: str, arguments: Mapping[str, Any], why: str, sources: Sequence[SourceInput]
) -> Plan:
    """The plan of a direct run with one more call, which reads these sources. Raises ``PlanError`` ``plan.tool_not_granted``."""
    descriptor = run.descriptors.get(tool)
    if descriptor is None:
        raise PlanError("plan.tool_not_granted", f"{tool[:100]} is not granted to this agent.")
    known = run.plan if any("step_id" in turn for turn in run.turns) else None  # else of another objective
    before = known.steps if known is not None else []
    step = _step(f"call-{len(before) + 1}", descriptor, arguments, why, sources)
    resources = [] if descriptor.reads_only or not descriptor.resource else [descriptor.resource]
    scope = Scope(sources=run.mandate.scope.sources, predicates=run.mandate.scope.predicates)
    return Plan(
        plan_id=f"p-{run.run_id}",
        version=(run.plan.version if run.plan else 0) + 1,
        objective=run.request.text,
        scope=(known.scope if known is not None else scope).united(
            scope.model_copy(update={"resources": resources})
        ),
        steps=[*before, step],
        task_class="open",
        allow_partial=True,
        origin="model",
    )


def _step(
    step_id: str,
    descriptor: Descriptor,
    arguments: Mapping[str, Any],
    why: str,
    sources: Sequence[SourceInput],
) -> Step:
    objective = " ".join(why.split())[:DIRECT_OBJECTIVE_CHARACTERS_MAX] or f"call {descriptor.full_name}"
    return Step(
        step_id=step_id,
        objective=objective,
        inputs=Inputs(sources=list(sources)),
        tool_contract=ToolContract(
            tool=ToolRef(server=descriptor.server, name=descriptor.name, descriptor=descriptor.digest()),
            arguments=dict(arguments),
            effect=descriptor.effect,
            authority=descriptor.authority,
            timeout_seconds=descriptor.timeout_seconds,
            idempotency=descriptor.idempotency,
        ),
        output_contract=OutputContract(
            json_schema=descriptor.output_schema, artifact=step_id, evidence=descriptor.evidence
        ),
        verification=Verification(
            acceptance=Nothing(none=UNCHECKED),
            tolerance=Nothing(none=UNCHECKED),
            independent=Nothing(none=UNCHECKED),
        ),
        on_failure=[Retry(attempts=1), Degrade()],
    )
