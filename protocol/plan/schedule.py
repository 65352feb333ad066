"""In which order steps run, and which of them run at once.

The rule (DESIGN 9): the steps of one topological level run concurrently when there are at least two and each calls a
tool that only reads; every other level runs one step after the other in plan order. Whether a tool only reads is asked
of the descriptor granted to the agent, never of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .descriptor import Descriptor
from .plan import Plan, Step
from .refs import steps_of


def dependencies(step: Step) -> list[str]:
    """What a step waits for: ``depends_on``, and the steps that its arguments refer to."""
    return list(dict.fromkeys([*step.depends_on, *steps_of(step.tool_contract.arguments)]))


def levels(plan: Plan) -> list[list[str]]:
    """The topological levels of a valid plan: a step's level is one more than the highest of its dependencies."""
    return levels_of([(step.step_id, dependencies(step)) for step in plan.steps])


def levels_of(graph: Sequence[tuple[str, Sequence[str]]]) -> list[list[str]]:
    """Levels of a graph given as (id, ids it waits for) in plan order. Steps on a cycle are in no level."""
    waiting = {name: len(set(needs)) for name, needs in graph}
    dependants: dict[str, list[str]] = {name: [] for name, _ in graph}
    order = {name: index for index, (name, _) in enumerate(graph)}
    for name, needs in graph:
        for need in set(needs):
            if need in dependants:
                dependants[need].append(name)
    current = [name for name, count in waiting.items() if count == 0]
    found: list[list[str]] = []
    while current:
        found.append(current)
        after: list[str] = []
        for name in current:
            for dependant in dependants[name]:
                waiting[dependant] -= 1
                if waiting[dependant] == 0:
                    after.append(dependant)
        current = sorted(after, key=order.__getitem__)
    return found


def reads_only(step: Step, descriptors: Mapping[str, Descriptor]) -> bool:
    """Whether a step calls a tool whose granted descriptor says that it only reads."""
    descriptor = descriptors.get(step.tool or "")
    return step.kind == "tool" and descriptor is not None and descriptor.reads_only


def is_concurrent(level: Sequence[Step], descriptors: Mapping[str, Descriptor]) -> bool:
    """Whether the steps of a level run at the same time."""
    return len(level) >= 2 and all(reads_only(step, descriptors) for step in level)


def by_level(plan: Plan, wanted: Callable[[str], bool]) -> list[list[Step]]:
    """The levels of a plan, each reduced to the wanted steps, empty levels left out."""
    by_id = {step.step_id: step for step in plan.steps}
    reduced = [[by_id[name] for name in level if wanted(name)] for level in levels(plan)]
    return [level for level in reduced if level]
