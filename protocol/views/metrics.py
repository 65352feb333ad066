"""The seven metrics, counted over recorded events: each is a numerator over a denominator (``docs/metrics.md``).

Only kinds, order and facts of events are looked at, never an artifact: the numbers stay the same when texts and outputs
have been erased. Every run is counted by itself and added up, so a journal of any length is counted run after run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..machine.phases import Phase
from .metrics_record import duplicated_effects, is_consistent, keeps_to_plan
from .story import Told

Count = tuple[int, int]  # numerator, denominator
Record = Sequence[Told]
NAMED_MAX = 5  # runs that are named for each metric that they lower

_DECISIONS = frozenset(("plan.approved", "step.approved", "plan.rejected", "plan.edited", "input.given"))
_OTHER_WAYS = frozenset(
    ("gate.guided", "run.amended")
)  # codes of the replans by which a person settles what is open
_NEW_MATTER = frozenset(("plan.drafted", "plan.edited", "objective.amended"))
_WAITING = frozenset((Phase.WAITING_APPROVAL, Phase.WAITING_INPUT))


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric: its name, what its two numbers count, and the count over the record of one run."""

    name: str
    numerator: str
    denominator: str
    count: Callable[[Record], Count]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric over several runs; ``lowered_by`` are the newest runs (at most five) that are not wholly in the numerator."""

    name: str
    numerator: int
    denominator: int
    counts: tuple[str, str]
    lowered_by: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        """Between 0 and 1; ``None`` where there is nothing to count."""
        return self.numerator / self.denominator if self.denominator else None


@dataclass(slots=True)
class Tally:
    """Adds runs up, the newest first. ``phases`` counts where the runs are."""

    runs: int = 0
    phases: dict[str, int] = field(default_factory=dict)
    counts: dict[str, Count] = field(default_factory=dict)
    lowered: dict[str, list[str]] = field(default_factory=dict)

    def add(self, run_id: str, record: Record) -> None:
        """One run with all of its events in their order. A run without events adds nothing."""
        if not record:
            return
        self.runs += 1
        phase = _phase(record[-1])
        self.phases[phase] = self.phases.get(phase, 0) + 1
        for one in DEFINITIONS:
            numerator, denominator = one.count(record)
            before = self.counts.get(one.name, (0, 0))
            self.counts[one.name] = (before[0] + numerator, before[1] + denominator)
            named = self.lowered.setdefault(one.name, [])
            if numerator < denominator and len(named) < NAMED_MAX:
                named.append(run_id)

    def metrics(self) -> list[Metric]:
        """Every metric in the order of the definitions."""
        found = []
        for one in DEFINITIONS:
            numerator, denominator = self.counts.get(one.name, (0, 0))
            lowered = tuple(self.lowered.get(one.name, ()))
            found.append(Metric(one.name, numerator, denominator, (one.numerator, one.denominator), lowered))
        return found


def tally(runs: Iterable[tuple[str, Record]]) -> Tally:
    """The metrics of runs, given as (id, record)."""
    total = Tally()
    for run_id, record in runs:
        total.add(run_id, record)
    return total


def end_to_end_success(record: Record) -> Count:
    """Ended runs with a plan: one that COMPLETED with a passing verdict counts."""
    end = _last(record, "run.ended")
    if end is None or _is_direct(record) or _has(record, "step.shadowed"):
        return 0, 0
    verdict = _last(record, "verdict.reached")
    passed = verdict is not None and verdict.event.facts["outcome"] == "pass"
    return int(passed and end.event.facts["end"] == Phase.COMPLETED), 1


def effective_step_rate(record: Record) -> Count:
    """Attempts that ran: one whose result the last plan of the run rests on counts."""
    version, ran = 0, 0
    succeeded: list[tuple[int, str, str]] = []
    reused: set[tuple[int, str]] = set()
    failed: set[tuple[int, str]] = set()
    for told in record:
        kind, facts = told.event.kind, told.event.facts
        if kind in ("plan.drafted", "plan.edited"):
            version += 1
        elif kind == "step.started":
            ran += 1
        elif kind == "step.failed" and facts.get("not_started") and "wave" in facts:
            ran -= 1  # its host never took it
        elif kind == "step.succeeded":
            succeeded.append((version, facts["step_id"], facts["key"]))
        elif kind == "step.reused":
            reused.add((version, facts["key"]))
        elif kind == "step.checked" and facts["outcome"] == "fail":
            failed.add((version, facts["step_id"]))
    effective = [
        step
        for made, step, key in succeeded
        if (made == version and (made, step) not in failed) or (made != version and (version, key) in reused)
    ]
    return len(effective), ran


def recovery_success(record: Record) -> Count:
    """Runs that an interruption found at work and that stopped since: one that reached its goal, or a person, with no
    effect twice counts."""
    if not any(told.event.kind == "run.resumed" and _works(told) for told in record):
        return 0, 0
    phase = _phase(record[-1])
    if not Phase(phase).ended and phase not in _WAITING or _has(record, "run.cancelled"):
        return 0, 0
    recovered = phase in (Phase.COMPLETED, Phase.PARTIAL, *_WAITING)
    return int(recovered and not duplicated_effects(record)), 1


def escalation_quality(record: Record) -> Count:
    """Gates and questions that are over: one that a person decided, and that was not asked again, counts."""
    good = over = 0
    open_matter: tuple[str, ...] | None = None
    decided: list[tuple[str, ...]] = []
    for told in record:
        kind, facts = told.event.kind, told.event.facts
        if kind in ("gate.asked", "input.asked"):
            open_matter = _matter(facts, kind)
            if open_matter in decided:  # the word of the first time did not help
                good -= 1
                decided.remove(open_matter)
        elif open_matter is not None and kind in _DECISIONS:
            over += 1
            if facts.get("said") != "give up":
                good += 1
                decided.append(open_matter)
            open_matter = None
        elif open_matter is not None and kind == "replan.triggered":
            settled = (
                facts["code"] in _OTHER_WAYS
            )  # else something changed, and nobody needs to decide any more
            good, over, open_matter = good + settled, over + settled, None
        elif open_matter is not None and kind == "run.ended":
            over += 1
            open_matter = None
        if kind in _NEW_MATTER:
            decided.clear()  # what is asked about another plan is not the same again
    return good, over


def budget_adherence(record: Record) -> Count:
    """Ended runs: one that no budget stopped counts."""
    if not _has(record, "run.ended"):
        return 0, 0
    return int(not _has(record, "budget.exhausted")), 1


def state_consistency(record: Record) -> Count:
    """Runs: one whose events follow from each other counts."""
    return int(is_consistent(record)), 1


def plan_adherence(record: Record) -> Count:
    """Starts of steps: one that the plan in force allowed counts."""
    return (0, 0) if _is_direct(record) else keeps_to_plan(record)


DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "end_to_end_success",
        "ended COMPLETED with a passing verdict",
        "runs with a plan that ended",
        end_to_end_success,
    ),
    Definition(
        "effective_step_rate",
        "attempts whose result the last plan rests on",
        "attempts of steps that ran",
        effective_step_rate,
    ),
    Definition(
        "recovery_success",
        "came to an end or to a person, no effect twice",
        "runs interrupted at work that stopped since",
        recovery_success,
    ),
    Definition(
        "escalation_quality",
        "decided by a person, and not asked again",
        "gates and questions that are over",
        escalation_quality,
    ),
    Definition(
        "budget_adherence",
        "ended with no budget spent to its end",
        "runs that ended",
        budget_adherence,
    ),
    Definition(
        "state_consistency",
        "every event follows from those before it",
        "runs",
        state_consistency,
    ),
    Definition(
        "plan_adherence",
        "starts that the plan in force allowed",
        "starts of steps",
        plan_adherence,
    ),
)


def _phase(told: Told) -> str:
    return str(told.event.facts.get("phase", Phase.PLANNING))


def _works(told: Told) -> bool:
    """Whether a run was at work, and not waiting, when a new harness took it over."""
    return _phase(told) not in _WAITING


def _matter(facts: Mapping[str, object], kind: str) -> tuple[str, ...]:
    """What a gate or question is about; the same matter twice is the same escalation."""
    if kind == "gate.asked":
        return "gate", str(facts["gate_kind"]), str(facts.get("step_id") or "")
    return "question", str(facts["about"]), str(facts["parameter"])


def _is_direct(record: Record) -> bool:
    chosen = _last(record, "route.chosen")
    return chosen is not None and chosen.event.facts["route"] == "direct"


def _has(record: Record, kind: str) -> bool:
    return any(told.event.kind == kind for told in record)


def _last(record: Record, kind: str) -> Told | None:
    return next((told for told in reversed(record) if told.event.kind == kind), None)
