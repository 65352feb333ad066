"""The key of the plan cache: SHA-256 over canonical ``[agent name, agent version, sorted tool names, request]``."""

from __future__ import annotations

from ..wire import canon
from ..wire.ids import Digest
from .agent import AgentSpec
from .request import Request


def cache_key(agent: AgentSpec, request: Request) -> Digest:
    """The key of a request to an agent. The request is normalised and nothing of it is cut off; parts count too."""
    words: list[object] = [agent.name, agent.version, sorted(agent.tools), request.normalised()]
    if request.parts:
        words.append([part.to_data() for part in request.parts])
    return canon.digest("plan-cache-key", words)
