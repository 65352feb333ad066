"""What an agent is allowed and asked to be: the resolved settings of one ``[[agents]]`` entry."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..wire.limits import STEPS_DEFAULT, TOOL_CALLS_DEFAULT, WALL_SECONDS_DEFAULT
from ..wire.model import Model

Tier = Literal["assisted", "supervised", "bounded_autonomous", "long_autonomous"]
Planning = Literal["auto", "never", "always"]
Schedule = Literal["levels", "overlap"]
GateMode = Literal["consequential", "always"]

BUDGET_NAMES = ("steps", "tool_calls", "model_tokens", "wall_seconds", "rows_scanned", "cost")


class AgentSpec(Model):
    """An agent with every default filled in. ``budget`` holds integers by name (seconds, counts, millionths)."""

    name: str
    version: str
    mission: str = ""
    tools: list[str] = Field(default_factory=list)
    tier: Tier = "assisted"
    planning: Planning = "auto"
    schedule: Schedule = "levels"
    gate: GateMode = "consequential"
    gate_ttl_seconds: int | None = None
    gated_tools: list[str] = Field(default_factory=list)
    budget: dict[str, int] = Field(
        default_factory=lambda: {
            "steps": STEPS_DEFAULT,
            "tool_calls": TOOL_CALLS_DEFAULT,
            "wall_seconds": WALL_SECONDS_DEFAULT,
        }
    )
