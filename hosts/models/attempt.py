"""One call on its way: what was sent, what came back, what it took. Whatever ends the call finds it here."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.plan.model_call import ModelCall, ModelUse, OutputMode
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.limits import MODEL_BYTES_PER_TOKEN

from .exchange import Exchange
from .mask import Mask

_TOKENS_CREDIBLE_MAX = 10_000_000  # what a server says beyond this is a fault of its counting


@dataclass(slots=True)
class Attempt:
    """``exchange`` is the last request: refused ones before it are named in ``parameters``."""

    call: ModelCall
    model: str = ""
    mode: OutputMode = "strict"
    exchange: Exchange = field(default_factory=lambda: Exchange(Mask("")))
    parameters: dict[str, Any] = field(default_factory=dict)
    answer_tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    value: Any = None
    error: DulyError | None = None
    _began: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Its turn has come: what it waited for other calls of its run is not its own time."""
        self._began = time.monotonic()

    def counted(self, tokens_in: int, tokens_out: int) -> None:
        """Takes over what the server has counted; where it has not, the bytes of both sides tell."""
        if tokens_in > 0 and tokens_out >= 0 and max(tokens_in, tokens_out) <= _TOKENS_CREDIBLE_MAX:
            self.tokens_in, self.tokens_out = tokens_in, tokens_out
        else:
            self.tokens_in = self.call.prompt_tokens
            self.tokens_out = -(-len(self.exchange.response) // MODEL_BYTES_PER_TOKEN)

    def uncounted(self, code: str) -> None:
        """What a call that failed is taken to have cost: the server may have read all of it, and written on."""
        if code in ("model.timeout", "model.cancelled", "model.answer_too_large") and self.exchange.sent:
            self.tokens_in, self.tokens_out = self.call.prompt_tokens, self.answer_tokens
        elif code == "model.lost" or 200 <= self.exchange.status < 300:
            self.counted(0, 0)

    def use(self) -> ModelUse:
        return ModelUse(
            purpose=self.call.purpose,
            prompt=self.call.prompt,
            prompt_digest=self.call.prompt_digest,
            model=self.model,
            mode=self.mode,
            parameters=self.parameters,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost=self.cost,
            duration_ms=int((time.monotonic() - self._began) * 1_000),
            code=self.error.code if self.error is not None else "",
        )
