"""Prompts: files beside the code that uses them, each with a version in its name and a digest over its bytes.

prompts/plan.v1.md      another text is another file, ``plan.v2.md``; a released file never changes
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.ids import Digest, digest_bytes


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text, and what the journal says of it."""

    name: str
    version: str
    text: str
    digest: Digest

    @property
    def full_name(self) -> str:
        """``plan.v1``: the file's name without its ending."""
        return f"{self.name}.{self.version}"


@cache
def load(room: str, name: str, version: str = "v1") -> Prompt:
    """A prompt of a room (``planner``, ``verifier``). Raises ``RuntimeFault`` ``runtime.incomplete`` where it is not
    installed."""
    file = files(f"duly.actors.{room}") / "prompts" / f"{name}.{version}.md"
    try:
        data = file.read_bytes()
    except OSError:
        raise RuntimeFault(
            "runtime.incomplete",
            f"The prompt {name}.{version} is missing from this installation.",
            hint="Install duly again.",
        ) from None
    return Prompt(name, version, data.decode("utf-8"), digest_bytes("prompt", data))
