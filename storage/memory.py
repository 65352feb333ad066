"""The stores in memory, for tests and simulations: the same answers, the same refusals, nothing on disk.

One contract suite (`tests/storage/test_contract.py`) holds them and the real ones to the same behaviour.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from duly.protocol.wire.errors import LogError, StorageError
from duly.protocol.wire.ids import Digest, is_digest, is_name, salted_digest
from duly.protocol.wire.limits import (
    ARTIFACT_BYTES_MAX,
    ARTIFACTS_PER_PUT_MAX,
    CACHE_MAX_AGE_DAYS,
    FRAME_BYTES_MAX,
)

from .artifacts import SALT_BYTES
from .memory_journal import MemoryJournal
from .plan_cache import DAY_MS, CacheEntry, CacheStats, Outcome

__all__ = ["MemoryArtifacts", "MemoryJournal", "MemoryPlanCache"]

K = TypeVar("K")


class MemoryArtifacts:
    """An artifact store in memory."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._salts: dict[str, bytes] = {}
        self._values: dict[tuple[str, str], bytes] = {}
        self._erased: set[str] = set()
        self._expiries: dict[tuple[str, str], int] = {}
        self._expired: set[tuple[str, str]] = set()
        self._closed = False

    def salt_for(self, run_id: str) -> bytes:
        self._check(run_id)
        if run_id in self._erased:
            raise LogError("log.artifact_erased", "The artifacts of this run were erased.", place=run_id)
        if run_id not in self._salts:
            self._salts[run_id] = self._random_bytes(SALT_BYTES)
        return self._salts[run_id]

    def put_many(
        self, run_id: str, values: Mapping[K, bytes], *, expires_ms: int | None = None
    ) -> dict[K, Digest]:
        if len(values) > ARTIFACTS_PER_PUT_MAX:
            raise StorageError(
                "storage.group_too_large", f"At most {ARTIFACTS_PER_PUT_MAX} artifacts at a time."
            )
        if any(len(data) > ARTIFACT_BYTES_MAX for data in values.values()):
            raise StorageError(
                "storage.artifact_too_large", f"An artifact has at most {ARTIFACT_BYTES_MAX} bytes."
            )
        salt = self.salt_for(run_id) if values else b""
        digests = {name: salted_digest(salt, data) for name, data in values.items()}
        self._expired -= {(run_id, digest) for digest in digests.values()}
        self._values.update({(run_id, digests[name]): bytes(data) for name, data in values.items()})
        if expires_ms is not None:
            self._expiries.update({(run_id, digest): expires_ms for digest in digests.values()})
        return digests

    def put(self, run_id: str, data: bytes) -> Digest:
        return self.put_many(run_id, {0: data})[0]

    def get(self, run_id: str, digest: str) -> bytes:
        self._check(run_id)
        place = f"{run_id}/{digest}"
        if run_id in self._erased:
            raise LogError("log.artifact_erased", "The artifacts of this run were erased.", place=place)
        if (run_id, digest) in self._expired:
            raise LogError(
                "log.artifact_erased", "This artifact's time was over and it was erased.", place=place
            )
        if not is_digest(digest) or (run_id, digest) not in self._values:
            raise LogError("log.artifact_missing", "This artifact is not kept here.", place=place)
        return self._values[run_id, digest]

    def digests(self, run_id: str) -> list[Digest]:
        self._check(run_id)
        return sorted(Digest(digest) for run, digest in self._values if run == run_id)

    def is_erased(self, run_id: str) -> bool:
        self._check(run_id)
        return run_id in self._erased

    def erase(self, run_id: str) -> int:
        digests = self.digests(run_id)
        for digest in digests:
            del self._values[run_id, digest]
        self._salts.pop(run_id, None)
        self._erased.add(run_id)
        return len(digests)

    def expire(self, now_ms: int) -> int:
        _check_open(self._closed)
        due = {key for key, expires_ms in self._expiries.items() if expires_ms <= now_ms}
        gone = due & self._values.keys()
        for key in due:
            del self._expiries[key]
        for key in gone:
            del self._values[key]
        self._expired |= gone
        return len(gone)

    def close(self) -> None:
        self._closed = True

    def _check(self, run_id: str) -> None:
        _check_open(self._closed)
        if not is_name(run_id):
            raise StorageError("storage.run_id", f"{run_id[:80]!r} is no id of a run.")


class MemoryPlanCache:
    """A plan cache in memory."""

    def __init__(self) -> None:
        self._entries: dict[str, CacheEntry] = {}
        self._counts: dict[Outcome, int] = {"hit": 0, "miss": 0, "stale": 0}
        self._closed = False

    def get(self, key: str) -> CacheEntry | None:
        self._check(key)
        return self._entries.get(key)

    def put(self, key: str, value: bytes, now_ms: int) -> None:
        self._check(key)
        if len(value) > FRAME_BYTES_MAX:
            raise StorageError(
                "storage.cache_entry_too_large", f"A cached plan has at most {FRAME_BYTES_MAX} bytes."
            )
        self._entries[key] = CacheEntry(key, now_ms, 0, 0, len(value), bytes(value))

    def count(self, outcome: Outcome, key: str, now_ms: int) -> None:
        self._check(key)
        self._counts[outcome] += 1
        entry = self._entries.get(key)
        if outcome == "hit" and entry is not None:
            self._entries[key] = replace(entry, last_hit_ms=now_ms, hits=entry.hits + 1)

    def list(self) -> builtins.list[CacheEntry]:
        _check_open(self._closed)
        bare = [replace(entry, value=None) for entry in self._entries.values()]
        return sorted(bare, key=lambda entry: (-entry.created_ms, entry.key))

    def evict(self, now_ms: int, max_age_days: int = CACHE_MAX_AGE_DAYS) -> int:
        return self._remove(lambda entry: now_ms - entry.created_ms > max_age_days * DAY_MS)

    def clear(self) -> int:
        return self._remove(lambda entry: True)

    def stats(self) -> CacheStats:
        entries = self.list()
        total = sum(entry.value_bytes for entry in entries)
        counts = self._counts
        return CacheStats(counts["hit"], counts["miss"], counts["stale"], len(entries), total)

    def close(self) -> None:
        self._closed = True

    def _remove(self, chosen: Callable[[CacheEntry], bool]) -> int:
        keys = [entry.key for entry in self.list() if chosen(entry)]
        for key in keys:
            del self._entries[key]
        return len(keys)

    def _check(self, key: str) -> None:
        _check_open(self._closed)
        if not is_digest(key):
            raise StorageError(
                "storage.cache_key", f"A key of the plan cache has 64 hexadecimal digits: {key[:80]!r}."
            )


def _check_open(closed: bool) -> None:
    if closed:
        raise StorageError("storage.closed", "This store was closed.", place="memory")
