"""The moment of one decision."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """Time and randomness of one decision. ``fresh`` is 32 random hexadecimal digits."""

    now_ms: int
    fresh: str
