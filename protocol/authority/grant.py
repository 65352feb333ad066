"""The grant: what the harness signs for a dispatch. This step, these argument bytes, this host, this epoch, once."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..plan.descriptor import Effect
from ..wire import canon
from ..wire.errors import AuthorityError
from ..wire.ids import Digest, digest_bytes
from .document import Document

HostClass = Literal["read", "write", "verify"]


class Grant(Document):
    """Signed by the harness, checked by executor and host.

    ``arguments`` is the digest of the canonical argument bytes. With ``template`` these bytes hold references to steps
    that run before in the same dispatch; the host resolves them from receipts that it signed itself.
    ``deadline_ms`` is how long the call may take, not a time of day.
    """

    payload_type: ClassVar[str] = "grant"

    v: int = 1
    run_id: str
    step_id: str
    attempt: int
    tool: str
    descriptor: str
    effect: Effect
    package: str
    plan: str
    arguments: str
    template: bool = False
    host: HostClass
    epoch: int
    issued_ms: int
    expires_ms: int
    deadline_ms: int
    rows_max: int
    idempotency_key: str = ""
    nonce: str

    def check(
        self, *, host: HostClass, arguments: bytes, epoch_seen: int, now_ms: int, skew_ms: int = 60_000
    ) -> None:
        """Raises ``AuthorityError`` with the code of what is wrong; the signature was checked by ``open``."""
        if self.host != host:
            raise AuthorityError("grant.other_host", f"This grant is for a {self.host} host.")
        if self.epoch < epoch_seen:
            raise AuthorityError(
                "grant.stale_epoch", f"This grant is of epoch {self.epoch}; {epoch_seen} has taken over."
            )
        if now_ms > self.expires_ms:
            raise AuthorityError("grant.expired", "This grant has expired.")
        if now_ms < self.issued_ms - skew_ms:
            raise AuthorityError("grant.from_the_future", "This grant was issued in the future.")
        if self.arguments != arguments_digest_of(arguments):
            raise AuthorityError(
                "grant.args_mismatch", f"The arguments of step {self.step_id} are not the granted ones."
            )


def arguments_bytes(arguments: object) -> bytes:
    """The canonical bytes of arguments: what is digested, granted, approved and executed."""
    return canon.encode(arguments)


def arguments_digest_of(data: bytes) -> Digest:
    """The digest of argument bytes."""
    return digest_bytes("arguments", data)


def arguments_digest(arguments: object) -> Digest:
    """The digest of arguments by their canonical bytes."""
    return arguments_digest_of(arguments_bytes(arguments))


def idempotency_key(*, run_id: str, tool: str, resource: str, arguments: str) -> Digest:
    """The key that stays the same for one effect across attempts and replans (DESIGN 9)."""
    return canon.digest("idempotency", [run_id, tool, resource, arguments])
