"""Recorded answers in place of a model: the same question gets the answer that it got then, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.model_call import ModelCall, ModelUse, Used
from duly.protocol.plan.model_faults import UnfitAnswer
from duly.protocol.wire import canon
from duly.protocol.wire.errors import ModelError, WireError, error_of
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Replayed:
    use: ModelUse
    request: bytes
    response: bytes
    value: Any
    error: ModelError | None


class ReplayAsks:
    """Answers out of a record, in the order in which they came, each once in one piece of work. No time and no token is
    spent."""

    def __init__(self, record: Sequence[Used]) -> None:
        self._left = list(record)

    async def ask(self, package: str, run_id: str, call: ModelCall, mandate: bytes) -> Replayed:
        asked = call.digest()
        found = next((one for one in self._left if one.call == asked), None)
        if found is None:
            error = ModelError(
                "model.not_recorded",
                "The run that is replayed never asked its model this.",
                hint="Prompts, package or data differ from then; run it with a model.",
            )
            return Replayed(call.failed(error.code), b"", b"", None, error)
        self._left.remove(found)
        use = found.use.model_copy(update={"tokens_in": 0, "tokens_out": 0, "cost": 0, "duration_ms": 0})
        value = canon.decode(found.value, bytes_max=ARTIFACT_BYTES_MAX) if found.value else None
        if found.use.code:
            return Replayed(use, found.request, found.response, None, _failure(found.use.code, value))
        return Replayed(use, found.request, found.response, value, None)


def recorded_failure(error: ModelError) -> bytes:
    """What a record keeps of a call that failed: its faults and a value that breaks the schema, which the next attempt was
    told and has to be told again, or it would not be the same question. Nothing where they have no canonical form."""
    kept: dict[str, Any] = {
        "message": error.message,
        "faults": [fault.to_data() for fault in error.faults],
        **({"unfit": error.value} if isinstance(error, UnfitAnswer) else {}),
    }
    try:
        return canon.encode(kept)
    except WireError:
        return b""


def _failure(code: str, kept: Any) -> ModelError:
    """The failure of which that was kept. A pause that a server had asked for is over."""
    if not isinstance(kept, dict):
        return ModelError(code, "The model failed so in the run that is replayed.")
    data = {"code": code, "message": kept["message"], "faults": kept["faults"]}
    if "unfit" not in kept:
        return error_of(ModelError, data)
    error = error_of(UnfitAnswer, data)
    error.value = kept["unfit"]
    return error
