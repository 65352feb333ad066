"""One HTTP exchange with a model server: the exact bytes of both sides, keys removed, and how it failed."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from duly.protocol.wire.errors import ModelError

from .mask import Mask


@dataclass(slots=True)
class Exchange:
    """What one request sent and got. Headers of the request, where keys stand, are never kept.

    ``status`` is 0 until a server has answered; ``fault`` says why there is no whole answer.
    """

    mask: Mask
    request: bytes = b""
    sent: bool = False
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    response: bytes = b""
    fault: ModelError | None = None

    def fail(self, code: str, message: str, *, hint: str | None = None) -> ModelError:
        """Notes and gives the error with which this exchange ended."""
        self.fault = ModelError(code, message, hint=hint)
        return self.fault


# The exchange of the task that is calling: the client library stands between the call and its transport.
CURRENT: ContextVar[Exchange] = ContextVar("exchange")
