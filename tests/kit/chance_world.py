"""A seeded world around the pure machine: plans, tools, people, crashes, late and repeated messages, all by chance.

One seed gives one story. Calls have their effect when they are performed; word of it arrives later, in any order, twice,
or never. A crash loses whatever is under way and everything that was not journaled.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from answers import Answers, CallFailure
from driver import Crashed, Driver
from duly.protocol.judgement.checks import Check
from duly.protocol.machine import effects, gates, stimuli
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome, Stimulus
from duly.protocol.plan.plan import Clarify, Degrade, Destination, Escalate, Plan, Replan, Retry, Step
from duly.protocol.plan.request import Binding, Question
from duly.protocol.wire.errors import DulyError, PlanError, RuntimeFault
from plans import plan, ref, step, table, tool

READS = [tool(f"read{n}") for n in range(3)]
KEYED = tool("keyed", "write", idempotency="key")
NATURAL = tool("natural", "write", idempotency="natural")
UNSAFE = tool("unsafe", "write")
MAIL = tool("mail", "external")
FIND = tool("find")
WRITES = [KEYED, NATURAL, UNSAFE, MAIL]
DESCRIPTORS = table(*READS, *WRITES, FIND)


@dataclass
class Sink:
    """What really happened in the world: every effect by tool and arguments, once for each time it happened."""

    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)

    def act(self, tool_name: str, call: str, idempotency_key: str) -> None:
        if idempotency_key and idempotency_key in self.keys:
            return
        self.keys.add(idempotency_key)
        self.effects[tool_name, call] += 1

    def holds(self, key: str) -> bool:
        return any(call.partition("|")[0] == key for _, call in self.effects)


class ChanceAnswers(Answers):
    """Hosts, planner and verifier that fail in every way that the protocol knows."""

    def __init__(self, chance: random.Random, sink: Sink) -> None:
        super().__init__(bind=self.binding, draft=self.drafting, cached=self.caching, judge=self.judging)
        self.chance = chance
        self.sink = sink
        self.trouble = chance.choice([0.0, 0.1, 0.3, 0.6])
        self.drafts = 0
        self.tools = {one.full_name: self._read for one in READS} | {FIND.full_name: self._find}

    def binding(self, run: Run, order: effects.Bind) -> Binding:
        if len(order.answers) < 2 and self.chance.random() < 0.1:
            return Binding(playbook="p", question=Question(parameter=f"q{len(order.answers)}", text="Which?"))
        return Binding(playbook="p")

    def drafting(self, run: Run, order: effects.Draft) -> Plan | Question | DulyError:
        self.drafts += 1
        word = self.chance.random()
        if order.replan and word < 0.2:
            return PlanError("plan.no_alternative", "There is no other way.")
        if order.replan and word < 0.3 and run.plan is not None:
            return run.plan
        if word < 0.34:
            return Question(parameter=f"d{self.drafts}", text="Which?")
        return random_plan(self.chance, run.plan)

    def caching(self, run: Run) -> dict[str, Any]:
        if self.chance.random() < 0.2:
            return {"outcome": "hit", "plan": random_plan(self.chance, None)}
        return {"outcome": self.chance.choice(["miss", "stale"])}

    def judging(self, run: Run, checks: list[Check]) -> list[Check]:
        """Now and then a check fails, or does not run, or goes missing."""
        word = self.chance.random()
        if not checks or word > 0.3 * self.trouble + 0.08:
            return checks
        index = self.chance.randrange(len(checks))
        if word < 0.02:
            return checks[:index] + checks[index + 1 :]
        outcome: Any = self.chance.choice(["fail", "not_run"])
        return [
            check.model_copy(update={"outcome": outcome, "reason": "by chance"}) if n == index else check
            for n, check in enumerate(checks)
        ]

    def _read(self, key: str, **_: Any) -> dict[str, Any]:
        return {"key": key}

    def _find(self, key: str, **_: Any) -> dict[str, Any]:
        return {"key": key} if self.sink.holds(key) else {}

    def call(self, driver: Driver, call: effects.Call, wave: int, outputs: dict[str, Any]) -> StepOutcome:
        self.tools = dict(self.tools)
        self.tools[call.tool] = self._chancy(driver, call)
        return super().call(driver, call, wave, outputs)

    def _chancy(self, driver: Driver, call: effects.Call) -> Callable[..., Any]:
        writes = call.effect != "read"

        def run(key: str = "", **rest: Any) -> Any:
            if writes:
                assert driver.run is not None and driver.run.steps[call.step_id].status == "started"
            trouble = self.chance.random() < self.trouble
            how = self.chance.choice(["transient", "permanent", "lost", "unknown", "not_started", "garbage"])
            happens = (
                not trouble or how == "garbage" or (how in ("lost", "unknown") and self.chance.random() < 0.5)
            )
            if writes and happens:
                act = _call(key, rest)
                natural = act if call.tool == NATURAL.full_name else ""
                self.sink.act(call.tool, act, call.idempotency_key or natural)
            if not trouble:
                return {"key": key} if call.tool != FIND.full_name else self._find(key)
            if how == "garbage":
                return [1.5, {"$ref": "data"}]  # no object; the literal key is escaped and stays data
            if how in ("transient", "permanent"):
                raise CallFailure(f"tool.{how}", transient=how == "transient")
            raise CallFailure(f"tool.{how}", outcome=how, transient=how == "unknown" and not writes)

        return run


def _call(key: str, rest: Mapping[str, Any]) -> str:
    return f"{key}|{rest.get('from', '')}"


def random_plan(chance: random.Random, before: Plan | None) -> Plan:
    """A valid plan of one to seven steps; a later one shares some steps with the one before."""
    steps: list[Step] = []
    shared = chance.choice([0.0, 0.2, 0.7])
    for number in range(chance.randint(1, 7)):
        name = f"s{number}"
        needs = [one.step_id for one in steps if chance.random() < 0.3][-2:]
        if before is not None and chance.random() < shared:
            old = next((one for one in before.steps if one.step_id == name), None)
            if old is not None and set(old.depends_on) <= {one.step_id for one in steps}:
                steps.append(old)
                continue
        writes = chance.random() < 0.3
        descriptor = chance.choice(WRITES if writes else READS)
        key: Any = f"{name}-{chance.randrange(10**6)}"
        arguments = (
            {"key": key, "from": ref(chance.choice(needs))}
            if needs and chance.random() < 0.6
            else {"key": key}
        )
        steps.append(
            step(
                name,
                descriptor,
                arguments,
                needs=needs,
                on_failure=_destinations(chance),
                reader=FIND if writes else None,
            )
        )
    return plan(steps, allow_partial=chance.random() < 0.5, origin="playbook")


def _destinations(chance: random.Random) -> list[Destination]:
    last: list[Destination] = [Escalate(), Replan(), Degrade(), Clarify(question="What now?")]
    found: list[Destination] = (
        [Retry(attempts=chance.randint(1, 3), backoff_ms=50)] if chance.random() < 0.5 else []
    )
    return [*found, *chance.sample(last, chance.randint(1, 2))]


class World(Driver):
    """A driver whose messages arrive late, twice or in another order, and whose process dies now and then."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.sink = Sink()
        self.under_way: list[tuple[int, int, Stimulus]] = []
        self.sent = 0
        self.crashes = chance.choice([0, 0, 1, 2, 4])
        steps = chance.choice([50, 50, 50, 4])
        brought = random_plan(chance, None) if chance.random() < 0.3 else None
        super().__init__(
            ChanceAnswers(chance, self.sink),
            DESCRIPTORS,
            plan=brought,
            seed=seed,
            settings={
                "tier": chance.choice(["assisted", "supervised", "bounded_autonomous"]),
                "gate": chance.choice(["consequential", "always"]),
                "gated_tools": chance.choice([[], [], ["t.mail"], ["t.read0"]]),
                "gate_ttl_seconds": chance.choice([None, None, 3600]),
                "budget": {
                    "steps": steps,
                    "tool_calls": chance.choice([100, 6]),
                    "wall_seconds": chance.choice([600, 600, 1]),
                },
            },
        )

    def live(self) -> Run:
        """The whole life of the run: people decide whenever it waits for them."""
        run = self.submit()
        for _ in range(200):
            if run.phase.ended:
                return run
            run = self._person(run)
        raise AssertionError(f"no end:\n{self.story()}")

    def _person(self, run: Run) -> Run:
        if self.chance.random() < 0.03:
            return self.cancel()
        if run.gate is not None:
            word = self.chance.random()
            if word < 0.04:
                return self.reject()
            if word < 0.12:
                return self.reject("do it in another way")
            if word < 0.2:
                return self.approve(**self.chance.choice(WRONG))
            if word < 0.22:
                self.clock.now_ms += 2 * 3600 * 1000
            return self.approve(with_references=self.chance.random() < 0.3)
        assert run.asked is not None
        about, _, step_id = run.asked.about.partition(":")
        if about == "bind":
            return self.answer("that one")
        if about == "outcome":
            if self.chance.random() < 0.1:
                return self.answer("give up")
            return self.answer("it happened" if self._happened(run, step_id) else "it did not")
        return self.answer(self.chance.choice(["retry", "skip", "give up"]))

    def _happened(self, run: Run, step_id: str) -> bool:
        arguments = gates.resolved(run, run.step(step_id))
        return (run.step(step_id).tool, _call(arguments["key"], arguments)) in self.sink.effects

    # messages

    def _one_order(self) -> bool:
        assert self.run is not None
        if self.todo:
            index = self.chance.randrange(len(self.todo))
            order = self.todo[index]
            del self.todo[index]
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
        super().resume()

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


WRONG: list[dict[str, Any]] = [
    {"plan": "0" * 64},
    {"shown": "0" * 64},
    {"run_id": "r2"},
    {"expires_ms": 1},
    {"budget": {"steps": 1}},
]
