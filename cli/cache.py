"""``duly cache``: plans that passed. Looking starts no runtime; removing goes through the runtime where one runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from duly.protocol.authority.plan_entry import PlanEntry
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from duly.protocol.wire.errors import PlanError, RunError, RuntimeFault, StorageError
from duly.storage.home import Home
from duly.storage.plan_cache import CacheEntry, PlanCacheStore

from . import exit_codes
from .client import FrontDoor
from .layout import count, labelled, moment, table
from .output import emit, say
from .progress import plan_lines

KEY_SHOWN = 12


def stats(home: Home, *, json: bool = False) -> int:
    """How often plans were served, and what is kept."""
    data = {"hits": 0, "misses": 0, "stale": 0, "entries": 0, "bytes": 0}
    store = _reader(home)
    if store is not None:
        with store:
            found = store.stats()
        data = {
            "hits": found.hits,
            "misses": found.misses,
            "stale": found.stale,
            "entries": found.entries,
            "bytes": found.value_bytes,
        }
    if json:
        emit(data)
    else:
        say(
            labelled(
                "served", f"{data['hits']:,} of {data['hits'] + data['misses'] + data['stale']:,} look-ups"
            )
        )
        say(labelled("not", f"{data['misses']:,} not there, {data['stale']:,} stale"))
        say(labelled("kept", f"{count(data['entries'], 'plan')}, {data['bytes']:,} bytes"))
    return exit_codes.DONE


def entries(home: Home, *, json: bool = False) -> int:
    """Every kept plan, the newest first."""
    store = _reader(home)
    found: list[CacheEntry] = []
    if store is not None:
        with store:
            found = store.list()
    if json:
        emit({"entries": [_object(entry) for entry in found]})
    elif not found:
        say("The plan cache is empty.")
    else:
        rows = [
            (entry.key[:KEY_SHOWN], moment(entry.created_ms), f"{entry.hits:,}", f"{entry.value_bytes:,}")
            for entry in found
        ]
        say(table(("key", "made", "served", "bytes"), rows))
    return exit_codes.DONE


def show(home: Home, prefix: str, *, json: bool = False) -> int:
    """One kept plan, by the first digits of its key. Its signature is the harness's to check when it serves it."""
    store = _reader(home)
    if store is None:
        raise _unknown(0, prefix)
    with store:
        keys = [entry.key for entry in store.list() if entry.key.startswith(prefix)] if prefix else []
        found = store.get(keys[0]) if len(keys) == 1 else None
    if found is None or found.value is None:
        raise _unknown(len(keys), prefix)
    entry = PlanEntry.peek(found.value)
    plan = Plan.from_data(
        canon.decode(entry.plan), error=PlanError, code="plan.malformed", what="This cached plan"
    )
    text = canon.decode(entry.request)["text"]
    if json:
        emit(
            {
                **_object(found),
                "request": text,
                "plan": plan.to_data(),
                "plan_digest": entry.plan_digest,
                "run_id": entry.run_id,
                "verdict_seq": entry.verdict_seq,
                "facts": entry.facts,
            }
        )
        return exit_codes.DONE
    lines = [
        *labelled("key", found.key),
        *labelled("request", str(text)),
        *labelled("made", f"{moment(found.created_ms)}, by run {entry.run_id}"),
        *labelled("served", count(found.hits, "time")),
    ]
    say([*lines, *plan_lines(plan)])
    return exit_codes.DONE


def evict(home: Home, max_age_days: int, *, json: bool = False) -> int:
    """Removes plans that are older than so many days."""
    now_ms = int(time.time() * 1000)
    removed = _changed(
        home, lambda store: store.evict(now_ms, max_age_days), "evict", max_age_days=max_age_days
    )
    return _said(removed, json=json)


def clear(home: Home, *, json: bool = False) -> int:
    """Removes every kept plan; the counts stay."""
    return _said(_changed(home, lambda store: store.clear(), "clear"), json=json)


def _changed(home: Home, work: Callable[[PlanCacheStore], int], action: str, **fields: Any) -> int:
    """Through the runtime, which holds the store, or, where none runs, here."""
    try:
        with FrontDoor.connect(home.socket_path("front")) as door:
            return int(door.call("cache", action=action, **fields)["evicted"])
    except RuntimeFault as fault:
        if fault.code != "runtime.absent":
            raise
    if not home.plan_cache.is_dir():
        return 0
    with PlanCacheStore.open(home.plan_cache) as store:
        return work(store)


def _said(removed: int, *, json: bool) -> int:
    if json:
        emit({"evicted": removed})
    else:
        say(f"{count(removed, 'plan')} removed.")
    return exit_codes.DONE


def _reader(home: Home) -> PlanCacheStore | None:
    try:
        return PlanCacheStore.open(home.plan_cache, writer=False) if home.plan_cache.is_dir() else None
    except StorageError as error:
        if error.code != "storage.absent":
            raise
    return None


def _object(entry: CacheEntry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "created_ms": entry.created_ms,
        "last_hit_ms": entry.last_hit_ms,
        "hits": entry.hits,
        "bytes": entry.value_bytes,
    }


def _unknown(number: int, prefix: str) -> RunError:
    return RunError(
        "run.unknown_entry",
        f"{count(number, 'plan')} of the cache begin with {prefix[:64]!r}; exactly one must.",
        hint="`duly cache list` shows the keys.",
    )
