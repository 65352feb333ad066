"""One suite for the stores on disk and their twins in memory."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.log.merkle import EMPTY_ROOT, leaf_hash, verify_consistency, verify_inclusion
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.ids import salted_digest
from duly.protocol.wire.limits import (
    ARTIFACT_BYTES_MAX,
    ARTIFACT_INLINE_BYTES_MAX,
    ARTIFACTS_PER_PUT_MAX,
    FRAME_BYTES_MAX,
    JOURNAL_GROUP_EVENTS_MAX,
    LEAF_BYTES_MAX,
)
from duly.storage.artifacts import ArtifactStore
from duly.storage.journal import Journal
from duly.storage.memory import MemoryArtifacts, MemoryJournal, MemoryPlanCache
from duly.storage.plan_cache import PlanCacheStore
from duly.storage.ports import Artifacts, JournalWriting, PlanCache

MakeEvent = Callable[..., dict[str, Any]]
ORIGIN = "duly.test/log"
KEY_HEX = "ab" * 32
DAY_MS = 24 * 3_600 * 1_000


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DulyError) as caught:
        call()
    return caught.value.code


@pytest.fixture(params=["disk", "memory"])
def journal(
    request: pytest.FixtureRequest, tmp_path: Path, log_key: Ed25519PrivateKey
) -> Iterator[JournalWriting]:
    made: JournalWriting = (
        Journal.open(tmp_path / "journal", log_key, ORIGIN)
        if request.param == "disk"
        else MemoryJournal(log_key, ORIGIN)
    )
    yield made
    made.close()


def test_an_empty_journal(journal: JournalWriting) -> None:
    assert (journal.size, journal.epoch(), journal.checkpoint()) == (0, 0, None)
    assert journal.head().root == EMPTY_ROOT
    assert list(journal.read()) == list(journal.read_run("run-1")) == journal.runs() == []
    assert journal.run("run-1") is None
    assert journal.append([]) == []
    assert journal.size == 0


def test_numbers_are_given_in_order_and_entries_come_back(
    journal: JournalWriting, make_event: MakeEvent
) -> None:
    events = [make_event(f"run-{number % 2}", facts={"number": number}) for number in range(7)]
    assert journal.append(events[:3]) == [0, 1, 2]
    assert journal.append([canon.encode(events[3]), *events[4:]]) == [3, 4, 5, 6]
    entries = list(journal.read())
    assert [entry.seq for entry in entries] == list(range(7))
    assert [entry.event for entry in entries] == [{**event, "seq": seq} for seq, event in enumerate(events)]
    assert [entry.data for entry in entries] == [canon.encode(entry.event) for entry in entries]
    assert [entry.seq for entry in journal.read(2, 5)] == [2, 3, 4]
    assert [entry.seq for entry in journal.read(5, 99)] == [5, 6]
    assert [entry.seq for entry in journal.entries([6, 0, 6])] == [6, 0, 6]
    assert code_of(lambda: list(journal.entries([7]))) == "log.entry_missing"


def test_a_checkpoint_covers_each_group(journal: JournalWriting, make_event: MakeEvent) -> None:
    roots = {0: EMPTY_ROOT}
    for count in (1, 1, 2, 5, 16):
        journal.append([make_event() for _ in range(count)])
        checkpoint = journal.checkpoint()
        assert checkpoint is not None
        assert (checkpoint.origin, checkpoint.size) == (ORIGIN, journal.size)
        assert checkpoint.root == journal.head().root
        roots[journal.size] = checkpoint.root
    size = journal.size
    for entry in journal.read():
        proof = journal.inclusion_proof(entry.seq, size)
        assert verify_inclusion(leaf_hash(entry.data), entry.seq, size, proof, roots[size])
    for old, root in roots.items():
        assert verify_consistency(old, root, size, roots[size], journal.consistency_proof(old, size))


def test_the_same_events_give_the_same_signed_bytes_anywhere(
    journal: JournalWriting, make_event: MakeEvent, log_key: Ed25519PrivateKey
) -> None:
    events = [make_event() for _ in range(5)]
    twin = MemoryJournal(log_key, ORIGIN)
    for group in (events[:2], events[2:]):
        journal.append(group)
        twin.append(group)
    assert journal.head() == twin.head()


def test_runs_are_found_without_reading_the_log(journal: JournalWriting, make_event: MakeEvent) -> None:
    journal.append(
        [make_event("a", "run.submitted"), make_event("b", "run.submitted"), make_event("", "node.joined")]
    )
    journal.append([make_event("b", "step.started"), make_event("a-1", "run.submitted")])
    journal.append([make_event("b", "step.started"), make_event("a", "run.ended")])
    assert [run.run_id for run in journal.runs()] == ["a-1", "b", "a"]
    assert [run.run_id for run in journal.runs(limit=2)] == ["a-1", "b"]
    assert [entry.seq for entry in journal.read_run("a")] == [0, 6]
    assert [entry.seq for entry in journal.read_run("b")] == [1, 3, 5]
    assert journal.run_seqs("a-1") == [4]
    summary = journal.run("b")
    assert summary is not None
    assert (summary.first_seq, summary.last_seq, summary.entries, summary.last_kind) == (
        1,
        5,
        3,
        "step.started",
    )
    assert summary.latest == {"run.submitted": 1, "step.started": 5}
    assert summary.last_time_ms - summary.first_time_ms == 4
    assert journal.run("") is None


def test_a_hundred_runs_by_pages(journal: JournalWriting, make_event: MakeEvent) -> None:
    for number in range(100):
        journal.append([make_event(f"run-{number}")])
    assert [run.run_id for run in journal.runs()] == [f"run-{number}" for number in reversed(range(100))]
    assert len(journal.runs(limit=7)) == 7
    assert journal.runs(limit=0) == []


def test_a_refused_event_refuses_its_group(journal: JournalWriting, make_event: MakeEvent) -> None:
    journal.append([make_event()])
    before = journal.head()
    assert code_of(lambda: journal.append([make_event(), make_event(kind="")])) == "log.event"
    assert code_of(lambda: journal.append([make_event(), make_event(cause="e\u0301")])) == "wire.not_nfc"
    assert code_of(lambda: journal.append([make_event(), {**make_event(), "seq": 3}])) == "log.event"
    large = make_event(facts={"text": "x" * LEAF_BYTES_MAX})
    assert code_of(lambda: journal.append([make_event(), large])) == "log.leaf_too_large"
    many = itertools.repeat(canon.encode(make_event()), JOURNAL_GROUP_EVENTS_MAX + 1)
    assert code_of(lambda: journal.append(many)) == "log.group_too_large"
    assert journal.head() == before
    assert journal.append([make_event()]) == [1]


def test_an_older_epoch_is_refused_for_good(journal: JournalWriting, make_event: MakeEvent) -> None:
    assert journal.take_epoch() == 1
    assert code_of(lambda: journal.append([make_event(epoch=0)])) == "log.stale_epoch"
    journal.append([make_event(epoch=1)])
    assert journal.take_epoch() == 2
    assert code_of(lambda: journal.append([make_event(epoch=2), make_event(epoch=1)])) == "log.stale_epoch"
    assert code_of(lambda: journal.append([make_event(epoch=3)])) == "log.epoch_not_taken"
    assert journal.append([make_event(epoch=2)]) == [1]
    assert journal.epoch() == 2


def test_a_clock_that_steps_back_keeps_the_order_and_is_noted(
    journal: JournalWriting, make_event: MakeEvent
) -> None:
    hour_ms = 3_600_000
    now_ms = 1_790_000_000_000
    times = [now_ms, now_ms + 5, now_ms - hour_ms, now_ms - hour_ms + 1, now_ms + 5, now_ms + 6]
    journal.append([make_event(time_ms=time_ms) for time_ms in times[:3]])
    journal.append([make_event(time_ms=time_ms) for time_ms in times[3:]])
    assert [entry.event["time_ms"] for entry in journal.read()] == times
    assert journal.anomalies() == {2: hour_ms + 5, 3: hour_ms + 4}
    assert journal.head().time_ms == now_ms + 6


def test_a_reading_ends_where_the_log_ended_when_it_began(
    journal: JournalWriting, make_event: MakeEvent
) -> None:
    journal.append([make_event() for _ in range(3)])
    reading = journal.read()
    assert next(reading).seq == 0
    journal.append([make_event()])
    assert [entry.seq for entry in reading] == [1, 2]


def test_a_closed_journal_says_so(journal: JournalWriting, make_event: MakeEvent) -> None:
    journal.append([make_event()])
    journal.close()
    assert code_of(lambda: journal.append([make_event()])) == "storage.closed"
    assert code_of(lambda: list(journal.read())) == "storage.closed"


@pytest.fixture(params=["disk", "memory"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Artifacts]:
    counter = itertools.count(1)

    def random_bytes(size: int) -> bytes:
        return next(counter).to_bytes(size, "big")

    made: Artifacts = (
        ArtifactStore.open(tmp_path / "artifacts", random_bytes=random_bytes)
        if request.param == "disk"
        else MemoryArtifacts(random_bytes)
    )
    yield made
    made.close()


SIZES = [0, 1, ARTIFACT_INLINE_BYTES_MAX, ARTIFACT_INLINE_BYTES_MAX + 1, 3_000_000]


def test_artifacts_are_named_by_salt_and_bytes(artifacts: Artifacts) -> None:
    salt = artifacts.salt_for("run-1")
    assert artifacts.salt_for("run-1") == salt == (1).to_bytes(16, "big")
    values = {f"v{size}": bytes(size) for size in SIZES}
    digests = artifacts.put_many("run-1", values)
    assert digests == {name: salted_digest(salt, data) for name, data in values.items()}
    assert {name: artifacts.get("run-1", digest) for name, digest in digests.items()} == values
    assert artifacts.digests("run-1") == sorted(digests.values())
    assert artifacts.put("run-1", b"\0") == digests["v1"]
    other = artifacts.put("run-2", b"\0")
    assert other != digests["v1"]
    assert artifacts.salt_for("run-2") != salt
    assert artifacts.put_many("run-3", {}) == {}


def test_runs_do_not_see_each_others_artifacts(artifacts: Artifacts) -> None:
    digest = artifacts.put("run-1", b"data")
    artifacts.put("run", b"data")
    for run_id in ("run", "run-2", "run-1-"):
        assert code_of(lambda run_id=run_id: artifacts.get(run_id, digest)) == "log.artifact_missing"  # type: ignore[misc]
    assert artifacts.digests("run-1") == [digest]


@pytest.mark.parametrize("digest", ["", "x", "AB" * 32, "ab" * 31, "../" * 10, KEY_HEX])
def test_what_is_not_kept_is_missing(artifacts: Artifacts, digest: str) -> None:
    artifacts.put("run-1", b"data")
    assert code_of(lambda: artifacts.get("run-1", digest)) == "log.artifact_missing"


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "a\0b", "\u00e9", "x" * 129, "x" * 512])
def test_run_ids_that_are_none(artifacts: Artifacts, run_id: str) -> None:
    for call in (
        lambda: artifacts.put(run_id, b""),
        lambda: artifacts.get(run_id, KEY_HEX),
        lambda: artifacts.erase(run_id),
        lambda: artifacts.salt_for(run_id),
    ):
        assert code_of(call) == "storage.run_id"


def test_erased_artifacts_are_gone_and_said_to_be(artifacts: Artifacts) -> None:
    digests = artifacts.put_many("run-1", {size: bytes([1]) * size for size in SIZES})
    kept = artifacts.put("run-2", b"data")
    assert artifacts.erase("run-1") == len(SIZES)
    for digest in digests.values():
        assert code_of(lambda digest=digest: artifacts.get("run-1", digest)) == "log.artifact_erased"  # type: ignore[misc]
    assert artifacts.is_erased("run-1") and not artifacts.is_erased("run-2")
    assert artifacts.digests("run-1") == []
    assert artifacts.get("run-2", kept) == b"data"
    assert artifacts.erase("run-1") == 0
    assert code_of(lambda: artifacts.put("run-1", b"again")) == "log.artifact_erased"
    assert code_of(lambda: artifacts.salt_for("run-1")) == "log.artifact_erased"


def test_artifacts_whose_time_is_over(artifacts: Artifacts) -> None:
    kept = artifacts.put("run-1", b"query")
    rows = artifacts.put_many("run-1", {size: b"r" * size for size in SIZES[1:]}, expires_ms=5_000)
    later = artifacts.put_many("run-2", {"rows": b"later"}, expires_ms=5_001)["rows"]
    assert artifacts.expire(4_999) == 0
    assert artifacts.get("run-1", rows[1]) == b"r"
    assert artifacts.expire(5_000) == len(rows)
    for digest in rows.values():
        assert code_of(lambda digest=digest: artifacts.get("run-1", digest)) == "log.artifact_erased"  # type: ignore[misc]
    assert artifacts.digests("run-1") == [kept]
    assert artifacts.get("run-1", kept) == b"query" and artifacts.get("run-2", later) == b"later"
    assert not artifacts.is_erased("run-1")
    assert artifacts.expire(5_000) == 0
    assert artifacts.put("run-1", b"r") == rows[1]
    assert artifacts.get("run-1", rows[1]) == b"r"
    assert artifacts.erase("run-2") == 1
    assert artifacts.expire(9_000) == 0


def test_artifacts_beyond_the_limits(artifacts: Artifacts) -> None:
    too_large = memoryview(bytearray(ARTIFACT_BYTES_MAX + 1)).toreadonly()
    assert (
        code_of(lambda: artifacts.put_many("r", {"a": b"x", "b": bytes(too_large)}))
        == "storage.artifact_too_large"
    )
    many = {number: b"" for number in range(ARTIFACTS_PER_PUT_MAX + 1)}
    assert code_of(lambda: artifacts.put_many("r", many)) == "storage.group_too_large"
    assert artifacts.digests("r") == []


@pytest.fixture(params=["disk", "memory"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PlanCache]:
    made: PlanCache = (
        PlanCacheStore.open(tmp_path / "cache") if request.param == "disk" else MemoryPlanCache()
    )
    yield made
    made.close()


def key_of(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def test_plans_come_back_with_their_use(cache: PlanCache) -> None:
    assert cache.get(KEY_HEX) is None
    cache.put(KEY_HEX, b"plan", 1_000)
    cache.count("hit", KEY_HEX, 2_000)
    cache.count("hit", KEY_HEX, 3_000)
    cache.count("stale", KEY_HEX, 4_000)
    cache.count("miss", key_of(1), 5_000)
    entry = cache.get(KEY_HEX)
    assert entry is not None and entry.value == b"plan"
    assert (entry.created_ms, entry.last_hit_ms, entry.hits, entry.value_bytes) == (1_000, 3_000, 2, 4)
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.stale, stats.entries, stats.value_bytes) == (2, 1, 1, 1, 4)


def test_a_plan_put_again_begins_anew(cache: PlanCache) -> None:
    cache.put(KEY_HEX, b"old", 1_000)
    cache.count("hit", KEY_HEX, 2_000)
    cache.put(KEY_HEX, b"newer", 3_000)
    entry = cache.get(KEY_HEX)
    assert entry is not None
    assert (entry.value, entry.created_ms, entry.hits, entry.last_hit_ms) == (b"newer", 3_000, 0, 0)
    assert cache.stats().value_bytes == 5


def test_the_list_is_newest_first_and_without_values(cache: PlanCache) -> None:
    for number in range(5):
        cache.put(key_of(number), b"plan", 1_000 * number)
    assert [entry.key for entry in cache.list()] == [key_of(number) for number in (4, 3, 2, 1, 0)]
    assert all(entry.value is None for entry in cache.list())


def test_only_a_person_evicts_and_only_what_is_older(cache: PlanCache) -> None:
    for age in (0, 6, 7, 8, 4_000):
        cache.put(key_of(age), b"plan", 5_000 * DAY_MS - age * DAY_MS)
    cache.count("hit", key_of(8), 5_000 * DAY_MS)
    assert cache.get(key_of(4_000)) is not None
    assert cache.evict(5_000 * DAY_MS) == 2
    assert [entry.key for entry in cache.list()] == [key_of(age) for age in (0, 6, 7)]
    assert cache.evict(5_000 * DAY_MS, max_age_days=0) == 2
    assert cache.get(key_of(7)) is None
    assert cache.clear() == 1
    assert cache.list() == []
    assert cache.stats().hits == 1


def test_keys_and_values_that_are_refused(cache: PlanCache) -> None:
    for key in ("", "ab", "AB" * 32, "x" * 64, "ab" * 300):
        assert code_of(lambda key=key: cache.get(key)) == "storage.cache_key"  # type: ignore[misc]
        assert code_of(lambda key=key: cache.put(key, b"", 0)) == "storage.cache_key"  # type: ignore[misc]
    assert (
        code_of(lambda: cache.put(KEY_HEX, bytes(FRAME_BYTES_MAX + 1), 0)) == "storage.cache_entry_too_large"
    )


def test_closed_stores_say_so(artifacts: Artifacts, cache: PlanCache) -> None:
    artifacts.close()
    cache.close()
    assert code_of(lambda: artifacts.get("run-1", KEY_HEX)) == "storage.closed"
    assert code_of(lambda: cache.get(KEY_HEX)) == "storage.closed"
    assert code_of(lambda: cache.stats()) == "storage.closed"
