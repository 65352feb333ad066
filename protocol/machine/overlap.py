"""``schedule = "overlap"``: reads start as soon as their inputs are there, whatever level they stand in.

The order of levels, and of the plan inside a level, stays for everything that is not a free read: such a step starts when
all before it have come to an end and nothing is under way, and no read after it starts before it has come to an end. So
every read sees exactly the effects that it would see level by level.
"""

from __future__ import annotations

from ..plan.plan import Step
from . import calls, gates
from .run import DONE, GONE, Run


def ready_reads(run: Run, now_ms: int) -> list[Step]:
    """The reads that may start now, in order, up to the first step that is no free read and has not come to an end.

    A step of a segment does not start again while others of it are under way: their arguments refer to it.
    """
    found: list[Step] = []
    serial = {run.steps[name].wave for name in run.outstanding if run.steps[name].mode == "serial"}
    for level in run.levels:
        for step_id in level:
            state, step = run.steps[step_id], run.step(step_id)
            if state.status in DONE or state.status in GONE:
                continue
            if not is_free_read(run, step):
                return found
            waits = state.status in ("pending", "retrying") and state.retry_at_ms <= now_ms
            if waits and state.wave not in serial and calls.is_ready(run, step):
                found.append(step)
    return found


def is_free_read(run: Run, step: Step) -> bool:
    """Whether a step only reads, and nobody has to see it first."""
    return step.kind == "tool" and run.reads_only(step.step_id) and not gates.acts(run, step)
