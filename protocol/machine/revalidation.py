"""What a new start finds changed, and what that means for a run under way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..plan.plan import ReadBack
from . import ends, gates
from .events import Event
from .moment import Moment
from .phases import Phase
from .run import DONE, GONE, Run

NAMED_MAX = 20  # what an event or a sentence names; the rest is attached


def still_used(run: Run, tools: Iterable[str]) -> list[str]:
    """Those of the tools that what is left of the run's plan calls: steps, and the read-backs of what was written."""
    if run.plan is None or run.phase in (Phase.PLANNING, Phase.REPLAN_REQUIRED):
        return []
    needed: set[str] = set()
    # Whoever is asked about a step that failed may say: retry.
    asked = run.asked.about.partition(":")[2] if run.asked is not None else ""
    for step in run.plan.steps:
        status = run.steps[step.step_id].status
        if step.step_id == asked or (status not in DONE and status not in GONE):
            needed.add(step.tool or "")
        independent = step.verification.independent
        if status not in GONE and isinstance(independent, ReadBack):
            needed.add(independent.read_back.full_name)
    return [name for name in tools if name in needed]


def descriptors_changed(run: Run, tools: Sequence[str], unknown: bool) -> list[Event]:
    """The end of a run whose plan names tools that are not the same any more: never another tool under an old approval.

    ``unknown`` says that a write was under way when the last harness ended.
    """
    text = f"Described differently now, or not granted any more: {', '.join(tools[:NAMED_MAX])}."
    if unknown:
        text += " A write was under way; nobody can say whether it happened."
    return ends.stop(run, "run.descriptors_changed", text)


def asked_anew(run: Run, moment: Moment, changed: Sequence[str]) -> Event:
    """The open gate under a new id: who looked at it before looked at something else."""
    assert run.gate is not None
    names = list(changed[:NAMED_MAX])
    return gates.ask(run, moment, run.gate.kind, run.gate.step_id, "changed", changed=names)
