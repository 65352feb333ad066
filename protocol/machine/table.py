"""Which stimulus is handled in which phase, as data. Every pair stands here: handled by name, or refused by code."""

from __future__ import annotations

from .phases import END_PHASES, WAITING_PHASES, Phase
from .stimuli import STIMULI

_ACTIVE = frozenset(Phase) - END_PHASES - WAITING_PHASES

# stimulus -> (phases in which its handler of that name is called, code with which it is refused elsewhere)
_ROWS: dict[str, tuple[frozenset[Phase], str]] = {
    "submitted": (frozenset(), "run.exists"),
    "bound": (frozenset((Phase.PLANNING,)), "run.not_waiting_for_that"),
    "cache_replied": (frozenset((Phase.PLANNING,)), "run.not_waiting_for_that"),
    "drafted": (frozenset((Phase.PLANNING, Phase.REPLAN_REQUIRED)), "run.not_waiting_for_that"),
    "approved": (frozenset((Phase.WAITING_APPROVAL,)), "gate.already_decided"),
    "authority_refused": (frozenset((Phase.WAITING_APPROVAL,)), "gate.already_decided"),
    "rejected": (frozenset((Phase.WAITING_APPROVAL,)), "gate.already_decided"),
    "edited": (frozenset((Phase.WAITING_APPROVAL,)), "run.not_editable"),
    "guided": (_ACTIVE | WAITING_PHASES, "run.ended"),
    "amended": (_ACTIVE | WAITING_PHASES, "run.ended"),
    "answered": (frozenset((Phase.WAITING_INPUT,)), "run.not_asked"),
    "cancel_asked": (_ACTIVE | WAITING_PHASES, "run.ended"),
    "steps_returned": (frozenset(Phase), "run.not_waiting_for_that"),
    "arguments_filled": (frozenset((Phase.READY, Phase.RUNNING)), "run.not_waiting_for_that"),
    "turn_answered": (
        frozenset((Phase.PLANNING, Phase.READY, Phase.RUNNING)),
        "run.not_waiting_for_that",
    ),
    "probed": (frozenset((Phase.READY, Phase.RUNNING)), "run.not_waiting_for_that"),
    "policy_judged": (frozenset((Phase.READY, Phase.RUNNING)), "run.not_waiting_for_that"),
    "checks_returned": (frozenset((Phase.READY, Phase.RUNNING)), "run.not_waiting_for_that"),
    "reads_wanted": (frozenset((Phase.READY, Phase.RUNNING, Phase.VERIFYING)), "run.not_waiting_for_that"),
    "judged": (frozenset((Phase.VERIFYING,)), "run.not_waiting_for_that"),
    "verifier_lost": (frozenset((Phase.VERIFYING,)), "run.not_waiting_for_that"),
    "resumed": (_ACTIVE | WAITING_PHASES, "run.ended"),
    "time_passed": (frozenset(Phase), "run.ended"),
}

HANDLED = "handle"
TABLE: dict[tuple[Phase, str], str] = {
    (phase, stimulus.kind): HANDLED if phase in _ROWS[stimulus.kind][0] else _ROWS[stimulus.kind][1]
    for phase in Phase
    for stimulus in STIMULI
}
