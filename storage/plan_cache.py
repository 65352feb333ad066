"""The plan cache on disk: opaque entries under 64-digit keys, with how often each was served.

Trusted: no; the caller signs entries and checks them, and this store hashes them again. May lose data: yes, it is a
cache; its entries are on disk when ``put`` returns, all the same. Nothing expires by itself: a person evicts.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from duly.protocol.wire import canon
from duly.protocol.wire.errors import LogError, StorageError
from duly.protocol.wire.ids import is_digest
from duly.protocol.wire.limits import CACHE_MAX_AGE_DAYS, FRAME_BYTES_MAX

from .lmdb_env import META, Environment, Transaction

FORMAT = "duly.plan_cache"
VERSION = 1
Outcome = Literal["hit", "miss", "stale"]

_ENTRIES = "entries"  # key (32 bytes) -> SHA-256 of the value (32 bytes) ‖ value
_USES = "uses"  # key (32 bytes) -> canonical {created_ms, hits, last_hit_ms, value_bytes}
_COUNTS_KEY = b"counts"
DAY_MS = 24 * 3_600 * 1_000


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry's use: when it was made, last served (0: never), how often; ``value`` is None in a listing."""

    key: str
    created_ms: int
    last_hit_ms: int
    hits: int
    value_bytes: int
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Look-ups by outcome since the cache was made, and what it holds now."""

    hits: int
    misses: int
    stale: int
    entries: int
    value_bytes: int


class PlanCacheStore:
    """The plan cache in a folder; one process writes, others read beside it."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    @classmethod
    def open(cls, path: Path, *, writer: bool = True) -> PlanCacheStore:
        """Opens, and as writer creates, the cache. Raises ``StorageError`` as ``Environment.open`` does."""
        return cls(Environment.open(path, FORMAT, VERSION, (_ENTRIES, _USES), writer=writer))

    def get(self, key: str) -> CacheEntry | None:
        """The entry under a key, or None. Counts nothing: only the caller knows whether it may be served.

        Raises ``LogError`` ``log.cache_entry_changed`` where its bytes are not those that were put.
        """
        raw = _key(key)

        def work(transaction: Transaction) -> tuple[bytes | None, bytes | None]:
            value = transaction.get(raw, db=self._env.database(_ENTRIES))
            return value, transaction.get(raw, db=self._env.database(_USES))

        record, use = self._env.read(work)
        if record is None or use is None:
            return None
        if hashlib.sha256(record[32:]).digest() != record[:32]:
            raise LogError(
                "log.cache_entry_changed", "This cached plan is not the one that was stored.", place=key
            )
        return _entry(key, use, record[32:])

    def put(self, key: str, value: bytes, now_ms: int) -> None:
        """Keeps a value under a key, in place of any other; its use starts anew."""
        raw = _key(key)
        if len(value) > FRAME_BYTES_MAX:
            raise StorageError(
                "storage.cache_entry_too_large", f"A cached plan has at most {FRAME_BYTES_MAX} bytes."
            )
        use = CacheEntry(key, now_ms, 0, 0, len(value))

        def work(transaction: Transaction) -> None:
            record = hashlib.sha256(value).digest() + value
            transaction.put(raw, record, db=self._env.database(_ENTRIES))
            transaction.put(raw, _pack(use), db=self._env.database(_USES))

        self._env.write(work)

    def count(self, outcome: Outcome, key: str, now_ms: int) -> None:
        """Counts a look-up; a hit also marks the entry as served."""
        raw = _key(key)

        def work(transaction: Transaction) -> None:
            counts = self._counts(transaction)
            counts[outcome] += 1
            transaction.put(_COUNTS_KEY, canon.encode(counts), db=self._env.database(META))
            use = transaction.get(raw, db=self._env.database(_USES))
            if outcome == "hit" and use is not None:
                old = _entry(key, use)
                new = CacheEntry(key, old.created_ms, now_ms, old.hits + 1, old.value_bytes)
                transaction.put(raw, _pack(new), db=self._env.database(_USES))

        self._env.write(work)

    def list(self) -> builtins.list[CacheEntry]:
        """Every entry without its value, the newest first."""
        return sorted(self._env.read(self._uses), key=lambda entry: (-entry.created_ms, entry.key))

    def evict(self, now_ms: int, max_age_days: int = CACHE_MAX_AGE_DAYS) -> int:
        """Removes entries that were made more than ``max_age_days`` days ago; returns how many."""
        return self._remove(lambda entry: now_ms - entry.created_ms > max_age_days * DAY_MS)

    def clear(self) -> int:
        """Removes every entry, keeps the counts; returns how many."""
        return self._remove(lambda entry: True)

    def stats(self) -> CacheStats:
        """Counts and sizes, from one view."""

        def work(transaction: Transaction) -> CacheStats:
            counts = self._counts(transaction)
            uses = self._uses(transaction)
            total = sum(entry.value_bytes for entry in uses)
            return CacheStats(counts["hit"], counts["miss"], counts["stale"], len(uses), total)

        return self._env.read(work)

    def close(self) -> None:
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _counts(self, transaction: Transaction) -> dict[str, int]:
        data = transaction.get(_COUNTS_KEY, db=self._env.database(META))
        return {"hit": 0, "miss": 0, "stale": 0} if data is None else dict(canon.decode(data))

    def _uses(self, transaction: Transaction) -> builtins.list[CacheEntry]:
        return [_entry(key.hex(), use) for key, use in transaction.cursor(db=self._env.database(_USES))]

    def _remove(self, chosen: Callable[[CacheEntry], bool]) -> int:
        def work(transaction: Transaction) -> int:
            keys = [bytes.fromhex(entry.key) for entry in self._uses(transaction) if chosen(entry)]
            for raw in keys:
                transaction.delete(raw, db=self._env.database(_ENTRIES))
                transaction.delete(raw, db=self._env.database(_USES))
            return len(keys)

        return self._env.write(work)


def _key(key: str) -> bytes:
    if not is_digest(key):
        raise StorageError(
            "storage.cache_key", f"A key of the plan cache has 64 hexadecimal digits, not {key[:80]!r}."
        )
    return bytes.fromhex(key)


def _pack(entry: CacheEntry) -> bytes:
    return canon.encode(
        {
            "created_ms": entry.created_ms,
            "hits": entry.hits,
            "last_hit_ms": entry.last_hit_ms,
            "value_bytes": entry.value_bytes,
        }
    )


def _entry(key: str, use: bytes, value: bytes | None = None) -> CacheEntry:
    return CacheEntry(key=key, value=value, **canon.decode(use))
