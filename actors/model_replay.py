"""Recorded answers in place of a model: the same question gets the answer that it got then, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.model_call import ModelCall, ModelUse, Used
from duly.protocol.wire import canon
from duly.protocol.wire.errors import ModelError
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
            use = ModelUse(
                purpose=call.purpose,
                prompt=call.prompt,
                prompt_digest=call.prompt_digest,
                model="",
                mode="strict",
                code="model.not_recorded",
            )
            error = ModelError(
                "model.not_recorded",
                "The run that is replayed never asked its model this.",
                hint="Prompts, package or data differ from then; run it with a model.",
            )
            return Replayed(use, b"", b"", None, error)
        self._left.remove(found)
        failed = None
        if found.use.code:
            failed = ModelError(found.use.code, "The model failed so in the run that is replayed.")
        use = found.use.model_copy(update={"tokens_in": 0, "tokens_out": 0, "cost": 0, "duration_ms": 0})
        value = canon.decode(found.value, bytes_max=ARTIFACT_BYTES_MAX) if found.value else None
        return Replayed(use, found.request, found.response, value, failed)
