"""How calls of a language model fail: which failures pass, and how long a server asks to be left alone."""

from __future__ import annotations

import re

from ..wire.errors import DulyError

# The next call may go well: nothing about the call itself was wrong.
TRANSIENT = frozenset(
    ("model.unreachable", "model.rate_limited", "model.unavailable", "model.lost", "model.timeout")
)
_AFTER = re.compile(r"The server asks for a pause of (\d+) s\.")


def pause_story(seconds: int) -> str:
    """The sentence of an error's story with the pause that a server asks for."""
    return f"The server asks for a pause of {seconds} s."


def pause_seconds(error: DulyError) -> int | None:
    """The pause that the server asked for, in whole seconds; ``None`` where it named none."""
    found = [int(match.group(1)) for line in error.story if (match := _AFTER.fullmatch(line))]
    return found[0] if found else None
