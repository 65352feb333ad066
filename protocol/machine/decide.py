"""``decide(run, stimulus) -> Decision``: judges what came in and says what happened and what to do.

Pure: no clock, no randomness, no process. The harness journals the events of a decision before it performs a single
order. Recovery never decides again; it replays ``evolve`` and asks ``pending``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..plan.cache_key import cache_key
from ..wire.errors import AuthorityError, DulyError, RunError
from ..wire.limits import BUDGET_WARNING_PERCENT, WAKE_WAIT_MS_MIN
from . import invariants
from .advance import Moment, advance
from .effects import CancelCalls, Order, StorePlan, Wake
from .events import Event, event
from .evolve import evolve
from .handlers import changes, course, modelling, outcomes, person, planning, probing, verification
from .pending import pending
from .phases import Phase
from .run import Run
from .stimuli import Stimulus, Submitted
from .table import HANDLED, TABLE

HANDLERS: Mapping[str, Callable[[Run, Any], list[Event]]] = {
    "bound": planning.bound,
    "cache_replied": planning.cache_replied,
    "drafted": planning.drafted,
    "approved": person.approved,
    "authority_refused": person.authority_refused,
    "rejected": person.rejected,
    "edited": changes.edited,
    "guided": changes.guided,
    "amended": changes.amended,
    "answered": person.answered,
    "cancel_asked": person.cancel_asked,
    "steps_returned": outcomes.steps_returned,
    "arguments_filled": modelling.arguments_filled,
    "turn_answered": modelling.turn_answered,
    "probed": probing.probed,
    "policy_judged": probing.policy_judged,
    "checks_returned": verification.checks_returned,
    "reads_wanted": verification.reads_wanted,
    "judged": verification.judged,
    "verifier_lost": verification.verifier_lost,
    "resumed": course.resumed,
    "time_passed": course.time_passed,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """Events to journal, the run after them, orders to perform then, and the error to answer a refused stimulus with.

    A refusal that concerns authority has its event too.
    """

    run: Run | None
    events: Sequence[Event] = field(default_factory=list)
    orders: Sequence[Order] = field(default_factory=list)
    refusal: DulyError | None = None


Seal = Callable[[bytes], str]


def decide(run: Run | None, stimulus: Stimulus, seal: Seal) -> Decision:
    """The decision on a stimulus. ``seal`` gives the salted digest under which bytes of this run are kept.

    Raises nothing but ``BrokenInvariant``.
    """
    if run is None:
        if not isinstance(stimulus, Submitted):
            return Decision(None, refusal=RunError("run.unknown", "There is no such run."))
        return _submit(stimulus, seal)
    verb = TABLE[run.phase, stimulus.kind]
    if verb != HANDLED:
        return Decision(run, refusal=_refusal(run, verb))
    orders = pending(run)
    # Results of calls are told apart one by one and recorded even when they are late; any other answer has to be awaited.
    awaited = stimulus.kind == "steps_returned" or any(order.key == stimulus.order for order in orders)
    if stimulus.order and not awaited:
        return Decision(run, refusal=_refusal(run, "run.not_waiting_for_that"))
    try:
        events = HANDLERS[stimulus.kind](run, stimulus)
    except AuthorityError as error:
        return _conclude(run, [person.refusal(error.code)], stimulus, seal, orders, refusal=error)
    except DulyError as error:
        return Decision(run, refusal=error)
    refused = getattr(stimulus, "error", None) if stimulus.kind == "authority_refused" else None
    return _conclude(run, events, stimulus, seal, orders, refusal=refused)


def _submit(stimulus: Submitted, seal: Seal) -> Decision:
    try:
        first = [planning.submitted(stimulus), *planning.imported(stimulus)]
    except DulyError as error:
        return Decision(None, refusal=error)
    run, events = _apply(None, first, seal)
    plan = stimulus.plan
    more = [] if plan is None else planning.bring_plan(run, plan, stimulus.fingerprints)
    after, rest = _go_on(run, more, Moment(stimulus.now_ms, stimulus.fresh), seal)
    return Decision(after, [*events, *rest], pending(after))


def _conclude(
    run: Run,
    events: list[Event],
    stimulus: Stimulus,
    seal: Seal,
    known: Iterable[Order],
    refusal: DulyError | None = None,
) -> Decision:
    """Applies the events, lets the run go on by itself, and finds the orders that are new."""
    active = not run.phase.waits and not run.phase.ended and not run.stalled
    elapsed_ms = stimulus.elapsed_ms if active else 0
    after, done = _go_on(run, events, Moment(stimulus.now_ms, stimulus.fresh), seal, elapsed_ms)
    before = set() if stimulus.kind == "resumed" else {order.key for order in known}
    orders = [order for order in pending(after) if order.key not in before]
    if stimulus.kind == "time_passed":
        orders += _set_again(after, stimulus, before)
    return Decision(after, done, [*_closing(run, after, stimulus.kind), *orders], refusal)


def _go_on(
    run: Run, events: Sequence[Event], moment: Moment, seal: Seal, elapsed_ms: int = 0
) -> tuple[Run, list[Event]]:
    """Applies events and whatever follows from them. The first event of a decision carries the active time before it."""
    done: list[Event] = []
    batch = list(events) or advance(run, moment)
    while batch:
        if elapsed_ms and not done:
            batch[0] = replace(batch[0], facts={**batch[0].facts, "elapsed_ms": elapsed_ms})
        run, applied = _apply(run, batch, seal)
        done += applied
        batch = advance(run, moment)
    for name in run.budget.to_warn() if not run.phase.ended else ():
        warned = event("budget.warned", name=name, percent=BUDGET_WARNING_PERCENT)
        run, applied = _apply(run, [warned], seal)
        done += applied
    invariants.check_settled(run)
    return run, done


def _apply(run: Run | None, events: Sequence[Event], seal: Seal) -> tuple[Run, list[Event]]:
    done = []
    for one in events:
        if one.attached:
            one = replace(one, artifacts={name: seal(data) for name, data in one.attached.items()})
        run = evolve(run, one)
        invariants.check(run)
        done.append(replace(one, facts={**one.facts, "phase": str(run.phase)}))
    assert run is not None
    return run, done


def _set_again(after: Run, stimulus: Stimulus, before: set[tuple[str, ...]]) -> list[Order]:
    """Timers that fired too early, since wall clocks move: the machine still waits, so they are set once more."""
    found: list[Order] = []
    for order in pending(after):
        if not isinstance(order, Wake) or order.key not in before:
            continue
        if order.key[0] == "wall":
            left = after.budget.wall_ms_left or 0
            at_ms = stimulus.now_ms + max(WAKE_WAIT_MS_MIN, left - stimulus.elapsed_ms)
            found.append(replace(order, at_ms=at_ms))
        elif order.at_ms > stimulus.now_ms:
            found.append(order)
    return found


# With these a run leaves the work of a model unfinished.
_GIVING_UP = frozenset(("cancel_asked", "time_passed", "amended"))


def _closing(before: Run, after: Run, kind: str) -> list[Order]:
    """Orders of an end, or of another objective: kill what still runs; keep the plan of a run that passed."""
    orders: list[Order] = []
    given_up = after.amended > before.amended or (after.phase.ended and not before.phase.ended)
    thinks = kind in _GIVING_UP and (before.thinking or before.verification == "judge")
    if given_up and (before.outstanding or thinks):
        orders.append(CancelCalls(("cancel", after.run_id, str(after.amended))))
    if before.phase.ended or not after.phase.ended:
        return orders
    if after.phase is Phase.COMPLETED and after.route == "orchestrated" and after.plan and after.binding:
        key = cache_key(after.agent, after.request)
        if after.plan.origin in ("playbook", "model") and after.mandate.plan is None:
            orders.append(StorePlan(("store", key), key, after.plan, after.binding))
    return orders


_SENTENCES: Mapping[str, str] = {
    "gate.already_decided": "Run {run} is {phase} and waits for no approval.",
    "run.ended": "Run {run} has ended: {phase}.",
    "run.not_editable": "Run {run} is {phase}; a plan is edited while it waits for its approval.",
    "run.not_asked": "Run {run} is {phase} and waits for no answer.",
    "run.exists": "There is a run {run} already.",
    "run.not_waiting_for_that": "Run {run} is {phase} and does not wait for that.",
}


def _refusal(run: Run, code: str) -> DulyError:
    family = AuthorityError if code.startswith("gate.") else RunError
    return family(code, _SENTENCES[code].format(run=run.run_id, phase=run.phase))
