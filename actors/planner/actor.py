"""The Planner: request → plan draft. It holds playbooks and is given the catalogue; it reads no data."""

from __future__ import annotations

from duly.protocol.wire.envelope import Envelope
from duly.storage.packages import PackageStore

from ..base import ServiceActor
from ..messages import AskBinding, AskDraft
from ..service import Reply, Service
from .service import PlannerService


def planner_service(planner: PlannerService) -> Service:
    """The planner's messages over its pure core."""

    async def bind(body: AskBinding, blobs: list[bytes], envelope: Envelope) -> Reply:
        return Reply(planner.bind(body, blobs))

    async def draft(body: AskDraft, blobs: list[bytes], envelope: Envelope) -> Reply:
        return Reply(*planner.draft(body, blobs))

    return Service("planner", {AskBinding: bind, AskDraft: draft})


class Planner(ServiceActor):
    role = "Planner"

    def make(self) -> Service:
        return planner_service(PlannerService(PackageStore(self.settings.place.packages).get))
