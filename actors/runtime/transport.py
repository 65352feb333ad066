"""Carries parcels over Ray calls. The one place that turns Ray's ways of failing into duly's."""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from duly.protocol.wire.envelope import Role
from duly.protocol.wire.errors import RuntimeFault

from ..service import Parcel

Handle = Any


class RayTransport:
    """Sends to named actors. ``names`` lists the actors of each role."""

    def __init__(self, names: dict[Role, list[str]], namespace: str) -> None:
        self._names = names
        self._namespace = namespace
        self._handles: dict[str, Handle] = {}

    def count(self, role: Role) -> int:
        return len(self._names[role])

    async def send(self, role: Role, index: int, envelopes: list[bytes], blobs: list[bytes]) -> Parcel:
        name = self._names[role][index % len(self._names[role])]
        try:
            return await self._handle(name).handle.remote(envelopes, blobs)  # type: ignore[no-any-return]
        except (RayActorError, GetTimeoutError) as error:
            # Died or unreachable: whether the call was executed nobody can say.
            self._handles.pop(name, None)
            raise RuntimeFault(
                "runtime.actor_lost", f"The {role} went away ({type(error).__name__})."
            ) from None
        except (RayError, ValueError) as error:
            self._handles.pop(name, None)
            raise RuntimeFault(
                "runtime.actor_lost", f"The {role} cannot be reached ({type(error).__name__})."
            ) from None

    async def processes(self) -> list[dict[str, Any]]:
        """Role, name and process id of every actor that answers."""
        found = []
        for names in self._names.values():
            for name in names:
                try:
                    found.append(await self._handle(name).process.remote())
                except (RayError, ValueError):
                    self._handles.pop(name, None)
        return found

    def _handle(self, name: str) -> Handle:
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = ray.get_actor(name, namespace=self._namespace)
        return handle
