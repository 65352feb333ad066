"""The Verifier: runs checks and judges, over a read-only host of its own."""

from __future__ import annotations

from duly.hosts.client import HostClient
from duly.hosts.models.client import ModelHostClient
from duly.storage.packages import PackageStore

from ..base import ServiceActor
from ..service import Service
from .critic_service import Critic
from .service import VerifierService


class Verifier(ServiceActor):
    role = "Verifier"

    def make(self) -> Service:
        host = HostClient(self.settings.host_socket("verify"))
        critic = ModelHostClient(self.settings.host_socket("model-critic"))
        return VerifierService(PackageStore(self.settings.place.packages).get, host, Critic(critic)).service()
