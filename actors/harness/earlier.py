"""What an earlier run left that a later one may use again: outputs that no check failed, each with its receipt, and
every effect that happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from duly.protocol.machine.run import DONE, Run
from duly.protocol.machine.stimuli import KeptResult
from duly.protocol.plan.model_call import ModelUse, Used
from duly.protocol.wire import canon
from duly.protocol.wire.errors import RunError
from duly.storage.ports import Artifacts
from duly.storage.recovery import Recorded


def kept_results(run: Run, artifacts: Artifacts) -> list[KeptResult]:
    """The results of a run that ended: of its effects all, since what happened must not happen again; of its reads those
    that no check failed. A run that stopped before its verdict has results that nobody checked; the later run checks
    them like its own.

    Raises ``RunError``: ``run.not_ended`` for one that still goes on, ``run.outcome_unknown`` where nobody can say
    whether an effect happened.
    """
    if not run.phase.ended:
        raise RunError(
            "run.not_ended",
            f"Run {run.run_id} is {run.phase}.",
            hint="Only a run that has ended can be continued.",
        )
    unknown = [name for name, state in run.steps.items() if state.status == "unknown"]
    if unknown:
        raise RunError(
            "run.outcome_unknown",
            f"Run {run.run_id} ended while nobody could say whether {', '.join(unknown)} had its effect.",
            hint="Look whether it happened, and begin a run of its own for what is left.",
        )
    found = {
        key: _kept(run, key, one.output, one.receipt, one.fingerprints, artifacts)
        for key, one in run.kept.items()  # of plans before the last, and of runs before this one
    }
    for name, state in run.steps.items():
        lasts = state.checked != "fail" or not run.reads_only(name)
        if state.status in DONE and state.key and name in run.outputs and lasts:
            output = run.outputs[name]
            found[state.key] = _kept(run, state.key, output, state.receipt, state.fingerprints, artifacts)
    return list(found.values())


def _kept(
    run: Run, key: str, output: bytes, receipt: str, fingerprints: Mapping[str, str], artifacts: Artifacts
) -> KeptResult:
    signed = artifacts.get(run.run_id, receipt) if receipt else b""
    return KeptResult(key=key, output=output, receipt=signed, fingerprints=dict(fingerprints))


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
