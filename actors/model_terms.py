"""What a message that has a model asked carries, and how the calls that were made travel back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from duly.protocol.plan.model_call import ModelUse, Used
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.model import Model

from .model_replay import ReplayAsks
from .model_session import Asks, Session


class UseTold(Model):
    """One call of a model: what it took, the digest of what was asked, and the blobs of request, response and value."""

    use: dict[str, Any]
    call: str
    request: int
    response: int
    value: int


class ModelTerms(Model):
    """On which terms a model may be asked: the signed mandate, all that it may take, a seed for pauses.

    With ``replay`` the answers come out of a record: each entry names its blobs like ``UseTold``.
    """

    run_id: str
    mandate: bytes
    tokens_max: int
    seed: int = 0
    replay: list[UseTold] | None = Field(default=None)

    def session(self, package: str, asks: Asks, blobs: Sequence[bytes]) -> Session:
        """The work of one message with a model, or with a record in its place."""
        if self.replay is not None:
            asks = ReplayAsks(heard(self.replay, blobs))
        return Session(
            asks,
            package=package,
            run_id=self.run_id,
            mandate=self.mandate,
            tokens_max=self.tokens_max,
            seed=self.seed,
        )


def told(uses: Sequence[Used], blobs: list[bytes]) -> list[UseTold]:
    """Calls as they travel: their bytes are appended to ``blobs``."""
    found = []
    for one in uses:
        start = len(blobs)
        blobs += [one.request, one.response, one.value]
        found.append(
            UseTold(use=one.use.to_data(), call=one.call, request=start, response=start + 1, value=start + 2)
        )
    return found


def heard(uses: Sequence[UseTold], blobs: Sequence[bytes]) -> list[Used]:
    """The calls that a message told of. Raises ``WireError`` for what is none."""
    if any(max(one.request, one.response, one.value) >= len(blobs) for one in uses):
        raise WireError("wire.blob_count", "The message names blobs that did not come.")
    return [
        Used(
            use=ModelUse.from_data(
                one.use, error=WireError, code="wire.bad_body", what="What a call of a model took"
            ),
            call=one.call,
            request=blobs[one.request],
            response=blobs[one.response],
            value=blobs[one.value],
        )
        for one in uses
    ]
