"""The mandate: what the submitter signs. It fixes objective, tier, tools, scope, budget and expiry of a run."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ..plan.agent import GateMode, Planning, Schedule, Tier
from ..plan.descriptor import Effect
from ..plan.scope import Scope
from ..wire.errors import AuthorityError
from ..wire.model import Model
from .document import Document


class MandatedTool(Model):
    """A tool that the run may use: the descriptor it had when the submitter signed, and what it may do."""

    descriptor: str
    effect: Effect
    sensitive: bool = False


class Mandate(Document):
    """Signed by the submitter. ``request`` is the request's digest, ``package`` the snapshot's, times in ms."""

    payload_type: ClassVar[str] = "mandate"

    v: int = 1
    run_id: str
    agent: str
    agent_version: str
    package: str
    request: str
    tier: Tier
    planning: Planning
    gate: GateMode
    schedule: Schedule
    gate_ttl_seconds: int | None = None
    gated_tools: list[str] = Field(default_factory=list)
    tools: dict[str, MandatedTool]
    scope: Scope = Field(default_factory=Scope)
    budget: dict[str, int]
    shadow: bool = False
    from_run: str | None = None  # the ended run whose results this one may use
    plan: str | None = None  # content digest of a plan that the person brings
    issued_ms: int
    expires_ms: int
    nonce: str

    def check(self, *, run_id: str, now_ms: int) -> None:
        """Raises ``AuthorityError`` where this is not this run's mandate, or not valid now."""
        if self.run_id != run_id:
            raise AuthorityError("mandate.other_run", f"This mandate is for run {self.run_id}.")
        if now_ms > self.expires_ms:
            raise AuthorityError(
                "mandate.expired", "The mandate of this run has expired.", hint="Submit the request again."
            )

    def names(self, tool: str, descriptor: str) -> bool:
        """Whether this mandate names a tool with exactly this descriptor."""
        mandated = self.tools.get(tool)
        return mandated is not None and mandated.descriptor == descriptor
