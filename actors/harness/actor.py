"""The Harness: owns run state, budgets, retries and stopping; signs grants; serves the front door."""

from __future__ import annotations

import os
from typing import Any

from duly.protocol.wire.envelope import Role

from ..runtime.process import begin
from ..runtime.settings import NAMESPACE, Settings
from ..runtime.transport import RayTransport
from .runtime import HarnessRuntime

CONTROL: dict[Role, str] = {
    "planner": "planner",
    "verifier": "verifier",
    "plan_cache": "plan_cache",
    "audit_journal": "audit_journal",
}


class Harness:
    """The actor. ``started`` returns once the front door is open; a new incarnation starts by itself."""

    def __init__(self, settings: dict[str, Any], name: str) -> None:
        self._settings = Settings.of(settings)
        begin(self._settings, name)
        self._transport = RayTransport(CONTROL, NAMESPACE)
        self._runtime: HarnessRuntime | None = None
        self._starting: Any = None

    async def started(self) -> dict[str, Any]:
        """Starts, once, and tells who this is."""
        import asyncio

        if self._starting is None:
            self._runtime = HarnessRuntime(self._settings, self._transport, self._transport.processes)
            self._starting = asyncio.ensure_future(self._runtime.start())
        await self._starting
        return {"role": "Harness", "pid": os.getpid()}
