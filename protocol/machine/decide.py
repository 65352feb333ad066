"""``decide(run, stimulus) -> Decision``: judges what came in and says what happened and what to do.

Pure: no clock, no randomness, no process. The harness journals the events of a decision before it performs a single
order. Recovery never decides again; it replays ``evolve`` and asks ``pending``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..plan.cache_key import cache_key
from ..wire.errors import AuthorityError, DulyError, RunError
from . import invariants
from .advance import Moment, advance
from .effects import CancelCalls, Order, StorePlan
from .events import Event, event
from .evolve import evolve
from .handlers import outcomes, person, planning
from .pending import pending
from .phases import Phase
from .run import Run
from .stimuli import Stimulus, Submitted
from .table import HANDLED, TABLE

_HANDLERS: dict[str, Callable[[Run, Any], list[Event]]] = {
    "bound": planning.bound,
    "cache_replied": planning.cache_replied,
    "drafted": planning.drafted,
    "approved": person.approved,
    "authority_refused": person.authority_refused,
    "rejected": person.rejected,
    "answered": person.answered,
    "cancel_asked": person.cancel_asked,
    "steps_returned": outcomes.steps_returned,
    "checks_returned": outcomes.checks_returned,
    "reads_wanted": outcomes.reads_wanted,
    "judged": outcomes.judged,
    "verifier_lost": outcomes.verifier_lost,
    "resumed": outcomes.resumed,
    "time_passed": outcomes.time_passed,
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
    try:
        events = _HANDLERS[stimulus.kind](run, stimulus)
    except AuthorityError as error:
        return _conclude(run, [person.refusal(error.code)], stimulus, seal, refusal=error)
    except DulyError as error:
        return Decision(run, refusal=error)
    refused = getattr(stimulus, "error", None) if stimulus.kind == "authority_refused" else None
    return _conclude(run, events, stimulus, seal, refusal=refused)


def _submit(stimulus: Submitted, seal: Seal) -> Decision:
    run, first = _apply(None, planning.submitted(None, stimulus), seal)
    more = planning.bring_plan(run, stimulus.plan) if stimulus.plan is not None else []
    decision = _conclude(run, more, stimulus, seal)
    assert decision.run is not None
    return Decision(decision.run, [*first, *decision.events], pending(decision.run))


def _conclude(
    run: Run, events: list[Event], stimulus: Stimulus, seal: Seal, refusal: DulyError | None = None
) -> Decision:
    """Applies the events, lets the run go on by itself, and finds the orders that are new."""
    moment = Moment(stimulus.now_ms, stimulus.fresh)
    before = {order.key for order in pending(run)} if stimulus.kind != "resumed" else set()
    events = list(events)
    active = not run.phase.waits and not run.phase.ended
    if events and stimulus.elapsed_ms and active and events[0].kind != "run.submitted":
        events[0] = replace(events[0], facts={**events[0].facts, "elapsed_ms": stimulus.elapsed_ms})
    after, done = _apply(run, events, seal)
    while more := advance(after, moment):
        after, applied = _apply(after, more, seal)
        done += applied
    for name in after.budget.to_warn() if not after.phase.ended else ():
        after, applied = _apply(after, [event("budget.warned", name=name, percent=80)], seal)
        done += applied
    orders = [order for order in pending(after) if order.key not in before]
    return Decision(after, done, [*orders, *_closing(run, after)], refusal)


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


def _closing(before: Run, after: Run) -> list[Order]:
    """Orders of an end: kill what still runs, keep the plan of a run that passed."""
    if before.phase.ended or not after.phase.ended:
        return []
    orders: list[Order] = []
    if before.outstanding:
        orders.append(CancelCalls(("cancel", after.run_id)))
    if (
        after.phase is Phase.COMPLETED
        and after.route == "orchestrated"
        and after.plan is not None
        and after.binding
    ):
        key = cache_key(after.agent, after.request)
        if after.plan.origin in ("playbook", "model"):
            orders.append(StorePlan(("store", key), key, after.plan, after.binding))
    return orders


def _refusal(run: Run, code: str) -> DulyError:
    if code == "gate.already_decided":
        return AuthorityError(code, f"Run {run.run_id} is {run.phase} and waits for no approval.")
    if code == "run.ended":
        return RunError(code, f"Run {run.run_id} has ended: {run.phase}.")
    if code == "run.not_asked":
        return RunError(code, f"Run {run.run_id} is {run.phase} and waits for no answer.")
    if code == "run.exists":
        return RunError(code, f"There is a run {run.run_id} already.")
    return RunError(code, f"Run {run.run_id} is {run.phase} and does not wait for that.")
