"""A model by chance: it plans, fills arguments, reasons and takes turns, and fails and talks nonsense as models do.

It draws from a chance of its own, so that worlds without a model are as they were.
"""

from __future__ import annotations

import random
from typing import Any

from answers import CallFailure
from chance_plans import DESCRIPTORS
from duly.protocol.machine import effects
from duly.protocol.machine.run import Run
from duly.protocol.plan import refs
from duly.protocol.plan.plan import Plan, Step, ToolContract
from duly.protocol.wire.errors import DulyError, ModelError

DOWN = ModelError("model.unreachable", "Nobody answers.")


class ChanceModel:
    """``there``: whether this world has a model; ``talks``: whether its requests are answered directly."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"{seed}/model")
        self.there = self.chance.random() < 0.3
        self.talks = self.there and self.chance.random() < 0.4
        self.trouble = self.chance.choice([0.0, 0.1, 0.4])

    def rewrite(self, plan: Plan) -> Plan:
        """The plan with steps that a model does, and arguments that it fills."""
        if not self.there:
            return plan
        return plan.model_copy(update={"steps": [self._step(one) for one in plan.steps]})

    def _step(self, step: Step) -> Step:
        word = self.chance.random()
        contract = step.tool_contract
        needs = list(dict.fromkeys([*step.depends_on, *refs.steps_of(contract.arguments)]))
        if word < 0.15 and contract.effect == "read":
            thought = ToolContract(
                tool=None, arguments=None, effect="read", timeout_seconds=10, model={"task": step.step_id}
            )
            return step.model_copy(update={"kind": "reason", "tool_contract": thought, "depends_on": needs})
        read_back_by_reference = contract.effect != "read" and any(
            True for _ in refs.find(contract.arguments)
        )
        if word < 0.3 and not read_back_by_reference:
            opened = contract.model_copy(update={"arguments": None})
            return step.model_copy(update={"tool_contract": opened, "depends_on": needs})
        return step

    def fill(self, run: Run, order: effects.FillArguments) -> dict[str, Any] | DulyError:
        word = self.chance.random()
        if word < self.trouble:
            return self.chance.choice([DOWN, {"key": {"$ref": "s0#/key"}}])
        return {"key": f"{order.step_id}-filled"}

    def reason(self, run: Run, order: effects.Reason) -> Any:
        if self.chance.random() < self.trouble:
            return CallFailure(
                "model.lost",
                outcome=self.chance.choice(["error", "lost"]),
                transient=self.chance.random() < 0.5,
            )
        return {"key": f"{order.step_id}-thought"}

    def turn(self, run: Run, order: effects.TakeTurn) -> str | tuple[str, dict[str, Any]] | DulyError:
        word = self.chance.random()
        if word < 0.05 * self.trouble:
            return DOWN
        if order.last or word < 0.25:
            return "That is what I found."
        name = self.chance.choice([*sorted(DESCRIPTORS), "t.nothing"])
        return name, {"key": f"turn-{len(run.turns)}"}
