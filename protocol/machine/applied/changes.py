"""What people change in a run under way: its plan, what planning knows, its objective."""

from __future__ import annotations

from dataclasses import replace

from ...authority.mandate import Mandate
from ...plan.request import Request
from ..events import Event
from ..run import Run
from .attached import value_of


def guidance_given(run: Run, event: Event) -> Run:
    return replace(run, guidance=(*run.guidance, value_of(event, "text")))


def objective_amended(run: Run, event: Event) -> Run:
    """Another mandate for the same run. Reads that were under way are given up; what they reserved counts as spent.

    Guidance was about the objective that it was given for, and goes with it. Another plan follows at once.
    """
    envelope = event.attached["mandate"]
    mandate = Mandate.peek(envelope)
    steps = {
        name: replace(state, status="abandoned") if state.status == "started" else state
        for name, state in run.steps.items()
    }
    return replace(
        run,
        mandate=mandate,
        mandate_envelope=envelope,
        submitter=event.facts["submitter"],
        submitter_name=event.facts["submitter_name"],
        request=Request.model_validate(value_of(event, "request")),
        descriptors={name: one for name, one in run.descriptors.items() if name in mandate.tools},
        amended=run.amended + 1,
        steps=steps,
        budget=replace(run.budget.forfeit(), limits=dict(mandate.budget)),
        guidance=(),
        held={},
        asking="",
        thinking="",
        turns=(),
    )
