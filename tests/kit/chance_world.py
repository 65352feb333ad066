"""A seeded world around the pure machine: plans, tools, people, crashes, late and repeated messages, all by chance.

One seed gives one story. Calls have their effect when they are performed; word of it arrives later, in any order, twice,
or never. A crash loses whatever is under way and everything that was not journaled.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import chance_people
from chance_answers import ChanceAnswers
from chance_models import ChanceModel
from chance_plans import DESCRIPTORS as DESCRIPTORS
from chance_plans import Sink, call_of, random_plan
from driver import Crashed, Driver
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.calls import literal_key
from duly.protocol.machine.pending import pending
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import KeptResult, Stimulus
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.policy import Policy, PolicyGate
from duly.protocol.plan.scope import Scope
from duly.protocol.wire import canon
from duly.protocol.wire.errors import RuntimeFault

WIDE = Scope(
    sources=["a", "b"], resources=sorted({one.resource for one in DESCRIPTORS.values() if one.resource})
)
POLICIES = [
    *[Policy()] * 6,
    Policy(gates=[PolicyGate(tool="t.keyed", when="arguments.key != ''"), PolicyGate(tool="t.mail")]),
    Policy(gates=[PolicyGate(tool="t.read0", when="true")]),
    Policy(approvers=["ada"]),
]


class World(Driver):
    """A driver whose messages arrive late, twice or in another order, and whose process dies now and then."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.sink = Sink()
        model = ChanceModel(seed)
        self.under_way: list[tuple[int, int, Stimulus]] = []
        self.sent = 0
        self.crashes = chance.choice([0, 0, 1, 2, 4])
        brought = random_plan(chance, None) if chance.random() < 0.3 else None
        super().__init__(
            ChanceAnswers(chance, self.sink, model),
            DESCRIPTORS,
            plan=brought,
            seed=seed,
            settings={**_settings(chance), **({"planning": "never", "scope": WIDE} if model.talks else {})},
            submitted={
                "has_model": model.there,
                "has_critic": chance.random() < 0.5,
                "policy": chance.choice(POLICIES),
                **self._earlier(brought),
            },
        )

    def _earlier(self, brought: Plan | None) -> dict[str, Any]:
        """Now and then an earlier run has done something of a plan that a person brings."""
        if brought is None or self.chance.random() < 0.8:
            return {}
        kept = []
        for one in brought.steps:
            arguments = one.tool_contract.arguments or {}
            if not literal_key(one) or self.chance.random() < 0.5:
                continue
            mark = {"source": "1"} if self.chance.random() < 0.8 else {}
            if not DESCRIPTORS[one.tool or ""].reads_only:
                self.sink.act(one.tool or "", call_of(arguments["key"], arguments), "")
            output = canon.encode({"key": arguments["key"]})
            kept.append(
                KeptResult(key=literal_key(one), output=output, receipt=b"receipt", fingerprints=mark)
            )
        return {"from_run": "r0", "kept": kept, "fingerprints": {"source": "1"}}

    def live(self) -> Run:
        """The whole life of the run: people decide whenever it waits for them, and somebody starts what stalled again."""
        run = self.submit()
        for _ in range(200):
            if run.phase.ended:
                return run
            if run.stalled or self.chance.random() < 0.02:  # somebody starts the runtime again
                self.resume()
                run = self.go_on()
            else:
                run = chance_people.decide(self, run)
        raise AssertionError(f"no end:\n{self.story()}")

    # messages

    def _one_order(self) -> bool:
        assert self.run is not None
        said = chance_people.unasked(self)
        if said is not None:
            self.give(said)
        if self.todo:
            index = self.chance.randrange(len(self.todo))
            order = self.todo[index]
            del self.todo[index]
            if not self._is_wanted(order):
                return True  # whoever it goes to answers what nobody waits for any more
            self.performed.append(order)
            for answer in self._answers(order):
                self._send(answer)
            return True
        if self.under_way:
            due, _, stimulus = heapq.heappop(self.under_way)
            self.clock.now_ms = max(self.clock.now_ms, due)
            self._tick(stimulus)
            return True
        return super()._one_order()

    def _is_wanted(self, order: effects.Order) -> bool:
        """Calls are performed however late they are; all else is asked of the state as it is now."""
        assert self.run is not None
        free = isinstance(order, effects.Dispatch | effects.Reason | effects.StorePlan | effects.CancelCalls)
        return free or any(one.key == order.key for one in pending(self.run))

    def _answers(self, order: effects.Order) -> Iterator[Stimulus]:
        if isinstance(order, effects.PrepareVerification | effects.Judge) and self.chance.random() < 0.03:
            error = RuntimeFault("runtime.actor_lost", "The verifier is gone.")
            yield stimuli.VerifierLost(**self.moment(), order=order.key, error=error)
            return
        self.answers.one_by_one = isinstance(order, effects.Dispatch) and (
            order.mode == "concurrent" or self.chance.random() < 0.2
        )
        for answer in self.answers.perform(self, order):
            if isinstance(answer, stimuli.Judged) and self.chance.random() < 0.1:
                answer = replace(answer, outcome="pass")  # a verifier whose word is better than its checks
            yield answer

    def _send(self, stimulus: Stimulus) -> None:
        copies = 2 if self.chance.random() < 0.1 else 1
        for _ in range(copies):
            self.sent += 1
            delay = self.chance.choice([1, 5, 20, 200])
            heapq.heappush(self.under_way, (self.clock.now_ms + delay, self.sent, stimulus))

    def _tick(self, stimulus: Stimulus) -> None:
        if self.crashes and self.chance.random() < 0.08:
            self.crashes -= 1
            size = len(self.record.leaves)
            if self.chance.random() < 0.5:
                self.crash_before = size + 1
            else:
                self.crash_after = size + 1
        self.give(replace(stimulus, now_ms=self.clock.now_ms))

    def resume(self) -> None:
        self.under_way.clear()
        self.resumed = self._found_changed()
        super().resume()

    def _found_changed(self) -> dict[str, Any]:
        """What the next start finds; mostly nothing."""
        word = self.chance.random()
        if word < 0.06:
            return {"changed": ["catalogue"], "digests": {"catalogue": str(self.sent)}}
        if word < 0.12:
            return {"changed": ["policy"], "digests": {"policy": f"policy-{self.sent}"}}
        if word < 0.15:
            return {"changed": [self.chance.choice(sorted(DESCRIPTORS))]}
        return {"stalled": "package.missing"} if word < 0.2 else {}

    def go_on(self) -> Run:
        """Messages that are still under way when the run stops arrive all the same."""
        run = super().go_on()
        while self.under_way and run.phase.ended:
            try:
                self._one_order()
            except Crashed:
                self.resume()
            run = self.checked()
        return run


def _settings(chance: random.Random) -> dict[str, Any]:
    """The fields of a mandate."""
    budget = {
        "steps": chance.choice([50, 50, 50, 12, 4]),
        "tool_calls": chance.choice([100, 100, 16, 6]),
        "wall_seconds": chance.choice([600, 600, 1]),
    }
    if chance.random() < 0.2:
        budget["rows_scanned"] = chance.choice([200, 12, 4])
    if chance.random() < 0.1:
        budget["model_tokens"] = chance.choice([1000, 5])
    return {
        "tier": chance.choice(["assisted", "supervised", "bounded_autonomous", "long_autonomous"]),
        "gate": chance.choice(["consequential", "always"]),
        "gated_tools": chance.choice([[], [], ["t.mail"], ["t.read0"]]),
        "gate_ttl_seconds": chance.choice([None, None, 3600]),
        "schedule": chance.choice(["levels", "overlap"]),
        "shadow": chance.random() < 0.08,
        "scope": Scope(sources=["a", "b"]),
        "budget": budget,
    }
