"""The one entry of every actor: a batch of envelopes in, a batch out, blobs beside them, errors as data.

A service knows nothing of how the bytes travelled. It never raises to its caller: whatever goes wrong is an ``error``
reply to the envelope that caused it, and the rest of the batch is answered.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.wire.envelope import Envelope, Role, pack, unpack
from duly.protocol.wire.errors import DulyError, RuntimeFault, WireError, error_from_data
from duly.protocol.wire.limits import ENVELOPES_REMEMBERED
from duly.protocol.wire.model import Model

from .messages import KINDS, NAMES, Failed

Parcel = tuple[list[bytes], list[bytes]]
log = logging.getLogger("duly")


@dataclass(frozen=True, slots=True)
class Reply:
    """A typed answer and its blobs."""

    body: Model
    blobs: list[bytes] = field(default_factory=list)


Handler = Callable[[Any, list[bytes], Envelope], Awaitable[Reply]]


class Service:
    """Takes the messages of one role. ``handlers`` maps body models to coroutine functions."""

    def __init__(self, role: Role, handlers: Mapping[type[Model], Handler]) -> None:
        self.role = role
        self._handlers = handlers
        self._kinds = {NAMES[model]: model for model in handlers}
        self._seen: OrderedDict[str, None] = OrderedDict()

    async def handle(self, envelopes: list[bytes], blobs: list[bytes]) -> Parcel:
        """One reply for each envelope, in order. Only a batch of one envelope carries blobs."""
        if len(envelopes) > 1 and blobs:
            fault = RuntimeFault("runtime.blobs", "Blobs travel with a single envelope.")
            return [self._error("", fault) for _ in envelopes], []
        replies: list[bytes] = []
        attached: list[bytes] = []
        for data in envelopes:
            reply, extra = await self._one(data, blobs)
            replies.append(reply)
            attached += extra
        return replies, attached

    async def _one(self, data: bytes, blobs: list[bytes]) -> tuple[bytes, list[bytes]]:
        cause = ""
        try:
            envelope, body = unpack(data, kinds=self._kinds, recipient=self.role)
            cause = envelope.id
            self._admit(envelope)
            reply = await self._handlers[type(body)](body, blobs, envelope)
            return pack(self._envelope(envelope.id, envelope.sender, reply.body)), reply.blobs
        except DulyError as error:
            return self._error(cause, error), []
        except Exception as error:
            # A fault of ours. The story stays in this process's log: it may hold what must not travel.
            log.exception("%s failed", self.role)
            fault = RuntimeFault(
                "runtime.internal", f"The {self.role} failed with {type(error).__name__}; see its log."
            )
            return self._error(cause, fault), []

    def _admit(self, envelope: Envelope) -> None:
        """Only the harness speaks to a service, and says each thing once."""
        if envelope.sender != "harness":
            raise WireError("wire.wrong_sender", f"A {self.role} takes no orders from a {envelope.sender}.")
        if envelope.id in self._seen:
            raise WireError("wire.replayed", "This message came before.")
        self._seen[envelope.id] = None
        if len(self._seen) > ENVELOPES_REMEMBERED:
            self._seen.popitem(last=False)

    def _envelope(self, cause: str, recipient: Role, body: Model) -> Envelope:
        return Envelope(
            id=f"re:{cause}"[:64],
            kind=NAMES[type(body)],
            sender=self.role,
            recipient=recipient,
            cause=cause,
            body=body.to_data(),
        )

    def _error(self, cause: str, error: DulyError) -> bytes:
        return pack(self._envelope(cause, "harness", Failed(error=error.to_data())))


def read_reply(data: bytes) -> Model:
    """The body of a reply. Raises the error that it carries, or ``WireError``."""
    _, body = unpack(data, kinds=KINDS)
    if isinstance(body, Failed):
        raise error_from_data(body.error)
    return body
