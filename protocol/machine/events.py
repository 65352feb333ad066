"""Events: what happened to a run, in the past tense. The journal is made of them, and the run is what they give.

``facts`` go into the journal's leaf: ids, numbers, codes, digests. ``attached`` are bytes (canonical msgpack) that
become artifacts; the leaf holds their salted digests, so they can be erased and the log still verifies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = frozenset(
    (
        "run.submitted",
        "route.chosen",
        "plan.cache_hit",
        "plan.cache_stale",
        "plan.cache_miss",
        "plan.cached",
        "plan.drafted",
        "plan.refused",
        "gate.asked",
        "plan.approved",
        "plan.rejected",
        "plan.edited",
        "guidance.given",
        "objective.amended",
        "authority.refused",
        "step.arguments_filled",
        "model.called",
        "model.answered",
        "plan.extended",
        "direct.call_refused",
        "direct.answered",
        "step.approved",
        "step.started",
        "step.succeeded",
        "step.reused",
        "step.failed",
        "step.checked",
        "step.skipped",
        "step.outcome_unknown",
        "step.outcome_stated",
        "step.probed",
        "policy.asked",
        "policy.judged",
        "results.imported",
        "checks.returned",
        "step.shadowed",
        "step.late_result",
        "input.asked",
        "input.given",
        "replan.triggered",
        "replan.refused",
        "budget.reserved",
        "budget.warned",
        "budget.exhausted",
        "verification.started",
        "verdict.reached",
        "run.resumed",
        "run.stalled",
        "run.cancelled",
        "run.ended",
    )
)


@dataclass(frozen=True, slots=True)
class Event:
    """One fact about one run. ``artifacts`` names the artifacts of a recorded event: name to salted digest."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    attached: Mapping[str, bytes] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


def event(kind: str, /, attached: Mapping[str, bytes] | None = None, **facts: Any) -> Event:
    """A new event. An unknown kind is a mistake of the caller."""
    if kind not in KINDS:
        raise ValueError(f"no event of kind {kind}")
    return Event(kind, facts, attached or {})
