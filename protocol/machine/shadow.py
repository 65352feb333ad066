"""Shadow runs: reads run, and what does more than read is written down as what would have happened."""

from __future__ import annotations

from ..plan.plan import Step
from ..plan.schedule import dependencies
from ..wire import canon
from ..wire.errors import PlanError
from . import calls, ends, failures
from .events import Event, event
from .phases import Phase
from .run import DONE, Run

INPUT_MISSING = "step.shadowed_input"
NAMED_MAX = 20


def written(run: Run) -> list[str]:
    """The steps that were only written down."""
    return [name for name, state in run.steps.items() if state.status == "shadowed"]


def lacking(run: Run, step: Step) -> list[str]:
    """What a step depends on and only stands on paper, or was skipped for that."""
    if not run.mandate.shadow:
        return []
    return [
        name
        for name in dependencies(step)
        if run.steps[name].status == "shadowed"
        or (run.steps[name].status == "skipped" and run.steps[name].code == INPUT_MISSING)
    ]


def write_down(run: Run, step: Step) -> Event:
    """What a step would have done, its resolved arguments attached."""
    try:
        arguments = calls.resolved(run, step)
    except PlanError as error:
        return failures.cannot_start(run, step, error)
    return event(
        "step.shadowed", {"arguments": canon.encode(arguments)}, step_id=step.step_id, tool=step.tool or ""
    )


def end(run: Run) -> Event:
    """The end of a shadow run, with the list of what would have happened."""
    names = [f"{name} ({run.step(name).tool})" for name in written(run)]
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    text = f"Nothing was changed. Would have run: {', '.join(names[:NAMED_MAX])}{more}."
    return ends.end(Phase.PARTIAL, "shadow", text, next_owner="person")


def nothing_to_verify(run: Run) -> bool:
    """Whether a shadow run came to its end without a single result."""
    return bool(written(run)) and not any(state.status in DONE for state in run.steps.values())
