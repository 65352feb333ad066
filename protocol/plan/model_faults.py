"""How calls of a language model fail: which failures pass, how long a server asks to be left alone, and an answer that is
JSON but not under its schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..wire.errors import DulyError, Fault, ModelError

# The next call may go well: nothing about the call itself was wrong.
TRANSIENT = frozenset(
    ("model.unreachable", "model.rate_limited", "model.unavailable", "model.lost", "model.timeout")
)
_AFTER = re.compile(r"The server asks for a pause of (\d+) s\.")


class UnfitAnswer(ModelError):
    """``model.bad_answer`` with the value that breaks the schema, for whoever tells the model what is wrong with it.

    The value is never an answer. Like every error it travels as data, and the value beside it.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        place: str | None = None,
        hint: str | None = None,
        story: Sequence[str] = (),
        faults: Sequence[Fault] = (),
        value: Any = None,
    ) -> None:
        super().__init__(code, message, place=place, hint=hint, story=story, faults=faults)
        self.value = value


def pause_story(seconds: int) -> str:
    """The sentence of an error's story with the pause that a server asks for."""
    return f"The server asks for a pause of {seconds} s."


def pause_seconds(error: DulyError) -> int | None:
    """The pause that the server asked for, in whole seconds; ``None`` where it named none."""
    found = [int(match.group(1)) for line in error.story if (match := _AFTER.fullmatch(line))]
    return found[0] if found else None
