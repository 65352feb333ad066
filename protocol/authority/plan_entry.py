"""A plan in the cache, signed by the harness with the journal index of the verdict that it passed with.

There is no approval in it and no place for one: a hit skips planning, never the gate.
"""

from __future__ import annotations

from typing import ClassVar

from .document import Document


class PlanEntry(Document):
    """``plan`` and ``request`` are canonical bytes; ``facts`` see ``plan/cache_entry``."""

    payload_type: ClassVar[str] = "plan_entry"

    v: int = 1
    key: str
    plan: bytes
    plan_digest: str
    request: bytes
    facts: dict[str, str]
    run_id: str
    verdict_seq: int
    created_ms: int
