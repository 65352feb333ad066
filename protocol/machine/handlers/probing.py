"""Stimuli from elsewhere: what a probe found, and what the policy's expressions say."""

from __future__ import annotations

from ...judgement.checks import STATED
from ...wire import canon
from ...wire.errors import RunError, WireError
from ..events import Event, event
from ..outputs import read_output
from ..run import Run
from ..stimuli import PolicyJudged, Probed


def probed(run: Run, stimulus: Probed) -> list[Event]:
    """It happened: the step succeeded, by the probe's word. It did not: it runs again. Else a person is asked."""
    state = run.steps.get(stimulus.step_id)
    if state is None or state.probe != "asked":
        raise RunError("run.not_waiting_for_that", f"No probe of step {stimulus.step_id} is under way.")
    outcome, output = stimulus.outcome, stimulus.output
    if output is not None:
        try:
            read_output(output)
        except WireError:
            outcome = "unknown"
    said = event(
        "step.probed",
        {"receipt": stimulus.receipt} if stimulus.receipt else {},
        step_id=stimulus.step_id,
        outcome=outcome,
        code=stimulus.code,
        rows=stimulus.rows,
    )
    if outcome != "happened":
        return [said]
    happened = event(
        "step.succeeded",
        {"output": output if output is not None else canon.encode({STATED: "a probe said that it happened"})},
        step_id=stimulus.step_id,
        attempt=state.attempts,
        probed=True,
        key=state.key,
        host="",
        node="",
        started_ms=state.granted_ms,
        ended_ms=stimulus.now_ms,
        duration_us=0,
        rows=0,
        tokens=0,
        cost=0,
        truncated=False,
        fingerprints={},
    )
    return [said, happened]


def policy_judged(run: Run, stimulus: PolicyJudged) -> list[Event]:
    """Whether a call waits for a person. Nobody could evaluate it: it waits."""
    state = run.steps.get(stimulus.step_id)
    if state is None or state.policy != "asked":
        raise RunError("run.not_waiting_for_that", f"No policy about step {stimulus.step_id} is asked for.")
    gated = stimulus.gated or bool(stimulus.code)
    return [event("policy.judged", step_id=stimulus.step_id, gated=gated, code=stimulus.code)]
