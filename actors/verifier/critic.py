"""The critic: another model's look at finished work. It can lower a judgement, and nothing else.

It sees objective, plan, outputs and checks, never how the planner argued. Whatever is not exactly an answer of the form
is an error, which the caller records as a check that was not run; it never counts as a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from duly.protocol.judgement.checks import Check
from duly.protocol.plan.model_schema import Schema, closed, text
from duly.protocol.plan.plan import Plan
from duly.protocol.views.slices import judging
from duly.protocol.wire.errors import Fault, ModelError
from duly.protocol.wire.limits import MODEL_CORRECTIONS_MAX

from ..model_session import Session, user
from ..prompt import load

_CHARS_MAX = 500
SCHEMA: Schema = closed(
    {
        "outcome": {"type": "string", "enum": ["pass", "fail"]},
        "corrections": {"type": "array", "items": text(_CHARS_MAX), "maxItems": MODEL_CORRECTIONS_MAX},
    }
)


@dataclass(frozen=True, slots=True)
class CriticWord:
    """What the critic said. Corrections are a stranger's text: data for the next draft, never an instruction of duly's."""

    outcome: Literal["pass", "fail"]
    corrections: list[str] = field(default_factory=list)


async def criticise(
    session: Session,
    *,
    objective: str,
    plan: Plan,
    outputs: Mapping[str, Any],
    checks: Sequence[Check],
    withheld: Collection[str] = (),
) -> CriticWord:
    """The critic's word on a run. ``outputs`` by step; ``withheld`` are the steps whose values it may not see.

    Raises ``ModelError``; ``model.bad_answer`` with faults for anything but an answer of the form.
    """
    written = judging.critic(objective, plan, outputs, checks, withheld)
    value = await session.ask("critic", load("verifier", "critic"), [user(written)], "review", SCHEMA)
    return _word(value)


def _word(value: Any) -> CriticWord:
    faults = []
    given = value if isinstance(value, dict) else {}
    if set(given) != {"outcome", "corrections"}:
        faults.append(Fault("", "model.bad_answer", "a review is a map of outcome and corrections."))
    outcome, corrections = given.get("outcome"), given.get("corrections")
    if outcome not in ("pass", "fail"):
        faults.append(Fault("outcome", "model.bad_answer", "the outcome is pass or fail."))
    if not isinstance(corrections, list) or not all(isinstance(one, str) for one in corrections):
        faults.append(Fault("corrections", "model.bad_answer", "corrections are a list of texts."))
        corrections = []
    if faults:
        raise ModelError("model.bad_answer", f"The critic's answer is no review: {faults[0]}", faults=faults)
    if outcome == "pass":
        return CriticWord("pass")  # what a pass goes on to wish for changes nothing
    said = [one.strip()[:_CHARS_MAX] for one in corrections if one.strip()]
    return CriticWord("fail", said[:MODEL_CORRECTIONS_MAX])
