"""What an earlier run left that a later one may use again: outputs that no check failed, each with its receipt."""

from __future__ import annotations

from duly.protocol.machine.run import DONE, Run
from duly.protocol.machine.stimuli import KeptResult
from duly.protocol.wire.errors import RunError
from duly.storage.ports import Artifacts


def kept_results(run: Run, artifacts: Artifacts) -> list[KeptResult]:
    """The checked results of a run that ended. Raises ``RunError`` ``run.not_ended`` for one that still goes on."""
    if not run.phase.ended:
        raise RunError(
            "run.not_ended",
            f"Run {run.run_id} is {run.phase}.",
            hint="Only a run that has ended can be continued.",
        )
    return [
        KeptResult(
            key=state.key,
            output=run.outputs[name],
            receipt=artifacts.get(run.run_id, state.receipt) if state.receipt else b"",
            fingerprints=dict(state.fingerprints),
        )
        for name, state in run.steps.items()
        if state.status in DONE and state.key and state.checked in ("pass", "not_run") and name in run.outputs
    ]
