"""What the events of one run say of it: whether they follow from each other, whether its steps kept to their plan, and
whether an effect happened twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..machine.phases import END_PHASES, Phase
from .phase_moves import follows
from .story import Told

Facts = Mapping[str, Any]

# What may still come in when a run has ended.
AFTER_THE_END = frozenset(("step.late_result",))


@dataclass(slots=True)
class _State:
    """What the events so far say: the phase, what is under way, what is reserved."""

    phase: str = ""
    last: str = ""  # the kind of the event before
    seq: int = -1
    epoch: int = -1
    reserved: int = 0
    started: int = 0
    stalled: bool = False
    under_way: dict[str, tuple[int, int]] = field(default_factory=dict)  # step -> attempt, wave


def is_consistent(record: Sequence[Told]) -> bool:
    """Whether every event follows: one beginning, one end, phases that fit, outcomes of what was started and reserved."""
    state = _State()
    for index, told in enumerate(record):
        kind, facts = told.event.kind, told.event.facts
        if (index == 0) != (kind == "run.submitted") or told.seq <= state.seq:
            return False
        state.seq = told.seq
        if not _phase_fits(state, kind, facts) or not _RULES.get(kind, _always)(state, facts):
            return False
    return bool(record)


def _phase_fits(state: _State, kind: str, facts: Facts) -> bool:
    after = str(facts.get("phase", ""))
    before, state.phase = state.phase, after
    last, state.last = state.last, kind
    if before in END_PHASES:
        return kind in AFTER_THE_END and after == before
    if last == "direct.answered" and kind == "run.ended" and facts["end"] == Phase.COMPLETED:
        return (
            after == Phase.COMPLETED
        )  # the answer that nobody checks, and nothing else, needs no verification
    return follows(kind, before, after) and (kind != "run.ended" or after == facts["end"])


def _always(state: _State, facts: Facts) -> bool:
    return True


def _reserved(state: _State, facts: Facts) -> bool:
    state.reserved += facts["amounts"].get("steps", 0)
    return True


def _started(state: _State, facts: Facts) -> bool:
    """Reserved before, and not under way already."""
    state.started += 1
    again = facts["step_id"] in state.under_way
    state.under_way[facts["step_id"]] = (facts["attempt"], facts["wave"])
    return state.started <= state.reserved and not again


def _returned(state: _State, facts: Facts) -> bool:
    """An outcome is of exactly the call that is under way; one that could not be made has no wave, and what a probe
    found to have happened was under way before."""
    if "wave" not in facts or facts.get("probed"):
        return facts["step_id"] not in state.under_way
    return state.under_way.pop(facts["step_id"], None) == (facts["attempt"], facts["wave"])


def _unknown(state: _State, facts: Facts) -> bool:
    state.under_way.pop(facts["step_id"], None)
    return True


def _resumed(state: _State, facts: Facts) -> bool:
    """A higher epoch each time, save where nothing could go on under the last one; what was under way is not any more."""
    follows_on = facts["epoch"] > state.epoch or (state.stalled and facts["epoch"] == state.epoch)
    state.epoch, state.stalled = facts["epoch"], False
    state.under_way.clear()
    return bool(follows_on)


def _stalled(state: _State, facts: Facts) -> bool:
    state.stalled = True
    return True


def _given_up(state: _State, facts: Facts) -> bool:
    """Another objective: nobody waits for what is under way."""
    state.under_way.clear()
    return True


_RULES: Mapping[str, Callable[[_State, Facts], bool]] = {
    "budget.reserved": _reserved,
    "step.started": _started,
    "step.succeeded": _returned,
    "step.failed": _returned,
    "step.outcome_unknown": _unknown,
    "run.resumed": _resumed,
    "run.stalled": _stalled,
    "objective.amended": _given_up,
}


def keeps_to_plan(record: Sequence[Told]) -> tuple[int, int]:
    """(starts that the plan in force allowed, starts): a plan is there and not given up, no gate is open, the plan has
    that many steps, and the step has no result yet."""
    kept = starts = 0
    room = whole = 0
    phase = ""
    begun: set[str] = set()
    done: set[str] = set()
    for told in record:
        kind, facts = told.event.kind, told.event.facts
        if kind in ("plan.drafted", "plan.edited"):
            room = whole = facts["steps"]
            begun, done = set(), set()
        elif kind == "plan.extended":
            room = whole = whole + 1
        elif kind == "replan.triggered":
            room = 0
        elif kind == "replan.refused" and facts.get("keep"):
            room = whole  # the plan before still holds
        elif kind in ("step.succeeded", "step.reused"):
            done.add(facts["step_id"])
        elif kind == "step.started":
            starts += 1
            begun.add(facts["step_id"])
            waits = phase in (Phase.WAITING_APPROVAL, Phase.WAITING_INPUT)
            kept += not waits and len(begun | done) <= room and facts["step_id"] not in done
        phase = str(facts.get("phase", phase))
    return kept, starts


def duplicated_effects(record: Sequence[Told]) -> list[str]:
    """Keys of calls whose effect is recorded more often than a plan asked for it: succeeded on a write host, stated by
    a person to have happened, or come back late after a person, or a probe, said that it had not.

    Two steps of one plan that make the same call are two effects that somebody approved.
    """
    version = 0
    happened: dict[str, list[tuple[int, str]]] = {}
    unknown: dict[str, str] = {}
    denied: dict[str, str] = {}
    for told in record:
        kind, facts = told.event.kind, told.event.facts
        step, key = facts.get("step_id") or "", ""
        if kind in ("plan.drafted", "plan.edited"):
            version += 1
        elif kind == "step.succeeded" and facts["host"] == "write":
            key = facts["key"]
        elif kind == "step.outcome_unknown":
            unknown[step] = facts["key"]
        elif kind == "step.outcome_stated":
            said = unknown.get(step, "")
            key, denied[step] = (said, "") if facts["said"] == "happened" else ("", said)
        elif kind == "step.probed" and facts["outcome"] == "did_not_happen":
            denied[step] = unknown.get(step, "")
        elif kind == "step.late_result" and facts["outcome"] == "ok":
            key = denied.get(step, "")
        if key:
            happened.setdefault(key, []).append((version, step))
    return sorted(key for key, calls in happened.items() if not _is_one_plan(calls))


def _is_one_plan(calls: Sequence[tuple[int, str]]) -> bool:
    """Whether these calls are different steps of one plan."""
    return len({version for version, _ in calls}) == 1 and len(set(calls)) == len(calls)
