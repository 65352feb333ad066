"""What a critic is given: objective, plan, outputs and the outcomes of the checks; nothing of how the plan came to be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...judgement.checks import Check
from ...plan.plan import Nothing, Plan, Step
from ...wire.limits import MODEL_HANDLE_BYTES_MAX, MODEL_SLICE_BYTES_MAX
from .handles import handle, readable
from .marked import message

_SMALL = 300
_CHECKS_MAX = 400


def critic(
    objective: str,
    plan: Plan,
    outputs: Mapping[str, Any],
    checks: Sequence[Check],
    withheld: Collection[str] = (),
) -> str:
    """The message of one review. ``outputs`` by step; ``withheld`` are the steps whose values may not be shown.

    Left out of the plan: origin, provenance, guidance, versions. The report's output has the most room; it is what the
    person will read.
    """
    room = max(_SMALL, MODEL_SLICE_BYTES_MAX // 2 // max(1, len(outputs)))
    room = min(room, MODEL_HANDLE_BYTES_MAX)
    given = {
        name: handle(
            value, 4 * MODEL_HANDLE_BYTES_MAX if name == plan.report_step else room, withheld=name in withheld
        )
        for name, value in outputs.items()
    }
    return message(
        {
            "objective": objective,
            "constraints": list(plan.constraints),
            "plan": [_step(step, room) for step in plan.steps],
            "outputs": given or None,
            "checks": _checks(checks, withheld),
        }
    )


def _step(step: Step, room: int) -> dict[str, Any]:
    acceptance = step.verification.acceptance
    rules = [] if isinstance(acceptance, Nothing) else [rule.to_data() for rule in acceptance]
    told: dict[str, Any] = {"id": step.step_id, "objective": step.objective[:1_000]}
    if step.tool is not None:
        told |= {"tool": step.tool, "arguments": handle(step.tool_contract.arguments, room)}
    if step.depends_on:
        told["after"] = list(step.depends_on)
    return {**told, "rules": readable(rules)} if rules else told


def _checks(checks: Sequence[Check], withheld: Collection[str]) -> list[dict[str, Any]]:
    """Outcomes, the failed ones first where there are too many to show; of withheld steps without what was found."""
    ordered = sorted(checks, key=lambda one: one.outcome == "pass") if len(checks) > _CHECKS_MAX else checks
    return [
        {
            "check": one.kind,
            "step": one.step_id,
            "outcome": one.outcome,
            **({"reason": one.reason[:500]} if one.reason and not _tells(one, withheld) else {}),
        }
        for one in ordered[:_CHECKS_MAX]
    ]


def _tells(check: Check, withheld: Collection[str]) -> bool:
    """Whether a check's reason may quote what is withheld: those of its own step, for a whole run those of any."""
    return check.step_id in withheld if check.step_id else bool(withheld)
