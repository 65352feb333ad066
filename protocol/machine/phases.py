"""The phases of a run."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a run is. The last four are ends; the two before them wait for a person and cost nothing."""

    PLANNING = "PLANNING"
    READY = "READY"
    RUNNING = "RUNNING"
    VERIFYING = "VERIFYING"
    REPLAN_REQUIRED = "REPLAN_REQUIRED"
    WAITING_INPUT = "WAITING_INPUT"
    WAITING_APPROVAL = "WAITING_APPROVAL"
    COMPLETED = "COMPLETED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self in END_PHASES

    @property
    def waits(self) -> bool:
        return self in WAITING_PHASES


END_PHASES = frozenset((Phase.COMPLETED, Phase.PARTIAL, Phase.FAILED, Phase.CANCELLED))
WAITING_PHASES = frozenset((Phase.WAITING_INPUT, Phase.WAITING_APPROVAL))
