"""Time and randomness of the harness, in one place so that tests can give their own."""

from __future__ import annotations

import secrets
import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970, for people and expiry."""

    def mono_ms(self) -> int:
        """Monotonic time in milliseconds, for durations."""

    def fresh(self) -> str:
        """32 hexadecimal digits that nobody can guess."""

    def random_bytes(self, count: int) -> bytes:
        """Random bytes, for salts."""


class SystemClock:
    """The machine's clocks and its random source."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def mono_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def fresh(self) -> str:
        return secrets.token_hex(16)

    def random_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)
