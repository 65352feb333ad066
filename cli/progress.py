"""Live progress of a run: one line for each thing that matters, and on a terminal one more that is painted over.

Written for both: in a pipe the lines alone tell the whole story.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from duly.protocol.plan.plan import Plan
from duly.protocol.plan.schedule import levels

from .layout import COLUMNS, count, duration, labelled, shortened, table
from .output import say
from .thinking import Thinking

LoadPlan = Callable[[int], Plan | None]
Facts = Mapping[str, Any]


class Progress:
    """What is known of a run from its events. ``load_plan`` gives the plan that the event with that number drafted,
    ``clock`` the wall time in milliseconds: the time of events, whoever recorded them."""

    def __init__(
        self,
        load_plan: LoadPlan,
        limits: Mapping[str, int] | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._load_plan = load_plan
        self._limits = dict(limits or {})
        self._clock = clock
        self._thinking = Thinking()
        self._plan: Plan | None = None
        self._levels: list[list[str]] = []
        self._states: dict[str, str] = {}
        self._calls = 0
        self._wave = 0
        self._first_ms = 0
        self._now_ms = 0
        self._status = False

    def event(self, event: Mapping[str, Any]) -> None:
        """Says what an event means for a person, if anything, and paints the status line again."""
        self._now_ms = _milliseconds(event["time"])
        self._first_ms = self._first_ms or self._now_ms
        handler = _HANDLERS.get(event["kind"])
        lines = handler(self, event["facts"], event) if handler is not None else []
        lines += self._thinking.event(event, self._now_ms)
        self.wipe()
        if lines:
            say(lines)
        self._paint()

    def idle(self) -> None:
        """Nothing has come for a while: the status line shows how long, and a pipe hears of a model now and then."""
        self._now_ms = max(self._now_ms, self._clock())
        if not sys.stdout.isatty():
            lines = self._thinking.idle(self._now_ms)
            if lines:
                say(lines)
            return
        self.wipe()
        self._paint()

    def wipe(self) -> None:
        """Takes the status line away, so that something else can be printed."""
        if self._status:
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()
            self._status = False

    def show_plan(self, plan: Plan) -> None:
        """Takes a plan that was drafted before this command; what is known of its steps is kept."""
        self._plan, self._levels = plan, levels(plan)
        self._states = {step.step_id: self._states.get(step.step_id, "waiting") for step in plan.steps}

    def _paint(self) -> None:
        if not sys.stdout.isatty() or not (self._states or self._thinking.asked):
            return
        sys.stdout.write("\r" + shortened("; ".join(self._status_parts()), COLUMNS - 1))
        sys.stdout.flush()
        self._status = True

    def _status_parts(self) -> list[str]:
        thinks = [self._thinking.so_far(self._now_ms)] if self._thinking.asked else []
        if not self._states:
            return thinks
        running = [name for name, state in self._states.items() if state == "running"]
        done = sum(state in ("done", "reused") for state in self._states.values())
        level = [f"{self._level_of(running[0])}, running {', '.join(running)}"] if running else []
        parts = [*thinks, *level, f"{done} of {count(len(self._states), 'step')} done"]
        parts.append(duration(self._now_ms - self._first_ms))
        if "tool_calls" in self._limits:
            parts.append(f"calls {self._calls} of {self._limits['tool_calls']}")
        return parts

    def _level_of(self, step_id: str) -> str:
        for number, level in enumerate(self._levels, 1):
            if step_id in level:
                return f"level {number} of {len(self._levels)}"
        return "level ?"

    def _routed(self, facts: Facts, event: Facts) -> list[str]:
        weights = ", ".join(str(name).replace("_", " ") for name in facts.get("weights", ()))
        counted = f" ({weights})" if weights else ""
        return labelled(
            "route", f"{facts['route']}, score {facts['score']}{counted}: {facts.get('reason', '')}"
        )

    def _cached(self, facts: Facts, event: Facts) -> list[str]:
        if event["kind"] == "plan.cache_hit":
            return labelled("cache", "hit: this plan passed before and is used again")
        reasons = ", ".join(map(str, facts.get("reasons", ())))
        return labelled("cache", f"stale, not served: {reasons} changed")

    def _drafted(self, facts: Facts, event: Facts) -> list[str]:
        plan = self._load_plan(event["seq"])
        edited = event["kind"] == "plan.edited"
        source = "your edit" if edited else facts.get("playbook") or facts.get("origin", "")
        name = f"version {facts['version']}, {count(facts['steps'], 'step')}, from {source}"
        if plan is None:
            return labelled("plan", name)
        self._states = {}
        self.show_plan(plan)
        return [*labelled("plan", name), *plan_lines(plan)]

    def _started(self, facts: Facts, event: Facts) -> list[str]:
        step_id = facts["step_id"]
        self._states[step_id] = "running"
        self._calls += 1
        if facts["attempt"] > 1:
            return labelled("started", f"{step_id}, attempt {facts['attempt']}")
        if facts["wave"] == self._wave:
            return []
        self._wave = facts["wave"]
        level = next((level for level in self._levels if step_id in level), [step_id])
        what = f"{count(len(level), 'step')} at once" if facts["mode"] == "concurrent" else step_id
        return labelled("running", f"{self._level_of(step_id)}: {what}")

    def _succeeded(self, facts: Facts, event: Facts) -> list[str]:
        step_id = facts["step_id"]
        self._states[step_id] = "done"
        took = duration(facts["duration_us"] / 1000)
        rows = f", {count(facts['rows'], 'row')} read" if facts.get("rows") else ""
        return labelled("done", f"{step_id} in {took}{rows}")

    def _failed(self, facts: Facts, event: Facts) -> list[str]:
        step_id = facts["step_id"]
        self._states[step_id] = "failed"
        return labelled("failed", f"{step_id} [{facts['code']}], then {facts['then']}")

    def _passed_over(self, facts: Facts, event: Facts) -> list[str]:
        step_id = facts["step_id"]
        word = event["kind"].removeprefix("step.")
        self._states[step_id] = word
        why = {"reused": "the earlier result still holds", "skipped": "an input is missing"}.get(word, "")
        return labelled(
            word.replace("_", " ").removeprefix("outcome "), f"{step_id}{': ' + why if why else ''}"
        )

    def _shadowed(self, facts: Facts, event: Facts) -> list[str]:
        self._states[facts["step_id"]] = "done"
        return labelled("shadow", f"{facts['step_id']} would have run; nothing was changed")

    def _stalled(self, facts: Facts, event: Facts) -> list[str]:
        return labelled("stalled", f"nothing can go on with this run now [{facts.get('code', '')}]")

    def _imported(self, facts: Facts, event: Facts) -> list[str]:
        kept = facts.get("kept")
        number = count(kept, "result") if isinstance(kept, int) else "results"
        return labelled("kept", f"{number} of run {facts.get('from_run', '')} that may be used again")

    def _verdict(self, facts: Facts, event: Facts) -> list[str]:
        parts = [f"{facts[name]} {word}" for name, word in _CHECK_WORDS if facts.get(name)]
        return labelled("verdict", f"{facts['outcome']} ({', '.join(parts) or 'no checks'})")

    def _replan(self, facts: Facts, event: Facts) -> list[str]:
        word = "replanning" if event["kind"] == "replan.triggered" else "no replan"
        return labelled("replan", f"{word}: {facts['trigger'].replace('_', ' ')} [{facts['code']}]")

    def _budget(self, facts: Facts, event: Facts) -> list[str]:
        how = (
            "is spent" if event["kind"] == "budget.exhausted" else f"is used to {facts.get('percent', 80)} %"
        )
        return labelled("budget", f"{facts['name']} {how}")

    def _decided(self, facts: Facts, event: Facts) -> list[str]:
        return labelled(
            "decided", _DECISIONS[event["kind"]] + (f" {facts['step_id']}" if facts.get("step_id") else "")
        )

    def _verifying(self, facts: Facts, event: Facts) -> list[str]:
        return labelled("verify", "the verifier computes the material values its own way")

    def _filled(self, facts: Facts, event: Facts) -> list[str]:
        return labelled("filled", f"the arguments of {facts['step_id']}, by the model")

    def _extended(self, facts: Facts, event: Facts) -> list[str]:
        return labelled("calls", f"{facts['step_id']}, as the model wants it")

    def _not_called(self, facts: Facts, event: Facts) -> list[str]:
        return labelled("refused", f"a call of the model ({count(facts['faults'], 'fault')}); it is told why")

    def _resumed(self, facts: Facts, event: Facts) -> list[str]:
        return labelled("resumed", f"under epoch {facts['epoch']}")


_CHECK_WORDS = (("passed", "passed"), ("failed", "failed"), ("not_run", "not run"))
_DECISIONS = {
    "plan.approved": "plan approved",
    "step.approved": "approved step",
    "plan.rejected": "rejected",
    "run.cancelled": "cancelled",
    "authority.refused": "an approval was refused",
    "guidance.given": "guidance given, for every later draft",
    "objective.amended": "another request, under a new mandate",
}
_HANDLERS: dict[str, Callable[[Progress, Facts, Facts], list[str]]] = {
    "route.chosen": Progress._routed,
    "plan.cache_hit": Progress._cached,
    "plan.cache_stale": Progress._cached,
    "plan.drafted": Progress._drafted,
    "plan.edited": Progress._drafted,
    "guidance.given": Progress._decided,
    "objective.amended": Progress._decided,
    "results.imported": Progress._imported,
    "run.stalled": Progress._stalled,
    "step.shadowed": Progress._shadowed,
    "plan.approved": Progress._decided,
    "step.approved": Progress._decided,
    "plan.rejected": Progress._decided,
    "authority.refused": Progress._decided,
    "run.cancelled": Progress._decided,
    "step.started": Progress._started,
    "step.succeeded": Progress._succeeded,
    "step.failed": Progress._failed,
    "step.reused": Progress._passed_over,
    "step.skipped": Progress._passed_over,
    "step.outcome_unknown": Progress._passed_over,
    "verification.started": Progress._verifying,
    "verdict.reached": Progress._verdict,
    "replan.triggered": Progress._replan,
    "replan.refused": Progress._replan,
    "budget.warned": Progress._budget,
    "budget.exhausted": Progress._budget,
    "run.resumed": Progress._resumed,
    "step.arguments_filled": Progress._filled,
    "plan.extended": Progress._extended,
    "direct.call_refused": Progress._not_called,
}


def plan_lines(plan: Plan) -> list[str]:
    """The plan as a short table: level, step, what it finds out; a step that does more than read says so."""
    rows = []
    for number, level in enumerate(levels(plan), 1):
        for step_id in level:
            step = plan.step(step_id)
            effect = step.tool_contract.effect
            acts = f"[{effect}: {step.tool}] " if step.kind == "tool" and effect != "read" else ""
            rows.append((str(number), step_id, acts + step.objective))
    return ["", *table(("level", "step", "objective"), rows, "  ", whole=True), ""]


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)
