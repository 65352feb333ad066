"""What a message that has a model asked carries, and how the calls that were made travel back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from duly.protocol.machine.thinking import Used as Recorded
from duly.protocol.plan.model_call import ModelUse
from duly.protocol.wire import canon
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from duly.protocol.wire.model import Model

from .model_replay import Recording, ReplayAsks
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
            asks = ReplayAsks([_recording(one, blobs) for one in self.replay])
        return Session(
            asks,
            package=package,
            run_id=self.run_id,
            mandate=self.mandate,
            tokens_max=self.tokens_max,
            seed=self.seed,
        )


def told(session: Session, blobs: list[bytes]) -> list[UseTold]:
    """The calls of a session; their bytes are appended to ``blobs``."""
    found = []
    for one in session.uses:
        start = len(blobs)
        value = b"" if one.use.code else canon.encode(one.value)
        blobs += [one.request, one.response, value]
        found.append(
            UseTold(use=one.use.to_data(), call=one.call, request=start, response=start + 1, value=start + 2)
        )
    return found


def heard(uses: Sequence[UseTold], blobs: Sequence[bytes]) -> list[Recorded]:
    """The calls that a reply told of, for the record of the run."""
    return [
        Recorded(
            use=ModelUse.model_validate(one.use),
            call=one.call,
            request=blobs[one.request],
            response=blobs[one.response],
            value=blobs[one.value],
        )
        for one in uses
    ]


def recorded(recordings: Sequence[Recorded], blobs: list[bytes]) -> list[UseTold]:
    """A record for a replay, its bytes appended to ``blobs``."""
    found = []
    for one in recordings:
        start = len(blobs)
        blobs += [one.request, one.response, one.value]
        found.append(
            UseTold(use=one.use.to_data(), call=one.call, request=start, response=start + 1, value=start + 2)
        )
    return found


def _recording(one: UseTold, blobs: Sequence[bytes]) -> Recording:
    if max(one.request, one.response, one.value) >= len(blobs):
        raise WireError("wire.blob_count", "The message names blobs that did not come.")
    value = blobs[one.value]
    return Recording(
        one.call,
        ModelUse.from_data(one.use, error=WireError, code="wire.bad_body", what="A recorded call"),
        blobs[one.request],
        blobs[one.response],
        canon.decode(value, bytes_max=ARTIFACT_BYTES_MAX) if value else None,
    )
