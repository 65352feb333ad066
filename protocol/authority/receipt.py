"""The receipt: what a host signs for a result. This grant, this output digest, this source fingerprint."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ..wire.errors import AuthorityError
from ..wire.ids import digest_bytes
from .document import Document
from .grant import Grant


class Receipt(Document):
    """Signed by a host. ``outcome`` ``unknown`` means that the call was cut off and may have had its effect.

    ``output`` is the digest of the output bytes (canonical msgpack of the tagged output), ``""`` without one.
    ``fingerprints`` maps source names to digests of what they were when read. Times are wall milliseconds of the host,
    ``duration_us`` is monotonic.
    """

    payload_type: ClassVar[str] = "receipt"

    v: int = 1
    run_id: str
    step_id: str
    attempt: int
    grant: str
    host: str
    epoch: int
    outcome: Literal["ok", "error", "unknown"]
    code: str = ""
    transient: bool = False
    arguments: str
    output: str = ""
    truncated: bool = False
    fingerprints: dict[str, str] = Field(default_factory=dict)
    rows_scanned: int = 0
    started_ms: int
    ended_ms: int
    duration_us: int

    def check(self, grant: Grant, output: bytes | None, arguments: str) -> None:
        """Raises ``AuthorityError`` where this is not the receipt of a grant for these resolved arguments and output."""
        if (self.run_id, self.step_id, self.attempt, self.grant) != (
            grant.run_id,
            grant.step_id,
            grant.attempt,
            grant.nonce,
        ):
            raise AuthorityError("receipt.other_grant", "The receipt is for another grant.")
        if self.arguments != arguments:
            raise AuthorityError(
                "receipt.args_mismatch", "The host ran other arguments than the granted ones."
            )
        if self.outcome == "ok" and (output is None or self.output != output_digest(output)):
            raise AuthorityError("receipt.output_mismatch", "The output is not the one that the host signed.")


def output_digest(data: bytes) -> str:
    """The digest of output bytes in a receipt."""
    return digest_bytes("output", data)
