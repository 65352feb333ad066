"""An Executor: runs granted steps through its node's tool hosts."""

from __future__ import annotations

from duly.hosts.client import HostClient
from duly.protocol.authority.signing import key_id
from duly.storage.keys import KeyRing
from duly.storage.packages import PackageStore

from ..base import ServiceActor
from ..runtime.settings import HARNESS_KEY
from ..service import Service
from .service import ExecutorService


class Executor(ServiceActor):
    role = "Executor"

    def make(self) -> Service:
        hosts = {name: HostClient(self.settings.host_socket(name)) for name in ("read", "write")}
        public = KeyRing(self.settings.place.keys).public(HARNESS_KEY)
        packages = PackageStore(self.settings.place.packages)
        return ExecutorService(
            self.settings.node, hosts, lambda: {key_id(public): public}, packages
        ).service()
