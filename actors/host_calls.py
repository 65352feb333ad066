"""Calls of a host that may be starting again: nothing was sent to a host that cannot be reached, so waiting is safe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from duly.hosts.client import HostClient, ResultGroup
from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.limits import HOST_RETURNS_SECONDS_MAX

T = TypeVar("T")
LOOK_SECONDS = 0.1


async def run_patiently(host: HostClient, *given: Any, **named: Any) -> AsyncIterator[ResultGroup]:
    """``HostClient.run`` once the host answers. A host that is lost on the way raises ``runtime.host_lost`` as ever."""
    while True:
        try:
            async for group in host.run(*given, **named):
                yield group
            return
        except RuntimeFault as fault:
            if fault.code != "runtime.host_unreachable":
                raise
        await ask_patiently(host.hello)


async def ask_patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer of a host. Raises ``runtime.host_unreachable`` where it does not come back in time."""
    deadline = time.monotonic() + HOST_RETURNS_SECONDS_MAX
    while True:
        try:
            return await ask()
        except RuntimeFault as fault:
            if fault.code not in ("runtime.host_unreachable", "runtime.host_lost"):
                raise
            if time.monotonic() > deadline:
                raise RuntimeFault(
                    "runtime.host_unreachable", "The host does not come back.", place=fault.place
                ) from None
        await asyncio.sleep(LOOK_SECONDS)
