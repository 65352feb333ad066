"""The plan cache's service: signed entries in, plans out, never an approval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duly.protocol.authority.plan_entry import PlanEntry
from duly.protocol.plan.cache_entry import differences
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request
from duly.protocol.wire import canon
from duly.protocol.wire.envelope import Envelope
from duly.protocol.wire.errors import AuthorityError, DulyError, RunError
from duly.storage.ports import PlanCache

from ..messages import CacheAct, CacheSaid, Done, LookedUp, LookUp, StoreEntry
from ..service import Reply, Service


class PlanCacheService:
    """``keys`` are the harness keys (key id to 32 bytes) whose entries are believed."""

    def __init__(
        self, store: PlanCache, keys: Callable[[], Mapping[str, bytes]], now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._keys = keys
        self._now_ms = now_ms

    def service(self) -> Service:
        return Service("plan_cache", {LookUp: self.look_up, StoreEntry: self.store, CacheAct: self.act})

    async def look_up(self, body: LookUp, blobs: list[bytes], envelope: Envelope) -> Reply:
        """``hit`` with the plan, ``stale`` with what differs, or ``miss``; a tampered entry is a miss that says so."""
        try:
            found = self._store.get(body.key)
        except DulyError:
            return self._miss(body.key, tampered=True)
        if found is None or found.value is None:
            return self._miss(body.key, tampered=False)
        try:
            entry, _ = PlanEntry.open(found.value, self._keys())
            if entry.key != body.key:
                raise AuthorityError("plan_entry.other_key", "This entry stands under another key.")
            plan = Plan.model_validate(canon.decode(entry.plan))
            was = Request.model_validate(canon.decode(entry.request))
        except (DulyError, ValueError):
            return self._miss(body.key, tampered=True)
        now = Request.model_validate(body.facts["request"])
        reasons = differences(entry.facts, body.facts["digests"], plan, was, now)
        self._store.count("stale" if reasons else "hit", body.key, self._now_ms())
        if reasons:
            return Reply(LookedUp(outcome="stale", reasons=reasons))
        return Reply(LookedUp(outcome="hit"), [entry.plan])

    def _miss(self, key: str, *, tampered: bool) -> Reply:
        self._store.count("miss", key, self._now_ms())
        return Reply(LookedUp(outcome="miss", tampered=tampered))

    async def store(self, body: StoreEntry, blobs: list[bytes], envelope: Envelope) -> Reply:
        entry, _ = PlanEntry.open(body.entry, self._keys())
        if entry.key != body.key:
            raise AuthorityError("plan_entry.other_key", "This entry is for another key.")
        self._store.put(body.key, body.entry, self._now_ms())
        return Reply(Done())

    async def act(self, body: CacheAct, blobs: list[bytes], envelope: Envelope) -> Reply:
        """What a person asks of the cache: nothing expires by itself."""
        actions: dict[str, Callable[[], dict[str, Any]]] = {
            "evict": lambda: {"evicted": self._store.evict(self._now_ms(), body.max_age_days)},
            "clear": lambda: {"evicted": self._store.clear()},
            "stats": self._stats,
            "list": lambda: {"entries": [self._line(entry) for entry in self._store.list()]},
            "show": lambda: self._show(body.key),
        }
        return Reply(CacheSaid(data=actions[body.action]()))

    def _stats(self) -> dict[str, Any]:
        stats = self._store.stats()
        return {
            "hits": stats.hits,
            "misses": stats.misses,
            "stale": stats.stale,
            "entries": stats.entries,
            "bytes": stats.value_bytes,
        }

    def _line(self, entry: Any) -> dict[str, Any]:
        return {
            "key": entry.key,
            "created_ms": entry.created_ms,
            "last_hit_ms": entry.last_hit_ms,
            "hits": entry.hits,
            "bytes": entry.value_bytes,
        }

    def _show(self, prefix: str) -> dict[str, Any]:
        keys = [entry.key for entry in self._store.list() if entry.key.startswith(prefix)] if prefix else []
        if len(keys) != 1:
            raise RunError(
                "run.unknown_entry", f"{len(keys)} entries of the cache begin with {prefix[:64]!r}."
            )
        found = self._store.get(keys[0])
        if found is None or found.value is None:
            raise RunError("run.unknown_entry", "That entry is gone.")
        entry, _ = PlanEntry.open(found.value, self._keys())
        return {
            **self._line(found),
            "plan": canon.decode(entry.plan),
            "plan_digest": entry.plan_digest,
            "request": canon.decode(entry.request)["text"],
            "run_id": entry.run_id,
            "verdict_seq": entry.verdict_seq,
            "facts": entry.facts,
        }
