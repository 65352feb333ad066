"""Recorded workflow graphs in a world with a clock and workers: each call takes as long as its task took when it was measured.

A task's output is a mark over its name and over the marks of everything that it waits for, so that a result that was lost,
taken twice or taken from elsewhere changes every mark after it. Some tasks may write: they have their effect when they run,
once for each idempotency key.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from answers import Answers
from driver import Driver
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.plan.plan import Plan
from plans import plan, ref, step, table, tool
from suite_rows import rows

TASK = tool("task")
STORE = tool("store", "write", idempotency="key")
FIND = tool("find")
DESCRIPTORS = table(TASK, STORE, FIND)


@dataclass(frozen=True)
class Graph:
    """One row: the plan (steps ``t0``, ``t1``, ... in the row's order) and how long each step takes, in milliseconds."""

    name: str
    plan: Plan
    runtime: Mapping[str, int]
    row: Mapping[str, Any]


def graphs(suites: Path, *, write_every: int = 0) -> list[Graph]:
    """All graphs as plans of reads; with ``write_every`` every so manieth task writes."""
    return [_graph(row, write_every) for row in rows(suites / "wfinstances.jsonl")]


def _graph(row: Mapping[str, Any], write_every: int) -> Graph:
    # The graphs' own names have characters that no id has.
    ids = {one["step_id"]: f"t{number}" for number, one in enumerate(row["steps"])}
    steps = []
    for number, one in enumerate(row["steps"]):
        marks = [ref(ids[need], "/mark") for need in one["depends_on"]]
        writes = write_every and number % write_every == write_every - 1
        made = step(
            f"t{number}",
            STORE if writes else TASK,
            {"task": one["step_id"], "marks": marks},
            reader=FIND if writes else None,
            agree={"/task": "/task"},
        )
        if writes:
            back = made.verification.independent.model_copy(update={"arguments": {"task": one["step_id"]}})
            checked = made.verification.model_copy(update={"independent": back})
            made = made.model_copy(update={"verification": checked})
        steps.append(made)
    runtime = {ids[one["step_id"]]: max(1, round(one["runtime_s"] * 1_000)) for one in row["steps"]}
    return Graph(row["id"], plan(steps, plan_id=row["id"]), runtime, row)


@dataclass(frozen=True)
class Worked:
    """One call at work, from when until when."""

    step_id: str
    start_ms: int
    end_ms: int
    writes: bool


class TaskAnswers(Answers):
    """Tasks that give their marks. ``stored`` counts effects by task."""

    def __init__(self) -> None:
        super().__init__(tools={FIND.full_name: lambda task: {"task": task}})
        self.effects: Counter[str] = Counter()
        self.keys: set[str] = set()

    def call(self, driver: Driver, call: effects.Call, wave: int, outputs: dict[str, Any]) -> StepOutcome:
        def work(task: str, marks: list[str]) -> dict[str, str]:
            if call.effect != "read" and call.idempotency_key not in self.keys:
                self.keys.add(call.idempotency_key)
                self.effects[task] += 1
            return {"task": task, "mark": hashlib.sha256(repr([task, marks]).encode()).hexdigest()[:16]}

        self.tools = {**self.tools, call.tool: work}
        return super().call(driver, call, wave, outputs)


@dataclass
class ClockedDriver(Driver):
    """A driver whose calls take time. ``workers`` run at once, any number where it is 0; results come one by one as they
    are there. Calls wait for a worker in the order in which they were dispatched; a serial dispatch keeps one worker."""

    runtime: Mapping[str, int] = field(default_factory=dict)
    workers: int = 0
    free_ms: list[int] = field(default_factory=list)
    under_way: list[tuple[int, int, StepOutcome]] = field(default_factory=list)
    worked: list[Worked] = field(default_factory=list)
    first_ms: int = 0
    last_ms: int = 0

    def _one_order(self) -> bool:
        assert self.run is not None
        if self.todo:
            order = self.todo.popleft()
            self.performed.append(order)
            if isinstance(order, effects.Dispatch):
                self._begin(order)
                return True
            for answer in self.answers.perform(self, order):
                self.give(answer)
            return True
        if self.run.phase.ended or self.run.phase.waits or not self.under_way:
            return False
        self.clock.now_ms, _, outcome = heapq.heappop(self.under_way)
        self.last_ms = self.clock.now_ms
        self.give(stimuli.StepsReturned(**self.moment(), outcomes=[outcome]))
        return True

    def _begin(self, order: effects.Dispatch) -> None:
        self.first_ms = self.first_ms or self.clock.now_ms
        outputs: dict[str, Any] = {}
        at = self._take_worker()
        for number, call in enumerate(order.calls):
            if number and order.mode == "concurrent":
                self._give_back(at)
                at = self._take_worker()
            end = at + self.runtime[call.step_id]
            outcome = self.answers.call(self, call, order.wave, outputs)
            self.worked.append(Worked(call.step_id, at, end, call.effect != "read"))
            outcome = replace(outcome, started_ms=at, ended_ms=end)
            heapq.heappush(self.under_way, (end, len(self.worked), outcome))
            at = end
        self._give_back(at)

    def _take_worker(self) -> int:
        """When the next worker is free."""
        if not self.workers or len(self.free_ms) < self.workers:
            return self.clock.now_ms
        return max(self.clock.now_ms, heapq.heappop(self.free_ms))

    def _give_back(self, end_ms: int) -> None:
        if self.workers:
            heapq.heappush(self.free_ms, end_ms)

    def resume(self) -> None:
        """What was under way is lost, and every worker is free."""
        self.under_way.clear()
        self.free_ms.clear()
        super().resume()

    @property
    def makespan_ms(self) -> int:
        """From the first dispatch to the last result."""
        return self.last_ms - self.first_ms


def clocked(graph: Graph, *, schedule: str = "levels", workers: int = 0, **crash: Any) -> ClockedDriver:
    """A graph from submission to its end."""
    many = 20 * len(graph.plan.steps)
    driver = ClockedDriver(
        TaskAnswers(),
        DESCRIPTORS,
        plan=graph.plan,
        text=graph.plan.objective,
        settings={
            "schedule": schedule,
            "tier": "bounded_autonomous",
            "budget": {"steps": many, "tool_calls": many},
        },
        order_ms=0,
        runtime=graph.runtime,
        workers=workers,
        **crash,
    )
    driver.submit()
    return driver


def marks(run: Run) -> dict[str, str]:
    """What every step gave."""
    return {name: run.output(name)["mark"] for name in run.outputs}
