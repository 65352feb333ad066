"""The base of every stimulus: its own time and randomness, so that deciding stays pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Stimulus:
    kind: ClassVar[str]
    now_ms: int
    elapsed_ms: int = 0
    fresh: str
    cause: str = ""
    order: tuple[str, ...] = ()
