"""How the harness speaks to the other actors: typed bodies in and out, whatever the transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from duly.protocol.wire.envelope import Envelope, Role, pack
from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.model import Model

from .messages import NAMES
from .service import Parcel, read_reply

T = TypeVar("T", bound=Model)


class Transport(Protocol):
    """Carries a parcel to an actor and its answer back.

    Raises ``RuntimeFault`` ``runtime.actor_lost`` when the actor went away: what it was asked may or may not have
    happened.
    """

    async def send(
        self, role: Role, index: int, envelopes: list[bytes], blobs: list[bytes], node: str = ""
    ) -> Parcel: ...

    def count(self, role: Role, node: str = "") -> int:
        """How many actors of a role there are, on one node where one is named."""

    def nodes(self) -> list[str]:
        """The nodes none of whose executors is away."""


class Caller:
    """Asks actors as the harness. ``new_id`` gives message ids that never repeat."""

    def __init__(self, transport: Transport, new_id: Callable[[], str]) -> None:
        self._transport = transport
        self._new_id = new_id
        self.epoch = 0

    def count(self, role: Role, node: str = "") -> int:
        return self._transport.count(role, node)

    def nodes(self) -> list[str]:
        return self._transport.nodes()

    async def ask(
        self,
        role: Role,
        body: Model,
        want: type[T],
        *,
        blobs: Sequence[bytes] = (),
        run_id: str = "",
        cause: str = "",
        index: int = 0,
        node: str = "",
    ) -> tuple[T, list[bytes]]:
        """The answer of an actor (on ``node``, where one is named), blobs beside it.

        Raises the error that it answered with, or ``RuntimeFault``.
        """
        envelope = Envelope(
            id=self._new_id(),
            kind=NAMES[type(body)],
            sender="harness",
            recipient=role,
            run_id=run_id,
            cause=cause,
            epoch=self.epoch,
            body=body.to_data(),
        )
        replies, attached = await self._transport.send(role, index, [pack(envelope)], list(blobs), node)
        reply = read_reply(replies[0])
        if not isinstance(reply, want):
            raise RuntimeFault("runtime.wrong_reply", f"The {role} answered with {type(reply).__name__}.")
        return reply, attached
