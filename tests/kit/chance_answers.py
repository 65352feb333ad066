"""Planner, hosts, verifier, critic and policy that fail in every way that the protocol knows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from answers import Answers, CallFailure
from chance_models import ChanceModel
from chance_plans import FIND, NATURAL, PROBED, READS, Sink, call_of, random_plan
from driver import Driver
from duly.protocol.judgement.checks import Check
from duly.protocol.machine import effects
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, Question
from duly.protocol.wire.errors import DulyError, PlanError

HOW = ["transient", "permanent", "lost", "unknown", "not_started", "garbage", "denied"]


class ChanceAnswers(Answers):
    """Hosts, planner and verifier that fail in every way that the protocol knows."""

    def __init__(self, chance: random.Random, sink: Sink, model: ChanceModel) -> None:
        super().__init__(
            bind=self.binding,
            draft=self.drafting,
            cached=self.caching,
            judge=self.judging,
            probe=self.probing,
            fill=model.fill,
            reason=model.reason,
            turn=model.turn,
            policy=lambda run, order: chance.random() < 0.5,
            critic=lambda run: chance.choice(["pass", "pass", "pass", "fail", "not_run", "silent"]),
        )
        self.chance = chance
        self.sink = sink
        self.model = model
        self.trouble = chance.choice([0.0, 0.1, 0.3, 0.6])
        self.dead = chance.choice([""] * 7 + ["t.read1"])  # a tool that is down all the time
        self.drafts = 0
        self.fingerprints = {"source": "1"}
        self.tools = {one.full_name: self._read for one in READS} | {FIND.full_name: self._find}

    def binding(self, run: Run, order: effects.Bind) -> Binding:
        if self.model.talks:
            return Binding()
        if len(order.answers) < 2 and self.chance.random() < 0.1:
            return Binding(playbook="p", question=Question(parameter=f"q{len(order.answers)}", text="Which?"))
        return Binding(playbook="p")

    def drafting(self, run: Run, order: effects.Draft) -> Plan | Question | DulyError:
        self.drafts += 1
        if self.chance.random() < 0.2:
            self.fingerprints = {"source": str(self.drafts)}
        word = self.chance.random()
        if order.replan and word < 0.2:
            return PlanError("plan.no_alternative", "There is no other way.")
        if order.replan and word < 0.3 and run.plan is not None:
            return run.plan
        if word < 0.34:
            return Question(parameter=f"d{self.drafts}", text="Which?")
        if self.model.there and not order.model and self.model.chance.random() < 0.4:
            return PlanError("plan.no_playbook", "No playbook plans this.")
        return self.model.rewrite(random_plan(self.chance, run.plan, run.request.text))

    def probing(self, run: Run, order: effects.Probe) -> tuple[str, Any]:
        """The truth, where it says anything at all."""
        if self.chance.random() < 0.2:
            return "unknown", None
        arguments = order.call.arguments
        if (PROBED.full_name, call_of(arguments["key"], arguments)) not in self.sink.effects:
            return "did_not_happen", None
        return "happened", self.chance.choice([{"key": arguments["key"]}, None])

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
                assert driver.run is not None
                assert driver.run.steps[call.step_id].status in ("started", "unknown")
            trouble = self.chance.random() < self.trouble or call.tool == self.dead
            how = "transient" if call.tool == self.dead else self.chance.choice(HOW)
            happens = (
                not trouble or how == "garbage" or (how in ("lost", "unknown") and self.chance.random() < 0.5)
            )
            if writes and happens:
                act = call_of(key, rest)
                natural = act if call.tool == NATURAL.full_name else ""
                self.sink.act(call.tool, act, call.idempotency_key or natural)
            if not trouble:
                return {"key": key} if call.tool != FIND.full_name else self._find(key)
            if how == "garbage":
                return [1.5, {"$ref": "data"}]  # no object; the literal key is escaped and stays data
            if how == "denied":
                raise CallFailure("tool.not_allowed")
            if how in ("transient", "permanent"):
                raise CallFailure(f"tool.{how}", transient=how == "transient")
            raise CallFailure(f"tool.{how}", outcome=how, transient=how == "unknown" and not writes)

        return run
