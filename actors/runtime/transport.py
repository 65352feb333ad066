"""Carries parcels over Ray calls. The one place that turns Ray's ways of failing into duly's."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import ray
from ray.exceptions import RayError

from duly.protocol.wire.envelope import Role
from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.limits import (
    ACTOR_IDLE_SECONDS,
    ACTOR_LOOK_SECONDS_MAX,
    ACTOR_RETURNS_SECONDS_MAX,
    EXECUTOR_HEARD_SECONDS,
    EXECUTOR_SILENT_SECONDS_MAX,
    EXECUTORS_LOOKED_UP_SECONDS,
)

from ..service import Parcel
from .settings import EXECUTOR_PREFIX, executor_prefix, node_of

Handle = Any
LOOK_SECONDS_MIN = 0.05
log = logging.getLogger("duly")


class RayTransport:
    """Sends to named actors. ``control`` names the one actor of each control role; executors are found by their names.

    Executors come and go with nodes, so the list of them is looked up again when it is older than a few seconds. Ray
    refuses calls to an actor that it is starting again; what is sent to a lost actor therefore waits until it answers a
    harmless question, and an actor that was silent for a while is asked that question first: a call that matters should
    not be the one that finds a dead process. On another node than ``node``, the caller's own, nobody waits: others can do
    the work, and who knows whether that node comes back.
    """

    def __init__(self, control: dict[Role, str], namespace: str, node: str) -> None:
        self._control = control
        self._namespace = namespace
        self._node = node
        self._handles: dict[str, Handle] = {}
        self._executors: list[str] = []
        self._looked = 0.0
        self._heard: dict[str, float] = {}
        self._lost: dict[str, asyncio.Task[None]] = {}

    def count(self, role: Role, node: str = "") -> int:
        return len(self._names(role, node))

    def nodes(self) -> list[str]:
        """The nodes none of whose executors is away, in order: where one is lost, the others often are too."""
        self._names("executor")
        away = {node_of(name) for name in self._lost}
        return sorted({node_of(name) for name in self._executors} - away)

    async def send(
        self, role: Role, index: int, envelopes: list[bytes], blobs: list[bytes], node: str = ""
    ) -> Parcel:
        name = await self._choose(role, index, node)
        try:
            answer = self._handle(name).handle.remote(envelopes, blobs)
            parcel: Parcel = await (self._watched(name, answer) if role == "executor" else answer)
        except (RayError, ValueError, TimeoutError) as error:
            # Died, frozen or unreachable: whether the call was executed nobody can say.
            self._lose(name, error)
            raise RuntimeFault(
                "runtime.actor_lost", f"The {role} went away ({type(error).__name__})."
            ) from None
        self._heard[name] = time.monotonic()
        return parcel

    async def _watched(self, name: str, answer: Any) -> Parcel:
        """The answer of an executor that may work for long. Raises ``TimeoutError`` once it is silent: frozen, or cut off.

        Ray notices neither for minutes. What it was given it may still use, so its effects are settled by another one.
        """
        call: asyncio.Future[Parcel] = asyncio.ensure_future(_awaited(answer))
        try:
            while not (await asyncio.wait([call], timeout=EXECUTOR_HEARD_SECONDS))[0]:
                if await self._asked(name, EXECUTOR_SILENT_SECONDS_MAX) is None and not call.done():
                    raise TimeoutError
            return call.result()
        finally:
            call.cancel()

    async def processes(self) -> list[dict[str, Any]]:
        """Role, name and process id of every actor that answers now."""
        names = [*self._control.values(), *self._names("executor")]
        answers = await asyncio.gather(*(self._asked(name, EXECUTOR_SILENT_SECONDS_MAX) for name in names))
        return [answer for answer in answers if answer is not None]

    def _names(self, role: Role, node: str = "") -> list[str]:
        """The actors of a role; of executors those that are not lost, all where every one is."""
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
        wanted = executor_prefix(node) if node else EXECUTOR_PREFIX
        here = [name for name in self._executors if name.startswith(wanted)]
        return [name for name in here if name not in self._lost] or here

    async def _choose(self, role: Role, index: int, node: str) -> str:
        """An actor that answered lately. Raises ``runtime.actor_lost`` where none comes back in time."""
        deadline = time.monotonic() + ACTOR_RETURNS_SECONDS_MAX
        while time.monotonic() < deadline:
            names = self._names(role, node)
            name = names[index % len(names)] if names else ""
            if name and await self._answers(name):
                return name
            back = [self._lost[one] for one in names if one in self._lost]
            if node not in ("", self._node) and len(back) == len(names):
                break
            if back:
                left = max(0.0, deadline - time.monotonic())
                await asyncio.wait(back, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            elif not names:
                await asyncio.sleep(ACTOR_LOOK_SECONDS_MAX)
        raise RuntimeFault("runtime.actor_lost", f"There is no {role} now.")

    async def _answers(self, name: str) -> bool:
        if name in self._lost:
            return False
        if time.monotonic() - self._heard.get(name, 0.0) < ACTOR_IDLE_SECONDS:
            return True
        patience = (
            EXECUTOR_SILENT_SECONDS_MAX if name.startswith(EXECUTOR_PREFIX) else ACTOR_RETURNS_SECONDS_MAX
        )
        if await self._asked(name, patience) is not None:
            return True
        self._lose(name, None)
        return False

    async def _asked(
        self, name: str, seconds_max: float = ACTOR_RETURNS_SECONDS_MAX
    ) -> dict[str, Any] | None:
        """What an actor says of itself, ``None`` where it does not answer."""
        try:
            said: dict[str, Any] = await asyncio.wait_for(self._handle(name).process.remote(), seconds_max)
        except (RayError, ValueError, TimeoutError):
            self._handles.pop(name, None)
            return None
        self._heard[name] = time.monotonic()
        return said

    def _lose(self, name: str, error: Exception | None) -> None:
        """Notes that an actor is away, and keeps looking for it."""
        self._handles.pop(name, None)
        self._heard.pop(name, None)
        self._looked = 0.0
        if name not in self._lost:
            log.warning("%s is away (%s)", name, type(error).__name__ if error else "no answer")
            self._lost[name] = asyncio.get_running_loop().create_task(self._await_return(name))

    async def _await_return(self, name: str) -> None:
        wait = LOOK_SECONDS_MIN
        try:
            while await self._asked(name) is None:
                await asyncio.sleep(wait)
                wait = min(wait * 1.5, ACTOR_LOOK_SECONDS_MAX)
            log.info("%s is back", name)
        finally:
            del self._lost[name]

    def _handle(self, name: str) -> Handle:
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = ray.get_actor(name, namespace=self._namespace)
        return handle


async def _awaited(answer: Any) -> Parcel:
    parcel: Parcel = await answer
    return parcel
