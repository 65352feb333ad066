"""The harness's loop: mailbox → decide → journal the events → evolve → perform the orders, whose outcomes come back.

One round takes what is in the mailbox, decides in order, and journals all of it in one group. While a group is being
written the next one gathers, so many runs share one flush. A run's new state counts only once its events are durable:
when the journal refuses, the round is as if it had not been.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from duly.protocol.machine.decide import Decision, decide
from duly.protocol.machine.effects import Order
from duly.protocol.machine.invariants import BrokenInvariant
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import Stimulus
from duly.protocol.wire.errors import DulyError, RunError, RuntimeFault
from duly.protocol.wire.limits import ENDED_RUNS_KEPT, ENDED_STEPS_KEPT, MAILBOX_ROUND_MAX
from duly.storage.recovery import Recorded

from .clock import Clock
from .recorder import Batch, Recorder

log = logging.getLogger("duly")
DEFINITE_REFUSALS = frozenset(("storage.full", "log.leaf_too_large", "log.group_too_large"))
DISK_WAIT_SECONDS_MIN = 0.2
DISK_WAIT_SECONDS_MAX = 5.0
Perform = Callable[[Run, Order], None]
Publish = Callable[[str, list[Recorded], Run], None]


@dataclass(slots=True)
class Letter:
    """A stimulus on its way, and who waits for what came of it."""

    run_id: str
    stimulus: Stimulus
    answer: asyncio.Future[Run]
    person: bool = False


class HarnessCore:
    """Owns the state of every run that has not ended."""

    def __init__(
        self,
        *,
        recorder: Recorder,
        clock: Clock,
        perform: Perform,
        publish: Publish,
        give_up: Callable[[DulyError], None],
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._perform = perform
        self._publish = publish
        self._give_up = give_up
        self._waits = DISK_WAIT_SECONDS_MIN
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._mailbox: asyncio.Queue[Letter] = asyncio.Queue()
        self._active_since: dict[str, int] = {}
        self.runs: dict[str, Run] = {}
        self.epoch = 0
        self.failure: DulyError | None = None

    def post(
        self, run_id: str, make: Callable[[int, str], Stimulus], *, person: bool = False
    ) -> asyncio.Future[Run]:
        """Puts a stimulus into the mailbox. The future gives the run once its events are durable, or the refusal.

        ``make`` gets the wall time and 32 fresh hexadecimal digits. A ``person`` is told when the disk is full; what
        an actor brought waits until there is room.
        """
        answer: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        stimulus = make(self._clock.now_ms(), self._clock.fresh())
        self._mailbox.put_nowait(Letter(run_id, stimulus, answer, person))
        return answer

    async def work(self) -> None:
        """Takes rounds until it is cancelled."""
        while True:
            letters = [await self._mailbox.get()]
            while not self._mailbox.empty() and len(letters) < MAILBOX_ROUND_MAX:
                letters.append(self._mailbox.get_nowait())
            await self._round(letters)

    async def _round(self, letters: list[Letter]) -> None:
        states: dict[str, Run] = {}
        batches: list[Batch] = []
        decided: list[tuple[Letter, Decision]] = []
        for letter in letters:
            try:
                decision = self._decide(letter, states.get(letter.run_id, self.runs.get(letter.run_id)))
            except BrokenInvariant as broken:
                log.exception("run %s stopped", letter.run_id)
                _fail(letter, RuntimeFault("runtime.invariant", f"This is a fault of duly: {broken}."))
                continue
            decided.append((letter, decision))
            if decision.run is not None and decision.events:
                states[letter.run_id] = decision.run
                batches.append(
                    Batch(
                        letter.run_id,
                        self.epoch,
                        letter.stimulus.cause,
                        letter.stimulus.now_ms,
                        decision.events,
                    )
                )
        try:
            seqs = await self._recorder.record(batches)
        except DulyError as error:
            await self._refused(letters, error)
            return
        self.failure = None
        self._waits = DISK_WAIT_SECONDS_MIN
        self._commit(states, batches, seqs)
        for letter, decision in decided:
            self._conclude(letter, decision)

    async def _refused(self, letters: Iterable[Letter], error: DulyError) -> None:
        """The journal did not take the round: nobody's state changed, and nothing is performed.

        A full disk is a definite no: people are told, and what actors brought is decided again when there is room.
        Anything else leaves open whether the events are in the journal; only reading it can tell, so this harness ends
        and the next one recovers.
        """
        log.error("the journal refused a round: %s", error)
        self.failure = error
        if error.code not in DEFINITE_REFUSALS:
            for letter in letters:
                _fail(letter, error)
            self._give_up(error)
            return
        for letter in letters:
            if letter.person:
                _fail(letter, error)
            else:
                self._mailbox.put_nowait(letter)
        await asyncio.sleep(self._waits)
        self._waits = min(self._waits * 2, DISK_WAIT_SECONDS_MAX)

    def is_out_of_time(self, run: Run) -> bool:
        """Whether a run's wall-clock budget is spent, the time since its last event included."""
        limit = run.budget.limits.get("wall_seconds")
        since = self._active_since.get(run.run_id)
        if limit is None or since is None:
            return False
        return run.budget.spent.get("wall_ms", 0) + self._clock.mono_ms() - since >= limit * 1000

    def _decide(self, letter: Letter, run: Run | None) -> Decision:
        elapsed = 0
        since = self._active_since.get(letter.run_id)
        now = self._clock.mono_ms()
        if since is not None and run is not None and not run.phase.waits and not run.phase.ended:
            elapsed = now - since
        stimulus = replace(letter.stimulus, elapsed_ms=elapsed) if elapsed else letter.stimulus
        decision = decide(
            run, stimulus, self._recorder.seal(letter.run_id) if run or _begins(stimulus) else _no_seal
        )
        if decision.events:
            self._active_since[letter.run_id] = now
        return decision

    def _commit(self, states: dict[str, Run], batches: list[Batch], seqs: list[int]) -> None:
        self.runs.update(states)
        position = 0
        for batch in batches:
            numbers = seqs[position : position + len(batch.events)]
            position += len(batch.events)
            records = [
                Recorded(seq, batch.now_ms, batch.run_id, batch.epoch, batch.cause, event)
                for seq, event in zip(numbers, batch.events, strict=True)
            ]
            self._publish(batch.run_id, records, self.runs[batch.run_id])

    def _conclude(self, letter: Letter, decision: Decision) -> None:
        run = decision.run
        if decision.refusal is not None or run is None:
            _fail(letter, decision.refusal or RunError("run.unknown", f"There is no run {letter.run_id!r}."))
        elif not letter.answer.done():
            letter.answer.set_result(run)
        if run is None:
            return
        for order in decision.orders:
            self._perform(run, order)
        if run.phase.ended:
            self._active_since.pop(letter.run_id, None)
            self._retire(letter.run_id, len(run.steps))

    def _retire(self, run_id: str, steps: int) -> None:
        """Keeps the last ended runs, for late results and questions; the record has all of them."""
        self._ended[run_id] = steps
        while len(self._ended) > 1 and (
            len(self._ended) > ENDED_RUNS_KEPT or sum(self._ended.values()) > ENDED_STEPS_KEPT
        ):
            oldest, _ = self._ended.popitem(last=False)
            self.runs.pop(oldest, None)
            self._recorder.forget(oldest)


def _begins(stimulus: Stimulus) -> bool:
    return stimulus.kind == "submitted"


def _no_seal(data: bytes) -> str:
    raise RunError("run.unknown", "There is no such run.")


def _fail(letter: Letter, error: DulyError) -> None:
    if not letter.answer.done():
        letter.answer.set_exception(error)
        letter.answer.exception()  # whoever waits gets it; that nobody waits is no fault
