"""Artifacts and cached plans on disk: reopening, other processes, changed bytes, failing disks (attack list 1, 43)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.limits import ARTIFACT_INLINE_BYTES_MAX
from duly.storage import lmdb_handle
from duly.storage.artifacts import ArtifactStore
from duly.storage.plan_cache import PlanCacheStore

Tamper = Callable[[Path, str, bytes, bytes | None], None]
LARGE = b"x" * (ARTIFACT_INLINE_BYTES_MAX + 1)
KEY = "ab" * 32


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DulyError) as caught:
        call()
    return caught.value.code


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    with ArtifactStore.open(tmp_path / "a") as store:
        salt = store.salt_for("run-1")
        digests = store.put_many("run-1", {"small": b"s", "large": LARGE})
        store.put("run-2", b"gone")
        store.erase("run-2")
    with ArtifactStore.open(tmp_path / "a") as store:
        assert store.salt_for("run-1") == salt
        assert store.get("run-1", digests["small"]) == b"s"
        assert store.get("run-1", digests["large"]) == LARGE
        assert store.put_many("run-1", {"small": b"s", "large": LARGE}) == digests
        assert store.is_erased("run-2")


def test_salts_are_random_by_default(tmp_path: Path) -> None:
    with ArtifactStore.open(tmp_path / "a") as store:
        salts = {store.salt_for(f"run-{number}") for number in range(20)}
    assert len(salts) == 20
    assert {len(salt) for salt in salts} == {16}


def test_another_process_reads_along(tmp_path: Path, child: Callable[..., Any]) -> None:
    with ArtifactStore.open(tmp_path / "a") as store:
        reader = child("artifact_reader", tmp_path / "a")
        assert reader.hear() == "open"
        small, large = store.put("run-1", b"s"), store.put("run-1", LARGE)
        assert reader.ask(f"run-1 {small}") == "1 73"
        assert reader.ask(f"run-1 {large}") == f"{len(LARGE)} 78"
        assert reader.ask(f"run-2 {small}") == "log.artifact_missing"
        store.erase("run-1")
        assert reader.ask(f"run-1 {large}") == "log.artifact_erased"
        assert reader.end() == 0


def test_a_reader_makes_no_salt_and_keeps_nothing(tmp_path: Path) -> None:
    ArtifactStore.open(tmp_path / "a").close()
    with ArtifactStore.open(tmp_path / "a", writer=False) as reader:
        assert code_of(lambda: reader.salt_for("run-1")) == "storage.read_only"
        assert code_of(lambda: reader.put("run-1", b"")) == "storage.read_only"
        assert code_of(lambda: reader.erase("run-1")) == "storage.read_only"


@pytest.mark.parametrize("data", [b"data", LARGE])
def test_changed_and_missing_bytes_are_told_apart(tmp_path: Path, tamper: Tamper, data: bytes) -> None:
    folder = tmp_path / "a"
    with ArtifactStore.open(folder) as store:
        digest = store.put("run-1", data)
    key = b"run-1\0" + bytes.fromhex(digest)
    file = folder / "files" / "run-1" / digest
    if data is LARGE:
        file.write_bytes(LARGE[:-1] + b"y")
    else:
        tamper(folder, "values", key, b"\0datA")
    with ArtifactStore.open(folder) as store:
        assert code_of(lambda: store.get("run-1", digest)) == "log.artifact_changed"
    if data is LARGE:
        file.unlink()
    else:
        tamper(folder, "values", key, None)
    with ArtifactStore.open(folder) as store:
        assert code_of(lambda: store.get("run-1", digest)) == "log.artifact_missing"
        # Putting it again makes it good.
        assert store.put("run-1", data) == digest
        assert store.get("run-1", digest) == data


def test_a_file_that_is_a_link_or_a_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with ArtifactStore.open(folder) as store:
        digest = store.put("run-1", LARGE)
        file = folder / "files" / "run-1" / digest
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        assert code_of(lambda: store.get("run-1", digest)) == "log.artifact_changed"
        file.unlink()
        file.mkdir()
        assert code_of(lambda: store.get("run-1", digest)) == "log.artifact_changed"


def test_of_a_put_that_fails_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with ArtifactStore.open(tmp_path / "a") as store:
        kept = store.put("run-1", b"kept")
        with monkeypatch.context() as patch:
            patch.setattr(lmdb_handle.Handle, "_write_once", fail)
            assert code_of(lambda: store.put_many("run-1", {"a": b"a", "b": LARGE})) == "storage.full"
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            assert code_of(lambda: store.put_many("run-1", {"a": b"a", "b": LARGE})) == "storage.full"
        assert store.digests("run-1") == [kept]
        digests = store.put_many("run-1", {"a": b"a", "b": LARGE})
        assert store.get("run-1", digests["b"]) == LARGE
        names = [path.name for path in (tmp_path / "a" / "files" / "run-1").iterdir()]
        assert names == [digests["b"]]


def test_an_interrupted_erasure_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    with ArtifactStore.open(tmp_path / "a") as store:
        digest = store.put("run-1", LARGE)
        with monkeypatch.context() as patch:
            patch.setattr("duly.storage.artifacts.shutil.rmtree", fail)
            assert code_of(lambda: store.erase("run-1")) == "storage.io"
        assert code_of(lambda: store.get("run-1", digest)) == "log.artifact_erased"
        assert (tmp_path / "a" / "files" / "run-1").exists()
        store.erase("run-1")
        assert not (tmp_path / "a" / "files" / "run-1").exists()


def test_a_changed_plan_is_refused_and_can_be_put_again(tmp_path: Path, tamper: Tamper) -> None:
    folder = tmp_path / "c"
    with PlanCacheStore.open(folder) as cache:
        cache.put(KEY, b"a plan", 1_000)
    tamper(folder, "entries", bytes.fromhex(KEY), bytes(32) + b"a plan")
    with PlanCacheStore.open(folder) as cache:
        assert code_of(lambda: cache.get(KEY)) == "log.cache_entry_changed"
        assert [entry.key for entry in cache.list()] == [KEY]
        cache.put(KEY, b"a plan", 2_000)
        entry = cache.get(KEY)
        assert entry is not None and entry.value == b"a plan"


def test_the_cache_stays_and_is_read_beside_its_writer(tmp_path: Path) -> None:
    with PlanCacheStore.open(tmp_path / "c") as cache:
        cache.put(KEY, b"a plan", 1_000)
        cache.count("hit", KEY, 2_000)
        with PlanCacheStore.open(tmp_path / "c", writer=False) as reader:
            assert reader.stats() == cache.stats()
            assert code_of(lambda: reader.put(KEY, b"", 0)) == "storage.read_only"
            assert code_of(reader.clear) == "storage.read_only"
    with PlanCacheStore.open(tmp_path / "c") as cache:
        assert (cache.stats().hits, cache.stats().entries) == (1, 1)
        assert cache.list()[0].last_hit_ms == 2_000
