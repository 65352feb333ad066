"""The environment under everything that is done to it (attack list 19 to 27)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from duly.protocol.wire.errors import StorageError
from duly.storage import lmdb_env, lmdb_handle
from duly.storage.lmdb_env import Environment, Transaction
from duly.storage.lmdb_file import create_folder_aside

NAMES = ("things",)
Open = Callable[..., Environment]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "st\u00e9re mit blanks" / "s"


@pytest.fixture
def open_env(store: Path) -> Iterator[Open]:
    opened: list[Environment] = []

    def open_it(
        *, writer: bool, folder: Path = store, version: int = 1, format: str = "duly.test"
    ) -> Environment:
        opened.append(Environment.open(folder, format, version, NAMES, writer=writer))
        return opened[-1]

    yield open_it
    for env in opened:
        env.close()


def put(env: Environment, key: bytes, value: bytes) -> None:
    env.write(lambda transaction: transaction.put(key, value, db=env.database("things")))


def get(env: Environment, key: bytes) -> bytes | None:
    return env.read(lambda transaction: transaction.get(key, db=env.database("things")))


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(StorageError) as caught:
        call()
    return caught.value.code


def test_what_was_written_is_there_after_reopening(open_env: Open, store: Path) -> None:
    env = open_env(writer=True)
    put(env, b"k", b"v")
    env.close()
    assert get(open_env(writer=False), b"k") == b"v"
    assert sorted(path.name for path in store.parent.iterdir()) == ["s"]
    assert store.stat().st_mode & 0o777 == 0o700
    assert (store / "data.mdb").stat().st_mode & 0o777 == 0o600


def test_a_reader_finds_nothing_where_nothing_is(open_env: Open, store: Path) -> None:
    assert code_of(lambda: open_env(writer=False)) == "storage.absent"
    assert not store.exists()


def test_a_reader_in_the_same_process_shares_the_handle_and_cannot_write(open_env: Open) -> None:
    reader_first = open_env(writer=True)
    put(reader_first, b"k", b"1")
    reader_first.close()
    reader = open_env(writer=False)
    writer = open_env(writer=True)
    put(writer, b"k", b"2")
    assert get(reader, b"k") == b"2"
    assert code_of(lambda: put(reader, b"k", b"3")) == "storage.read_only"
    writer.close()
    assert get(reader, b"k") == b"2"


def test_a_second_writer_is_told_who_holds_the_store(
    open_env: Open, store: Path, child: Callable[..., Any]
) -> None:
    other = child("store", store, "writer")
    assert other.hear() == "open"
    with pytest.raises(StorageError, match=f"held by process {other.process.pid}") as caught:
        open_env(writer=True)
    assert caught.value.code == "storage.held"
    assert other.ask("put k v") == "done"
    other.kill()
    # Nothing waits here: the kernel dropped the lock with its process.
    assert get(open_env(writer=True), b"k") == b"v"


def test_a_second_writer_in_the_same_process_is_refused(open_env: Open) -> None:
    first = open_env(writer=True)
    with pytest.raises(StorageError, match=f"held by process {os.getpid()}"):
        open_env(writer=True)
    put(first, b"k", b"v")
    first.close()
    put(open_env(writer=True), b"k", b"w")


def test_a_reader_beside_a_living_writer(open_env: Open, store: Path, child: Callable[..., Any]) -> None:
    env = open_env(writer=True)
    other = child("store", store, "reader")
    assert other.hear() == "open"
    for number in range(5):
        put(env, b"k", b"%d" % number)
        assert other.ask("get k") == str(number)
    assert other.end() == 0


def test_a_killed_reader_leaves_no_slot_behind(
    open_env: Open, store: Path, child: Callable[..., Any]
) -> None:
    env = open_env(writer=True)
    put(env, b"k", b"v")
    other = child("store", store, "reader")
    assert other.hear() == "open"
    assert other.ask("hold") == "holding"
    other.kill()
    env.close()
    env = open_env(writer=True)
    put(env, b"k", b"w")
    raw = env._handle._env
    assert raw is not None and raw.reader_check() == 0
    assert "(no active readers)" in raw.readers()


def test_reading_by_pages_holds_no_reader_and_the_file_stays_small(open_env: Open) -> None:
    env = open_env(writer=True)
    for number in range(50):
        put(env, b"%04d" % number, bytes(500))
    before = env.file_bytes()

    def one_page(transaction: Transaction) -> int:
        return sum(1 for _ in transaction.cursor(db=env.database("things")))

    for number in range(300):
        assert env.read(one_page) == 50
        put(env, b"0000", bytes([number % 256]) * 500)
    assert env.file_bytes() - before < 40 * 4_096


def test_a_full_map_grows_and_the_whole_batch_runs_again(
    open_env: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_handle, "MAP_BYTES_INITIAL", 1 << 16)
    env = open_env(writer=True)
    tries = []

    def fill(transaction: Transaction) -> str:
        assert transaction.stat(env.database("things"))["entries"] == 0
        tries.append(0)
        for number in range(200):
            transaction.put(b"%08d" % number, bytes(5_000), db=env.database("things"))
            tries[-1] += 1
        return "done"

    assert env.write(fill) == "done"
    assert len(tries) >= 2
    assert tries[0] < 200 and tries[-1] == 200
    assert env.read(lambda transaction: transaction.stat(env.database("things"))["entries"]) == 200


def test_a_map_that_may_not_grow_further_is_a_full_store(
    open_env: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_handle, "MAP_BYTES_INITIAL", 1 << 16)
    monkeypatch.setattr(lmdb_handle, "MAP_BYTES_MAX", 1 << 18)
    env = open_env(writer=True)
    put(env, b"k", b"v")
    assert code_of(lambda: put(env, b"big", bytes(1 << 20))) == "storage.full"
    assert get(env, b"k") == b"v"
    put(env, b"k", b"w")


def test_a_map_resized_by_another_process(
    open_env: Open, store: Path, child: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_handle, "MAP_BYTES_INITIAL", 1 << 16)
    env = open_env(writer=True)
    put(env, b"k", b"v")
    env.close()
    reader = open_env(writer=False)
    assert get(reader, b"k") == b"v"
    other = child("store", store, "writer")
    assert other.hear() == "open"
    assert other.ask("fill 300 4000") == "done"
    assert other.ask("put k w") == "done"
    assert get(reader, b"k") == b"w"
    assert get(reader, b"fill00000299") == b"x" * 4_000


def test_a_map_resized_behind_the_writer(
    open_env: Open, store: Path, child: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_handle, "MAP_BYTES_INITIAL", 1 << 16)
    env = open_env(writer=True)
    put(env, b"k", b"v")
    other = child("foreign_tool", store)
    assert other.hear() == "done"
    assert other.end() == 0
    put(env, b"k", b"w")
    assert get(env, b"tool299") == bytes(4_000)


@pytest.mark.parametrize("seed", [1, 2])
def test_cut_off_and_scribbled_files_give_an_error_and_no_signal(
    open_env: Open, store: Path, tmp_path: Path, child: Callable[..., Any], seed: int
) -> None:
    env = open_env(writer=True)
    for number in range(300):
        put(env, b"%06d" % (number * 7919 % 1_000), bytes([number % 256]) * 900)
    env.close()
    other = child("cut_files", store, tmp_path / "copy", seed)
    assert other.hear() == "done"
    assert other.end() == 0


def sqlite_file(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x)")
    connection.close()


def newer_lmdb(path: Path) -> None:
    lmdb.open(str(path.parent), lib_version=1).close()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.write_bytes(b""), "storage.damaged"),
        (lambda path: path.write_bytes(bytes(20_000)), "storage.format"),
        (lambda path: path.write_bytes(os.urandom(20_000)), "storage.format"),
        (sqlite_file, "storage.format"),
        (newer_lmdb, "storage.format"),
        (lambda path: path.mkdir(), "storage.io"),
    ],
)
def test_files_of_another_format(
    open_env: Open, tmp_path: Path, make: Callable[[Path], Any], code: str
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    make(folder / "data.mdb")
    for writer in (False, True):
        assert code_of(lambda writer=writer: open_env(writer=writer, folder=folder)) == code  # type: ignore[misc]


def test_lmdb_files_that_are_not_ours(open_env: Open, tmp_path: Path) -> None:
    lmdb.open(str(tmp_path / "plain"), lib_version=0).close()
    assert code_of(lambda: open_env(writer=True, folder=tmp_path / "plain")) == "storage.schema"
    with lmdb.open(str(tmp_path / "values"), lib_version=0) as env, env.begin(write=True) as transaction:
        transaction.put(b"meta", b"a value, not a database")
    assert code_of(lambda: open_env(writer=True, folder=tmp_path / "values")) == "storage.schema"


@pytest.mark.parametrize(("format", "version"), [("duly.test", 2), ("duly.test", 0), ("duly.other", 1)])
def test_another_version_is_refused_and_named(open_env: Open, format: str, version: int) -> None:
    open_env(writer=True).close()
    with pytest.raises(StorageError, match="duly.test version 1") as caught:
        open_env(writer=True, format=format, version=version)
    assert caught.value.code == "storage.schema"
    put(open_env(writer=True), b"k", b"v")


def test_a_key_of_512_bytes_is_refused_and_511_are_not(open_env: Open) -> None:
    env = open_env(writer=True)
    put(env, b"k" * 511, b"v")
    assert code_of(lambda: put(env, b"k" * 512, b"v")) == "storage.key_too_large"
    assert get(env, b"k" * 511) == b"v"
    put(env, b"k", b"v")


def test_an_error_inside_the_work_leaves_nothing_behind(open_env: Open) -> None:
    env = open_env(writer=True)

    def work(transaction: Transaction) -> None:
        transaction.put(b"k", b"v", db=env.database("things"))
        raise KeyError("k")

    with pytest.raises(KeyError):
        env.write(work)
    assert get(env, b"k") is None


def test_a_closed_store_says_so(open_env: Open) -> None:
    env = open_env(writer=True)
    env.close()
    env.close()
    assert code_of(lambda: get(env, b"k")) == "storage.closed"


def test_a_creation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(aside: Path) -> None:
        (aside / "data.mdb").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="space"):
        create_folder_aside(tmp_path / "s", fail)
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_creation_left_aside_is_removed(open_env: Open, store: Path) -> None:
    dead = (
        store.parent / ".s.new-4000000-0badcafe"
    )  # no process has this number: it is above the kernel's limit
    living = store.parent / f".s.new-{os.getpid()}-0badcafe"
    for folder in (dead, living):
        folder.mkdir(parents=True)
    open_env(writer=True)
    assert not dead.exists()
    assert living.exists()


def test_an_empty_folder_becomes_a_store_and_a_full_one_does_not(open_env: Open, store: Path) -> None:
    store.mkdir(parents=True)
    open_env(writer=True).close()
    (store / "data.mdb").unlink()
    assert code_of(lambda: open_env(writer=True)) == "storage.format"
    assert sorted(path.name for path in store.parent.iterdir()) == ["s"]


def test_of_several_processes_that_create_at_once_one_writes(store: Path, child: Callable[..., Any]) -> None:
    children = [child("store", store, "writer") for _ in range(4)]
    heard = sorted(one.hear().split()[0] for one in children)
    assert heard == ["open", "storage.held", "storage.held", "storage.held"]
    assert sorted(path.name for path in store.parent.iterdir()) == ["s"]


def test_no_environment_stays_registered(open_env: Open) -> None:
    before = dict(lmdb_env._OPEN)
    open_env(writer=True).close()
    assert before == lmdb_env._OPEN
