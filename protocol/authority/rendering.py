"""The canonical text that an approver sees and signs.

Pure and deterministic: 80 columns, no colour, the same bytes give the same text on every machine. The harness renders
it when a gate opens, the command line renders it again from the bytes that it was sent, and the approval holds
``shown_digest`` of it. What plan, package or tool output say stands only on lines that begin with ``|`` (see
``argument_lines``); every other line is duly's own. All arguments stand in full, a text of 10,000 lines too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..plan import refs
from ..plan.descriptor import Descriptor
from ..plan.plan import Plan, Step
from ..plan.schedule import dependencies
from ..wire import canon
from ..wire.errors import AuthorityError
from ..wire.ids import Digest, digest_bytes, is_digest
from .approval import ApprovedStep
from .argument_lines import Path, leaf_lines, leaves, text_lines, value_lines
from .grant import arguments_digest
from .printable import units, wrapped

_WORDS = {"read": "reads only", "write": "WRITES", "external": "LEAVES THE SYSTEM"}
_LEGEND = (
    "Lines that begin with | show what plan, package and tools say, all of it.",
    "Only the other lines are duly's own words.",
)


@dataclass(frozen=True, slots=True)
class GateFacts:
    """What binds an approval beside the plan: run, gate, digests of scope and policy, and the run's budget."""

    run_id: str
    gate: str
    scope: str
    budget: Mapping[str, int]
    policy: str


def shown_digest(text: str) -> Digest:
    """The digest of a rendering, as an approval holds it."""
    return digest_bytes("shown", text.encode("utf-8"))


def render_plan(
    plan: Plan,
    descriptors: Mapping[str, Descriptor],
    facts: GateFacts,
    approved: Mapping[str, ApprovedStep],
    *,
    before: Plan | None = None,
) -> str:
    """The text of a plan gate.

    ``descriptors`` maps full tool names to the granted descriptors, ``approved`` holds the consequential steps that
    the approval will name. With ``before`` (the plan that this one replaces) the difference comes first.
    """
    lines = ["APPROVAL OF A PLAN", "", *_facts(plan, facts), "", *_LEGEND, ""]
    if before is not None:
        lines += ["WHAT CHANGED SINCE THE LAST PLAN", *_difference(before, plan), ""]
    lines += _consequences(plan, descriptors, approved)
    return _closed(lines + _body(plan, descriptors), f"END OF THE PLAN: {_count(len(plan.steps), 'step')}")


def render_preview(plan: Plan, descriptors: Mapping[str, Descriptor]) -> str:
    """The text of a plan that nobody asked to approve: the same lines, and no gate."""
    lines = ["A PLAN, NOT RUN", "", f"plan      {plan.content_digest()}", "", *_LEGEND, ""]
    lines += _consequences(plan, descriptors, {})
    return _closed(lines + _body(plan, descriptors), f"END OF THE PLAN: {_count(len(plan.steps), 'step')}")


def _body(plan: Plan, descriptors: Mapping[str, Descriptor]) -> list[str]:
    lines = ["OBJECTIVE", *text_lines(plan.objective), ""]
    settings = {
        "constraints": plan.constraints,
        "scope": plan.scope.to_data(),
        "task_class": plan.task_class,
        "allow_partial": plan.allow_partial,
        "report_step": plan.report_step,
    }
    lines += ["SETTINGS OF THE PLAN", *_stated(settings), ""]
    for number, step in enumerate(plan.steps, 1):
        lines += _step(step, number, len(plan.steps), descriptors)
    return lines


def render_step(
    plan: Plan,
    step_id: str,
    arguments: Any,
    descriptor: Descriptor,
    facts: GateFacts,
) -> str:
    """The text of a step gate: the resolved ``arguments`` that will be executed, and where each came from."""
    step = plan.step(step_id)
    number = [one.step_id for one in plan.steps].index(step_id) + 1
    lines = ["APPROVAL OF ONE STEP", "", *_facts(plan, facts), "", *_LEGEND, ""]
    lines += [f"STEP {number} of {len(plan.steps)}: {_effect(step, descriptor)}"]
    lines += value_lines({"id": step.step_id, "objective": step.objective})
    lines += _tool(step, descriptor)
    lines += ["", "ARGUMENTS, exactly as they will be executed"]
    lines += [f"digest    {arguments_digest(arguments)}", *_arguments(arguments), ""]
    origins = list(refs.find(step.tool_contract.arguments))
    if origins:
        lines += ["WHERE ARGUMENTS COME FROM"]
        for where, raw in origins:
            lines += leaf_lines(_path(where), raw)
        lines += [""]
    lines += ["HOW IT IS CHECKED", *value_lines(step.verification.to_data()), ""]
    return _closed(lines, "END OF THE STEP")


def render_difference(old: Plan, new: Plan) -> str:
    """What ``new`` changes against ``old``: added and removed steps, and every changed field with both values."""
    return "\n".join(_difference(old, new)) + "\n"


def _facts(plan: Plan, facts: GateFacts) -> list[str]:
    amounts = ", ".join(f"{name} {facts.budget[name]}" for name in sorted(facts.budget))
    rows = (
        ("run", facts.run_id),
        ("gate", facts.gate),
        ("plan", plan.content_digest()),
        ("scope", facts.scope),
        ("policy", facts.policy),
        ("budget", amounts),
    )
    return [line for name, text in rows for line in wrapped(units(text), f"{name:<10}", " " * 10) if text]


def _consequences(
    plan: Plan, descriptors: Mapping[str, Descriptor], approved: Mapping[str, ApprovedStep]
) -> list[str]:
    """First of all what matters: what the approval covers, and what acts and is not covered."""
    unknown = sorted(set(approved) - {step.step_id for step in plan.steps})
    if unknown:
        raise AuthorityError(
            "gate.other_step", f"The gate names a step that the plan does not have: {unknown[0]}."
        )
    covered, open_ = [], []
    for number, step in enumerate(plan.steps, 1):
        descriptor = descriptors.get(step.tool or "")
        entry = approved.get(step.step_id)
        if entry is None and not acts(step, descriptor):
            continue
        lines = [f"Step {number}: {_effect(step, descriptor)}"]
        lines += _stated({"tool": step.tool, "resource": descriptor.resource if descriptor else ""})
        if entry is None:
            open_ += lines
            continue
        covered += [*lines, f"digest    {entry.arguments}"]
        if entry.template:
            covered.append("Some of its arguments come from earlier steps and are shown again when known,")
            covered.append("unless you approve with references.")
    lines = [f"WHAT NEEDS YOUR APPROVAL: {_count(len(approved), 'step')} of {len(plan.steps)}", *covered]
    if not approved:
        lines = [] if open_ else ["THIS PLAN CHANGES NOTHING: every step only reads."]
    if open_:
        lines += ["THIS ACTS AND IS NOT APPROVED WITH THIS TEXT", *open_]
    return [*lines, ""]


def acts(step: Step, descriptor: Descriptor | None) -> bool:
    """Whether a step does more than read; without a descriptor it is taken to."""
    return step.kind == "tool" and (descriptor is None or not descriptor.reads_only)


def _step(step: Step, number: int, total: int, descriptors: Mapping[str, Descriptor]) -> list[str]:
    descriptor = descriptors.get(step.tool or "")
    lines = [f"STEP {number} of {total}: {_effect(step, descriptor)}"]
    lines += value_lines({"id": step.step_id, "objective": step.objective})
    lines += _tool(step, descriptor)
    lines += _stated({"waits_for": dependencies(step)})
    lines += ["arguments", *_arguments(step.tool_contract.arguments)]
    lines += ["contract", *_stated(_contract(step))]
    return [*lines, f"schema    {canon.digest('schema', step.output_contract.json_schema)}", ""]


def _tool(step: Step, descriptor: Descriptor | None) -> list[str]:
    if step.tool_contract.tool is None:
        return ["No tool: the model answers."]
    lines = value_lines({"tool": step.tool})
    if descriptor is None:
        return [*lines, "THIS TOOL IS NOT GRANTED.", *_pinned(step.tool_contract.tool.descriptor)]
    lines += _stated({"description": descriptor.description, "resource": descriptor.resource})
    lines += _pinned(descriptor.digest())
    if descriptor.digest() != step.tool_contract.tool.descriptor:
        lines += ["THE TOOL IS DESCRIBED DIFFERENTLY NOW. The plan was made for"]
        lines += _pinned(step.tool_contract.tool.descriptor)
    return lines


def _pinned(descriptor: str) -> list[str]:
    if not is_digest(descriptor):
        return value_lines({"descriptor": descriptor})
    return [f"pinned    {descriptor}"]


def _arguments(arguments: Any) -> list[str]:
    if arguments is None:
        return ["Not filled yet: they will be shown before the step runs."]
    return value_lines(arguments) if arguments else ["none"]


def _contract(step: Step) -> dict[str, Any]:
    """What the step promises, without what is shown elsewhere."""
    data = step.to_data()
    contract, output = data["tool_contract"], data["output_contract"]
    return {
        "inputs": data["inputs"],
        **{name: contract[name] for name in contract if name not in ("tool", "arguments", "idempotency")},
        "idempotency": _unless(contract["idempotency"], "none"),
        "output": {
            "artifact": output["artifact"],
            "evidence": output["evidence"],
            "version": _unless(output["version"], "1"),
            "location": _unless(output["location"], "artifacts"),
        },
        "verification": data["verification"],
        "on_failure": data["on_failure"],
    }


def _unless(value: str, usual: str) -> str | None:
    return None if value == usual else value


def _stated(value: Mapping[str, Any]) -> list[str]:
    """The lines of a map of the plan without its empty fields (``""``, null, an empty list or map). Not for arguments."""
    kept = _without_empty(value)
    return value_lines(kept) if kept else []


def _without_empty(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    kept = {name: _without_empty(item) for name, item in value.items()}
    return {name: item for name, item in kept.items() if item not in ("", None, [], {})}


def _effect(step: Step, descriptor: Descriptor | None) -> str:
    if step.kind == "reason":
        return "the model answers"
    words = _WORDS[descriptor.effect if descriptor else "write"]
    return f"{words}, SENSITIVE DATA" if descriptor and descriptor.sensitive else words


def _difference(old: Plan, new: Plan) -> list[str]:
    before, after = _flat(old), _flat(new)
    lines: list[str] = []
    for path in [*after, *(path for path in before if path not in after)]:
        if before.get(path, _ABSENT) == after.get(path, _ABSENT):
            continue
        if path in before:
            lines += leaf_lines(path, before[path][1], "- ")
        if path in after:
            lines += leaf_lines(path, after[path][1], "+ ")
    return lines or ["nothing"]


_ABSENT = ("", None)


def _flat(plan: Plan) -> dict[Path, tuple[str, Any]]:
    """Every value of a plan's content by its path, steps by their ids. The type stands beside: 1 is not 1.0."""
    content = plan.content()
    content["steps"] = {step["step_id"]: step for step in content["steps"]}
    content["order"] = [step.step_id for step in plan.steps]
    for step in content["steps"].values():
        schema = step["output_contract"]["json_schema"]
        step["output_contract"]["json_schema"] = canon.digest("schema", schema)
    return {path: (repr(leaf), leaf) for path, leaf in leaves(content)}


def _path(pointer: str) -> Path:
    """The path of a place that ``refs.find`` names (``/a/0``), in units."""
    return tuple(units(pointer.removeprefix("/").replace("/", ".")))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _closed(lines: Sequence[str], end: str) -> str:
    """The text with a last line that counts the lines above it, so that nothing can be missing unseen."""
    return "\n".join([*lines, f"{end}, {_count(len(lines), 'line')} above."]) + "\n"
