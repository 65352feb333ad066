"""What a tool is: its descriptor, and the digest that pins it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..wire import canon
from ..wire.ids import Digest
from ..wire.limits import TOOL_TIMEOUT_SECONDS_DEFAULT, TOOL_TIMEOUT_SECONDS_MAX
from ..wire.model import Model

Effect = Literal["read", "write", "external"]


class Descriptor(Model):
    """A tool as its host describes it. One changed character is another descriptor, and needs a new approval.

    ``effect`` unknown means ``write``. ``resource`` names what a call touches (``sqlite:incidents``).
    ``idempotency``: ``none`` (a repeat repeats the effect), ``key`` (the tool takes duly's idempotency key and acts
    once for it), ``natural`` (a repeat changes nothing). ``probe`` names a tool of the same server that tells whether
    a call with these arguments happened. ``concurrent`` lets calls share a worker process.
    """

    server: str
    name: str
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    output_schema: dict[str, Any] = Field(default_factory=dict)
    effect: Effect = "write"
    resource: str = ""
    idempotency: Literal["none", "key", "natural"] = "none"
    probe: str | None = None
    authority: str = ""
    timeout_seconds: int = Field(default=TOOL_TIMEOUT_SECONDS_DEFAULT, ge=1, le=TOOL_TIMEOUT_SECONDS_MAX)
    concurrent: bool = False
    sensitive: bool = False
    evidence: Literal["observation", "association", "causal"] = "observation"

    @property
    def full_name(self) -> str:
        """``server.name``: two servers may have tools of one name, and they stay apart."""
        return f"{self.server}.{self.name}"

    @property
    def reads_only(self) -> bool:
        return self.effect == "read"

    def digest(self) -> Digest:
        return canon.digest("descriptor", self.to_data())
