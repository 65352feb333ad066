"""What an environment says when the system under it fails, and that it goes on afterwards (attack list 19, 22)."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from duly.protocol.wire.errors import StorageError
from duly.storage import lmdb_handle
from duly.storage.lmdb_env import Environment

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


def test_a_forked_child_is_refused_everything(
    open_env: Open, store: Path, forked: Callable[..., str]
) -> None:
    env = open_env(writer=True)
    put(env, b"k", b"v")
    calls = (
        lambda: put(env, b"k", b"x"),
        lambda: get(env, b"k"),
        lambda: Environment.open(store, "duly.test", 1, NAMES, writer=False),
        lambda: Environment.open(store, "duly.test", 1, NAMES, writer=True),
    )

    def work() -> str:
        codes = " ".join(code_of(call) for call in calls)
        env.close()
        return codes

    assert forked(work) == "storage.forked storage.forked storage.forked storage.held"
    # The child's end took neither the lock nor the store from its parent.
    put(env, b"k", b"w")
    assert code_of(lambda: open_env(writer=True)) == "storage.held"


def test_a_folder_that_may_not_be_written(forked: Callable[..., str]) -> None:
    # pytest's own folders are closed to other users, so this one stands beside them.
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o555)

        def work() -> str:
            try:
                Environment.open(Path(name) / "s", "duly.test", 1, NAMES, writer=True)
            except StorageError as error:
                return f"{error.code}: {error}"
            return "opened"

        said = forked(work, as_nobody=True)
        assert said.startswith("storage.denied: ") and name in said and "DULY_HOME" in said
        os.chmod(name, 0o755)


def test_a_full_disk_is_named_and_passes(tmp_path: Path, forked: Callable[..., str]) -> None:
    """A limit on file sizes stands in for the full disk: the write fails in the same place, with its own number."""

    def work() -> str:
        env = Environment.open(tmp_path / "s", "duly.test", 1, NAMES, writer=True)
        put(env, b"k", b"v")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (env.file_bytes() + 8_192, hard))
        codes = [code_of(lambda: put(env, b"big", bytes(1 << 20))) for _ in range(2)]
        kept = get(env, b"k"), get(env, b"big")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        put(env, b"big", bytes(1 << 20))
        after = len(get(env, b"big") or b"")
        env.close()
        return f"{codes} {kept} {after}"

    assert forked(work) == "['storage.full', 'storage.full'] (b'v', None) 1048576"


def lmdb_error(number: int) -> lmdb.Error:
    error = lmdb.Error("mdb_txn_commit")
    error.code = number  # type: ignore[misc]
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (lmdb_error(28), "storage.full"),
        (lmdb_error(5), "storage.io"),
        (OSError(122, "Quota exceeded"), "storage.full"),
        (OSError(30, "Read-only file system"), "storage.denied"),
        (lmdb.PanicError("panic"), "storage.io"),
    ],
)
def test_after_a_failed_commit_the_store_opens_itself_again(
    open_env: Open, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    env = open_env(writer=True)
    put(env, b"k", b"v")

    def fail(handle: object, work: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(lmdb_handle.Handle, "_write_once", fail)
        assert code_of(lambda: put(env, b"k", b"w")) == code
    assert get(env, b"k") == b"v"
    put(env, b"k", b"x")
    assert get(env, b"k") == b"x"
