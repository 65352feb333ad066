"""The mandate of a run: what the person signs when a request is submitted."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.authority.mandate import Mandate, MandatedTool
from duly.protocol.authority.tiers import TIERS
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import RequestError, RuntimeFault
from duly.protocol.wire.ids import RunId
from duly.protocol.wire.limits import MANDATE_TTL_SECONDS, MODEL_TOKENS_DEFAULT

_ALPHABET = (
    "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o, u: read aloud and typed again without mistakes
)
_RUN_ID_LETTERS = 10  # 50 random bits


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for beside the request. What is ``None`` or missing is the agent's own setting."""

    agent: str | None = None
    tier: str | None = None
    planning: str | None = None
    gate: str | None = None
    schedule: str | None = None
    budget: Mapping[str, int] = field(default_factory=dict)
    shadow: bool = False
    from_run: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A package as the harness opened it (the last answer to ``package.open``)."""

    digest: str
    name: str
    version: str
    agents: tuple[AgentSpec, ...]
    default_agent: str
    descriptors: Mapping[str, Descriptor]
    scope: Scope
    has_model: bool = False

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Opened:
        return cls(
            digest=answer["package"],
            name=answer["name"],
            version=answer["version"],
            agents=tuple(_agent(data) for data in answer["agents"]),
            default_agent=answer["default_agent"],
            descriptors={name: _descriptor(data) for name, data in answer["descriptors"].items()},
            scope=Scope.from_data(
                answer["scope"], error=RuntimeFault, code="runtime.bad_answer", what="The scope"
            ),
            has_model=bool(answer.get("has_model")),
        )

    def agent(self, name: str | None) -> AgentSpec:
        """The agent of that name, the package's first where none is named. Raises ``RequestError``."""
        wanted = name or self.default_agent
        for agent in self.agents:
            if agent.name == wanted:
                return agent
        known = ", ".join(agent.name for agent in self.agents)
        raise RequestError(
            "request.unknown_agent", f"The package has no agent {wanted!r}.", hint=f"It has: {known}."
        )


def new_run_id() -> RunId:
    """A run's name: ``r`` and ten letters or digits."""
    return RunId("r" + "".join(secrets.choice(_ALPHABET) for _ in range(_RUN_ID_LETTERS)))


def draft(
    opened: Opened, request: Request, order: Order, plan: Plan | None, *, now_ms: int | None = None
) -> Mandate:
    """The mandate that will be signed: the agent's settings with the order's on top, tools as described now."""
    agent = opened.agent(order.agent)
    issued = int(time.time() * 1000) if now_ms is None else now_ms
    settings: dict[str, Any] = {
        name: getattr(order, name) or getattr(agent, name)
        for name in ("tier", "planning", "gate", "schedule")
    }
    tools = {}
    for name in agent.tools:
        descriptor = opened.descriptors.get(name)
        if descriptor is not None:
            tools[name] = MandatedTool(
                descriptor=descriptor.digest(), effect=descriptor.effect, sensitive=descriptor.sensitive
            )
    models = {"model_tokens": MODEL_TOKENS_DEFAULT} if opened.has_model else {}
    return Mandate(
        run_id=new_run_id(),
        agent=agent.name,
        agent_version=agent.version,
        package=opened.digest,
        request=request.digest(),
        **settings,
        gate_ttl_seconds=agent.gate_ttl_seconds,
        gated_tools=agent.gated_tools,
        tools=tools,
        scope=opened.scope,
        budget={**models, **agent.budget, **order.budget},
        shadow=order.shadow,
        from_run=order.from_run,
        plan=None if plan is None else plan.content_digest(),
        issued_ms=issued,
        expires_ms=issued + MANDATE_TTL_SECONDS * 1000,
        nonce=secrets.token_hex(16),
    )


def amended(mandate: Mandate, request: Request, *, now_ms: int | None = None) -> Mandate:
    """The mandate of the same run for another request: nothing else of it changes but its time and its nonce.

    A plan that the person brought was for the old request, so none is named any more.
    """
    issued = int(time.time() * 1000) if now_ms is None else now_ms
    return mandate.model_copy(
        update={
            "request": request.digest(),
            "plan": None,
            "issued_ms": issued,
            "expires_ms": issued + MANDATE_TTL_SECONDS * 1000,
            "nonce": secrets.token_hex(16),
        }
    )


def approves(mandate: Mandate) -> list[str]:
    """The tools that this mandate itself approves, since its tier has no plan gate; shown when it is signed."""
    if TIERS[mandate.tier].plan_gate or mandate.shadow:
        return []
    return [
        name
        for name, tool in sorted(mandate.tools.items())
        if (tool.effect != "read" or tool.sensitive) and name not in mandate.gated_tools
    ]


def _agent(data: Any) -> AgentSpec:
    return AgentSpec.from_data(data, error=RuntimeFault, code="runtime.bad_answer", what="An agent")


def _descriptor(data: Any) -> Descriptor:
    return Descriptor.from_data(data, error=RuntimeFault, code="runtime.bad_answer", what="A descriptor")
