"""The PlanCache: keeps plans in an LMDB environment of its own."""

from __future__ import annotations

import time

from duly.protocol.authority.signing import key_id
from duly.storage.keys import KeyRing
from duly.storage.plan_cache import PlanCacheStore

from ..base import ServiceActor
from ..runtime.settings import HARNESS_KEY
from ..service import Service
from .service import PlanCacheService


class PlanCache(ServiceActor):
    role = "PlanCache"

    def make(self) -> Service:
        place = self.settings.place
        public = KeyRing(place.keys).public(HARNESS_KEY)
        store = PlanCacheStore.open(place.plan_cache)
        return PlanCacheService(
            store, lambda: {key_id(public): public}, lambda: time.time_ns() // 1_000_000
        ).service()
