"""The four tiers as DESIGN 8 has them."""

from __future__ import annotations

from typing import get_args

from duly.protocol.authority.tiers import TIERS
from duly.protocol.plan.agent import AgentSpec, Tier


def test_the_table():
    assert {name: (rule.plan_gate, rule.critic) for name, rule in TIERS.items()} == {
        "assisted": (True, False),
        "supervised": (True, True),
        "bounded_autonomous": (False, True),
        "long_autonomous": (False, True),
    }


def test_every_tier_has_its_rule_and_the_default_asks():
    assert set(TIERS) == set(get_args(Tier))
    assert TIERS[AgentSpec(name="a", version="1").tier].plan_gate
