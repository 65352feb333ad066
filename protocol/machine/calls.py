"""What one call is: its resolved arguments, its key, and whether it is the same as another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..authority.grant import arguments_digest, arguments_digest_of
from ..plan import refs
from ..plan.plan import Step
from ..plan.schedule import dependencies
from ..wire import canon
from ..wire.errors import PlanError, WireError
from .run import DONE, GONE, Outputs, Run


def resolved(
    run: Run, step: Step, outputs: Mapping[str, Any] | None = None, keep: Collection[str] = ()
) -> Any:
    """The arguments of a step with every reference replaced, save those to steps in ``keep``.

    ``outputs`` are tagged, the run's own where none are given. Raises ``PlanError``: ``plan.reference_unresolved``, or
    ``plan.bad_arguments`` where the values do not go together into one message.
    """
    contract = step.tool_contract
    if step.kind == "reason":
        return inputs_of(run, step, outputs)
    if keep and all(name in keep for name in refs.steps_of(contract.arguments)):
        return contract.arguments  # as most steps of a segment have it
    arguments = refs.resolve(contract.arguments, Outputs(run) if outputs is None else outputs, keep)
    if arguments is not contract.arguments:
        _encoded(arguments)
    return arguments


def inputs_named(step: Step) -> dict[str, str]:
    """What a model works from for a step, name -> the step that gives it: its artifacts, and by id whatever else it waits
    for or refers to."""
    referred = refs.steps_of(step.tool_contract.arguments)
    return {**{name: name for name in (*step.depends_on, *referred)}, **step.inputs.artifacts}


def inputs_of(run: Run, step: Step, outputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The tagged results that a model works from for a step (``inputs_named``).

    Raises ``PlanError`` ``plan.reference_unresolved`` where one is not there.
    """
    known = Outputs(run) if outputs is None else outputs
    wanted = inputs_named(step)
    lost = [name for name in step.inputs.artifacts.values() if name not in known]
    if lost:
        raise PlanError("plan.reference_unresolved", f"Step {step.step_id} lacks the result of {lost[0]}.")
    return {name: known[source] for name, source in sorted(wanted.items()) if source in known}


def resolved_digest(run: Run, step: Step, outputs: Mapping[str, Any]) -> str:
    """The digest of a step's resolved arguments. Raises as ``resolved`` does."""
    if step.kind == "reason":
        return arguments_digest_of(_encoded(inputs_of(run, step, outputs)))
    return arguments_digest_of(_encoded(refs.resolve(step.tool_contract.arguments, outputs)))


def _encoded(arguments: Any) -> bytes:
    try:
        return canon.encode(arguments)
    except WireError as error:
        raise PlanError("plan.bad_arguments", error.message, place=error.place) from None


def step_key(step: Step, arguments: Any) -> str:
    """What makes two calls the same: tool, descriptor, resolved arguments."""
    return key_of(step, arguments_digest(arguments))


def key_of(step: Step, digest: str) -> str:
    """The key of a step by the digest of its resolved arguments."""
    tool = step.tool_contract.tool
    if tool is None:
        return canon.digest("call", ["", step.objective, digest])
    return canon.digest("call", [step.tool or "", tool.descriptor, digest])


def literal_key(step: Step) -> str:
    """The key of a step whose arguments all stand in the plan, empty where some come by reference."""
    arguments = step.tool_contract.arguments
    if arguments is None or any(True for _ in refs.find(arguments)):
        return ""
    return step_key(step, arguments)


def key_now(run: Run, step: Step, outputs: Mapping[str, Any] | None = None) -> str:
    """The key of a step as its inputs are now, empty while they are not all there."""
    try:
        return step_key(step, resolved(run, step, outputs))
    except PlanError:
        return ""


def is_ready(run: Run, step: Step) -> bool:
    """Whether everything that a step waits for has come to an end."""
    return all(
        run.steps[name].status in DONE or run.steps[name].status in GONE for name in dependencies(step)
    )


def lacking(run: Run, step: Step) -> list[str]:
    """The steps whose results this one needs and will never have."""
    needed = [*refs.steps_of(step.tool_contract.arguments), *step.inputs.artifacts.values()]
    return [name for name in dict.fromkeys(needed) if run.steps[name].status in GONE]


def twin(run: Run, step: Step, key: str) -> str:
    """The step of this plan that has made the same call of a tool that tells calls apart by their key; empty for none.

    The tool would do nothing for the second one, and say that it had.
    """
    descriptor = run.descriptors.get(step.tool or "")
    if not key or descriptor is None or descriptor.reads_only or descriptor.idempotency != "key":
        return ""
    others = (name for name, state in run.steps.items() if state.key == key and state.status in DONE)
    return next((name for name in others if name != step.step_id), "")


def can_reuse(run: Run, step: Step, key: str) -> bool:
    """Whether a kept result stands for this call. An effect that happened never happens again; a read is only as good
    as its source, which must be unchanged."""
    kept = run.kept.get(key)
    if kept is None or twin(run, step, key):
        return False
    if not run.reads_only(step.step_id):
        return True
    if kept.imported and not kept.fingerprints:
        return False  # of another run, and nobody can say whether its source is as it was
    return all(run.sources.get(name) == mark for name, mark in kept.fingerprints.items())
