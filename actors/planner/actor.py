"""The Planner: request → plan draft. It holds playbooks and is given the catalogue; it reads no data.

What a model has to say it asks its model host for, over a channel of its own.
"""

from __future__ import annotations

from duly.hosts.models.client import ModelHostClient
from duly.protocol.wire.envelope import Envelope
from duly.storage.packages import PackageStore

from ..base import ServiceActor
from ..messages import AskBinding, AskDraft
from ..model_session import Asks
from ..service import Reply, Service
from .model_service import ModelPlanner
from .service import PlannerService


def planner_service(planner: PlannerService, host: Asks) -> Service:
    """The planner's messages over its pure core and its model host."""
    model = ModelPlanner(planner, host)

    async def bind(body: AskBinding, blobs: list[bytes], envelope: Envelope) -> Reply:
        return Reply(planner.bind(body, blobs))

    async def draft(body: AskDraft, blobs: list[bytes], envelope: Envelope) -> Reply:
        if body.terms is not None:
            return await model.draft(body, blobs)
        return Reply(*planner.draft(body, blobs))

    return Service("planner", {AskBinding: bind, AskDraft: draft, **model.handlers()})


class Planner(ServiceActor):
    role = "Planner"

    def make(self) -> Service:
        host = ModelHostClient(self.settings.host_socket("model-planner"))
        return planner_service(PlannerService(PackageStore(self.settings.place.packages).get), host)
