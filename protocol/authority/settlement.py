"""The settlement: with it the harness asks a host what became of grants of which nobody brought word.

A grant that the host has not used is void from then on: whoever still holds it (an executor that was frozen and thawed)
can do nothing with it any more, so the step may safely run under another grant.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ..wire import canon
from .document import Document


class Settlement(Document):
    """Signed by the harness. ``nonces`` are those of the grants, ``granted_ms`` is when the oldest of them was granted at
    the earliest: a host that may have forgotten grants of that time does not call them unused."""

    payload_type: ClassVar[str] = "settlement"

    v: int = 1
    host: str
    epoch: int
    granted_ms: int
    nonces: list[str] = Field(max_length=64)


def effect_nonce(*, run_id: str, step_id: str, attempt: int, wave: int, epoch: int) -> str:
    """The nonce of the grant of an effect. It follows from the record, so a later harness can ask about it."""
    return canon.digest("effect-nonce", [run_id, step_id, attempt, wave, epoch])[:32]
