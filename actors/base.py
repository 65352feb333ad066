"""The shape of an actor's class: one entry for messages, and who it is."""

from __future__ import annotations

import os
from typing import Any

from .runtime.process import begin
from .runtime.settings import Settings
from .service import Parcel, Service


class ServiceActor:
    """An actor around a service. Subclasses make the service; Ray makes the process."""

    role = ""

    def __init__(self, settings: dict[str, Any], name: str) -> None:
        self.settings = Settings.of(settings)
        self.name = name
        begin(self.settings, name)
        self.service = self.make()

    def make(self) -> Service:
        """The service of this actor, over what it holds."""
        raise TypeError(f"{type(self).__name__} makes no service")

    async def handle(self, envelopes: list[bytes], blobs: list[bytes]) -> Parcel:
        """A batch of envelopes in, a batch out."""
        return await self.service.handle(envelopes, blobs)

    async def process(self) -> dict[str, Any]:
        """Who this is: role, name, process id."""
        return {"role": self.role, "name": self.name, "pid": os.getpid()}
