"""Carries parcels over Ray calls. The one place that turns Ray's ways of failing into duly's."""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from duly.protocol.wire.envelope import Role
from duly.protocol.wire.errors import RuntimeFault

from ..service import Parcel
from .settings import EXECUTOR_PREFIX

Handle = Any
EXECUTORS_LOOKED_UP_SECONDS = 5.0


class RayTransport:
    """Sends to named actors. ``control`` names the one actor of each control role; executors are found by their names.

    Executors come and go with nodes, so the list of them is looked up again when it is older than a few seconds, and
    whenever one of them was lost.
    """

    def __init__(self, control: dict[Role, str], namespace: str) -> None:
        self._control = control
        self._namespace = namespace
        self._handles: dict[str, Handle] = {}
        self._executors: list[str] = []
        self._looked = 0.0

    def count(self, role: Role) -> int:
        return len(self._names(role))

    def _names(self, role: Role) -> list[str]:
        if role in self._control:
            return [self._control[role]]
        now = time.monotonic()
        if not self._executors or now - self._looked > EXECUTORS_LOOKED_UP_SECONDS:
            named = ray.util.list_named_actors(all_namespaces=True)
            self._executors = sorted(
                one["name"]
                for one in named
                if one["namespace"] == self._namespace and one["name"].startswith(EXECUTOR_PREFIX)
            )
            self._looked = now
        return self._executors

    async def send(self, role: Role, index: int, envelopes: list[bytes], blobs: list[bytes]) -> Parcel:
        names = self._names(role)
        if not names:
            raise RuntimeFault("runtime.actor_lost", f"There is no {role} now.")
        name = names[index % len(names)]
        try:
            return await self._handle(name).handle.remote(envelopes, blobs)  # type: ignore[no-any-return]
        except (RayActorError, GetTimeoutError) as error:
            # Died or unreachable: whether the call was executed nobody can say.
            self._forget(name)
            raise RuntimeFault(
                "runtime.actor_lost", f"The {role} went away ({type(error).__name__})."
            ) from None
        except (RayError, ValueError) as error:
            self._forget(name)
            raise RuntimeFault(
                "runtime.actor_lost", f"The {role} cannot be reached ({type(error).__name__})."
            ) from None

    async def processes(self) -> list[dict[str, Any]]:
        """Role, name and process id of every actor that answers."""
        found = []
        for name in [*self._control.values(), *self._names("executor")]:
            try:
                found.append(await self._handle(name).process.remote())
            except (RayError, ValueError):
                self._forget(name)
        return found

    def _forget(self, name: str) -> None:
        self._handles.pop(name, None)
        self._looked = 0.0

    def _handle(self, name: str) -> Handle:
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = ray.get_actor(name, namespace=self._namespace)
        return handle
