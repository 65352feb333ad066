"""Results on their way back: receipts signed in groups, one signature for many.

A group goes out when it is full, when the dispatch has nothing more to wait for, or after a few milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.grant import Grant
from duly.protocol.authority.receipt import Receipt, output_digest
from duly.protocol.wire.limits import (
    ARTIFACT_BYTES_MAX,
    ERROR_TEXT_CHARS_MAX,
    FRAME_BYTES_MAX,
    RECEIPT_DELAY_SECONDS,
    RECEIPTS_PER_GROUP_MAX,
)

from .framing import Message
from .tools.context import plain_text

_RECEIPT_BYTES = 1_000  # of a receipt and its nonce in a message, generously
_FINGERPRINT_BYTES = 250  # of a source's name and digest in a receipt, generously

Send = Callable[[Message, list[bytes]], None]


@dataclass(slots=True)
class Outcome:
    """How one call ended. ``arguments`` is the digest of the resolved argument bytes."""

    outcome: Literal["ok", "error", "unknown"]
    arguments: str
    started_ms: int
    code: str = ""
    message: str = ""
    transient: bool = False
    output: bytes = b""
    truncated: bool = False
    fingerprints: dict[str, str] = field(default_factory=dict)
    rows_scanned: int = 0
    duration_us: int = 0


class ReceiptGroup:
    """Collects the outcomes of one dispatch and sends them as ``results`` messages."""

    def __init__(self, host: str, key: Ed25519PrivateKey, request_id: int, send: Send) -> None:
        self._host = host
        self._key = key
        self._request_id = request_id
        self._send = send
        self._receipts: list[Receipt] = []
        self._outputs: list[tuple[str, bytes]] = []
        self._errors: dict[str, Message] = {}
        self._bytes = 0
        self._header_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, grant: Grant, outcome: Outcome) -> None:
        """One more result."""
        message = plain_text(outcome.message)[:ERROR_TEXT_CHARS_MAX]
        header_bytes = _RECEIPT_BYTES + _FINGERPRINT_BYTES * len(outcome.fingerprints) + 4 * len(message)
        if (
            self._bytes + len(outcome.output) > ARTIFACT_BYTES_MAX
            or self._header_bytes + header_bytes > FRAME_BYTES_MAX
        ):
            self.flush()
        self._header_bytes += header_bytes
        self._receipts.append(
            Receipt(
                run_id=grant.run_id,
                step_id=grant.step_id,
                attempt=grant.attempt,
                grant=grant.nonce,
                host=self._host,
                epoch=grant.epoch,
                outcome=outcome.outcome,
                code=outcome.code,
                transient=outcome.transient,
                arguments=outcome.arguments,
                output=output_digest(outcome.output) if outcome.outcome == "ok" else "",
                truncated=outcome.truncated,
                fingerprints=outcome.fingerprints,
                rows_scanned=outcome.rows_scanned,
                started_ms=outcome.started_ms,
                ended_ms=outcome.started_ms + outcome.duration_us // 1_000,
                duration_us=outcome.duration_us,
            )
        )
        if outcome.outcome == "ok":
            self._outputs.append((grant.nonce, outcome.output))
            self._bytes += len(outcome.output)
        else:
            self._errors[grant.nonce] = {
                "code": outcome.code,
                "message": message,
                "transient": outcome.transient,
            }
        if len(self._receipts) >= RECEIPTS_PER_GROUP_MAX:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RECEIPT_DELAY_SECONDS, self.flush)

    def flush(self) -> None:
        """Signs and sends what is there."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._receipts:
            return
        message = {
            "op": "results",
            "id": self._request_id,
            "receipts": Receipt.sign_all(self._receipts, self._key),
            "nonces": [receipt.grant for receipt in self._receipts],
            "errors": self._errors,
            "outputs": [nonce for nonce, _ in self._outputs],
        }
        blobs = [output for _, output in self._outputs]
        self._receipts, self._outputs, self._errors = [], [], {}
        self._bytes = self._header_bytes = 0
        self._send(message, blobs)
