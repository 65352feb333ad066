"""Asking whether a write whose outcome nobody knows happened: the descriptor's probe, a read of the same server."""

from __future__ import annotations

from ..plan.descriptor import Descriptor
from ..plan.plan import Step
from ..wire.errors import PlanError
from ..wire.limits import PROBES_PER_STEP_MAX
from . import calls, metering
from .events import Event, event
from .run import Run


def probe_of(run: Run, step: Step) -> Descriptor | None:
    """The granted, read-only probe of a step's tool, or ``None``."""
    descriptor = run.descriptors.get(step.tool or "")
    if descriptor is None or descriptor.probe is None:
        return None
    probe = run.descriptors.get(f"{descriptor.server}.{descriptor.probe}")
    return probe if probe is not None and probe.reads_only else None


def ask(run: Run, step_id: str) -> list[Event]:
    """The reservation that sends a probe on its way; nothing where there is none, it was asked, or no call is left."""
    state, step = run.steps[step_id], run.step(step_id)
    if state.probe or state.probes >= PROBES_PER_STEP_MAX or probe_of(run, step) is None:
        return []
    if run.budget.fits("tool_calls", 1) == 0 or metering.spent(run):
        return []
    try:
        calls.resolved(run, step)
    except PlanError:
        return []
    rows = metering.rows(run, 1)
    if rows.get("rows_scanned") == 0:
        return []
    amounts = {"tool_calls": 1, **rows}
    return [event("budget.reserved", purpose="probe", wave=0, step_id=step_id, amounts=amounts)]
