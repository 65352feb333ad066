"""Tools, effects and plans by chance."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.plan.plan import Clarify, Degrade, Destination, Escalate, Plan, Replan, Retry, Step
from duly.protocol.plan.scope import Scope
from plans import OBJECTIVE, plan, ref, step, table, tool

READS = [tool(f"read{n}") for n in range(3)]
KEYED = tool("keyed", "write", idempotency="key")
NATURAL = tool("natural", "write", idempotency="natural")
UNSAFE = tool("unsafe", "write")
MAIL = tool("mail", "external")
PROBED = tool("probed", "write", probe="seen", resource="sink:unsafe")  # another way to the same
FIND = tool("find")
SEEN = tool("seen")
WRITES = [KEYED, NATURAL, UNSAFE, MAIL, PROBED]
DESCRIPTORS = table(*READS, *WRITES, FIND, SEEN)


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


def call_of(key: str, rest: Mapping[str, Any]) -> str:
    return f"{key}|{rest.get('from', '')}"


def random_plan(chance: random.Random, before: Plan | None, objective: str = OBJECTIVE) -> Plan:
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
    scope = Scope(sources=chance.choice([["a"], ["a"], ["a"], ["a", "b"], ["a", "c"] if before else []]))
    partial = chance.random() < 0.5
    return plan(steps, objective=objective, scope=scope, allow_partial=partial, origin="playbook")


def _destinations(chance: random.Random) -> list[Destination]:
    last: list[Destination] = [Escalate(), Replan(), Degrade(), Clarify(question="What now?")]
    found: list[Destination] = (
        [Retry(attempts=chance.randint(1, 3), backoff_ms=50)] if chance.random() < 0.5 else []
    )
    return [*found, *chance.sample(last, chance.randint(1, 2))]
