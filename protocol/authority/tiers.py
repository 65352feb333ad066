"""Autonomy tiers as data: which of them have the plan gate, and which ask the critic."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.agent import Tier


@dataclass(frozen=True, slots=True)
class TierRule:
    plan_gate: bool
    critic: bool


TIERS: dict[Tier, TierRule] = {
    "assisted": TierRule(plan_gate=True, critic=False),
    "supervised": TierRule(plan_gate=True, critic=True),
    "bounded_autonomous": TierRule(plan_gate=False, critic=True),
    "long_autonomous": TierRule(plan_gate=False, critic=True),
}
