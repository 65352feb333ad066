"""The Harness: owns run state, budgets, retries and stopping; signs grants; serves the front door."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Any

import ray

from duly import __version__
from duly.protocol.wire.envelope import Role

from ..runtime.process import begin
from ..runtime.settings import NAMESPACE, Settings
from ..runtime.transport import RayTransport
from .runtime import HarnessRuntime

log = logging.getLogger("duly")
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
        self._transport = RayTransport(CONTROL, NAMESPACE, self._settings.node)
        self._runtime: HarnessRuntime | None = None
        self._starting: asyncio.Future[None] | None = None
        context = ray.get_runtime_context()
        if context.was_current_actor_reconstructed:
            # Whoever created the first incarnation has left. Ray refuses calls of an actor that is being started again,
            # unless it may repeat them, and starting happens once however often it is asked for.
            context.current_actor.started_again.options(max_task_retries=-1).remote()

    async def started(self) -> dict[str, Any]:
        """Starts, once, and tells who this is."""
        if self._starting is None:
            self._runtime = HarnessRuntime(self._settings, self._transport, self._transport.processes)
            self._starting = asyncio.ensure_future(self._runtime.start())
        await self._starting
        return {"role": "Harness", "pid": os.getpid()}

    async def version(self) -> str:
        """The version of duly on the head; a node of another one does not join."""
        return __version__

    async def started_again(self) -> None:
        """Starts after a death. A harness that cannot is no use to anybody: the runtime ends, and its log says why."""
        try:
            await self.started()
        except Exception:
            log.exception("the harness cannot go on")
            os.kill(self._settings.supervisor, signal.SIGTERM)
