"""What an earlier run left that a later one may use again: outputs that no check failed, each with its receipt."""

from __future__ import annotations

from collections.abc import Iterable

from duly.protocol.machine.run import DONE, Run
from duly.protocol.machine.stimuli import KeptResult, Used
from duly.protocol.plan.model_call import ModelUse
from duly.protocol.wire import canon
from duly.protocol.wire.errors import RunError
from duly.storage.ports import Artifacts
from duly.storage.recovery import Recorded


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


def recorded_calls(record: Iterable[Recorded], artifacts: Artifacts) -> list[Used]:
    """The calls of models that a run made, in order, with the exact bytes, to be replayed.

    Raises ``LogError`` where one of them is not what the log says, or was erased.
    """
    found = []
    for one in record:
        if one.event.kind != "model.called":
            continue
        facts, names = one.event.facts, one.event.artifacts
        bytes_of = {name: artifacts.get(one.run_id, digest) for name, digest in names.items()}
        use = {name: facts[name] for name in ModelUse.model_fields if name in facts}
        found.append(
            Used(
                use=ModelUse(**use, parameters=canon.decode(bytes_of["parameters"])),
                call=facts["call"],
                request=bytes_of["model_request"],
                response=bytes_of["model_response"],
                value=bytes_of.get("model_value", b""),
            )
        )
    return found
