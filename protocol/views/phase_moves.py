"""Which kind of event takes a run from which phase to which, as data: for the diagram, and to look over a record.

The machine does not ask this table, it follows from ``machine/applied`` and the handlers; a test compares both over
stories by chance. A kind that does not stand here leaves the phase as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..machine.phases import END_PHASES, WAITING_PHASES, Phase

BEGIN = ""  # before the first event

_OPEN = tuple(phase for phase in Phase if phase not in END_PHASES)
_WORKING = (Phase.READY, Phase.RUNNING, Phase.VERIFYING)


def _to(after: Iterable[Phase], *before: str) -> dict[str, frozenset[str]]:
    """Every one of ``before`` leads to any of ``after``."""
    return {phase: frozenset(after) for phase in before}


MOVES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "run.submitted": _to([Phase.PLANNING], BEGIN),
    "plan.drafted": _to([Phase.READY], Phase.PLANNING, Phase.REPLAN_REQUIRED),
    "plan.extended": _to([Phase.READY], Phase.PLANNING, Phase.READY, Phase.RUNNING),
    "plan.edited": _to([Phase.READY], Phase.WAITING_APPROVAL),
    "gate.asked": _to([Phase.WAITING_APPROVAL], Phase.READY, Phase.RUNNING, Phase.WAITING_APPROVAL),
    "plan.approved": _to([Phase.READY], Phase.WAITING_APPROVAL),
    "step.approved": _to([Phase.RUNNING], Phase.WAITING_APPROVAL),
    # A direct run goes on without the call.
    "plan.rejected": _to([Phase.REPLAN_REQUIRED, Phase.RUNNING], Phase.WAITING_APPROVAL),
    "input.asked": _to(
        [Phase.WAITING_INPUT], Phase.PLANNING, Phase.REPLAN_REQUIRED, Phase.READY, Phase.RUNNING
    ),
    "input.given": _to([Phase.PLANNING, Phase.RUNNING], Phase.WAITING_INPUT),
    "step.started": _to([Phase.RUNNING], Phase.READY, Phase.RUNNING),
    "step.shadowed": _to([Phase.RUNNING], Phase.READY, Phase.RUNNING),
    "verification.started": _to([Phase.VERIFYING], Phase.READY, Phase.RUNNING),
    "replan.triggered": {
        **_to([Phase.PLANNING], *_OPEN),  # another objective
        **_to(
            [Phase.PLANNING, Phase.REPLAN_REQUIRED], *_WORKING, Phase.REPLAN_REQUIRED, Phase.WAITING_APPROVAL
        ),
    },
    "replan.refused": {
        **{phase: frozenset([phase]) for phase in _OPEN},
        **_to([Phase.REPLAN_REQUIRED, Phase.RUNNING], Phase.REPLAN_REQUIRED),  # the plan before still holds
    },
    "run.ended": {
        **_to([Phase.FAILED, Phase.CANCELLED], *_OPEN),
        **_to([Phase.FAILED, Phase.CANCELLED, Phase.PARTIAL], *_WORKING, Phase.REPLAN_REQUIRED),
        **_to([Phase.FAILED, Phase.CANCELLED, Phase.PARTIAL], *WAITING_PHASES),
        Phase.VERIFYING: END_PHASES,
    },
}


def follows(kind: str, before: str, after: str) -> bool:
    """Whether an event of that kind may take a run from one phase to the other (or leave it there)."""
    if kind not in MOVES:
        return before == after and before not in END_PHASES
    return after in MOVES[kind].get(before, frozenset())
