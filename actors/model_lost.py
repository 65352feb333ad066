"""A call whose model host went away: what it may have taken, noted as if the host had said so."""

from __future__ import annotations

from duly.protocol.plan.model_call import ModelCall, ModelUse
from duly.protocol.wire.errors import ModelError, RuntimeFault
from duly.protocol.wire.limits import MODEL_ANSWER_TOKENS_MAX

# The supervisor starts the host again. With the first it had heard of the call; with the second it had not.
CODES = {"runtime.host_lost": "model.lost", "runtime.host_unreachable": "model.unreachable"}


def lost_error(fault: RuntimeFault) -> ModelError:
    """The fault of a host that is away as a failure of a model, which passes."""
    return ModelError(CODES[fault.code], fault.message, hint=fault.hint, story=[*fault.story, str(fault)])


def lost_use(call: ModelCall, code: str, duration_ms: int) -> ModelUse:
    """What a lost call took. Where the host had it, all that the host may have booked for it, which stays booked: a run's
    own books never hold less. Its price only the host knew."""
    prompt = answer = 0
    if code == "model.lost":
        prompt = min(call.prompt_tokens, call.tokens_max)
        answer = min(call.tokens_max - prompt, MODEL_ANSWER_TOKENS_MAX)
    return call.failed(code, tokens_in=prompt, tokens_out=answer, duration_ms=duration_ms)
