"""Snapshots of agent packages: what is taken, what is refused, what stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.ids import digest_bytes
from duly.protocol.wire.limits import PACKAGE_DEPTH_MAX, PACKAGE_FILE_BYTES_MAX, PACKAGE_FILES_MAX
from duly.storage.packages import PackageStore, digest, read_folder

FILES = {
    "agent.toml": b"[package]\n",
    "semantics.yaml": b"metrics: {}\n",
    "tools.py": b"x = 1\n",
    "duly.lock": b"",
    "playbooks/why.yaml": b"name: why\n",
    "prompts/de/critic.md": b"Pr\xc3\xbcfe.\n",
}


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DulyError) as caught:
        call()
    return caught.value.code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        path = tmp_path / "p\u00e4ckchen" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "p\u00e4ckchen"


@pytest.fixture
def store(tmp_path: Path) -> PackageStore:
    return PackageStore(tmp_path / "packages")


def test_the_files_of_a_package_and_nothing_else(folder: Path) -> None:
    for name in ("data.parquet", "notes.csv", ".env", "x.pyc", "other.toml", "README"):
        (folder / name).write_bytes(b"no")
    for hidden in (".git/config.yaml", "__pycache__/tools.py"):
        (folder / hidden).parent.mkdir()
        (folder / hidden).write_bytes(b"no")
    assert read_folder(folder) == FILES


def test_the_digest_is_that_of_the_package(folder: Path) -> None:
    expected = canon.digest(
        "package", {name: digest_bytes("package.file", data) for name, data in FILES.items()}
    )
    assert digest(read_folder(folder)) == expected
    assert digest({**FILES, "tools.py": b"x = 2\n"}) != expected
    assert digest({**FILES, "more.py": b""}) != expected


def test_a_snapshot_stays_what_it_was(folder: Path, store: PackageStore) -> None:
    files = read_folder(folder)
    name = store.put(files)
    (folder / "agent.toml").write_bytes(b"[package]\nname = 'other'\n")
    (folder / "tools.py").unlink()
    assert store.get(name) == files
    assert store.put(files) == name
    assert store.put(read_folder(folder)) != name
    assert read_folder(store.path(name)) == files
    assert (store.path(name) / "agent.toml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change",
    [
        lambda path: (path / "agent.toml").write_bytes(b"[package]\nother"),
        lambda path: (path / "tools.py").unlink(),
        lambda path: (path / "more.py").write_bytes(b""),
    ],
)
def test_a_changed_snapshot_is_refused_and_put_again(
    store: PackageStore, change: Callable[[Path], Any]
) -> None:
    name = store.put(FILES)
    change(store.path(name))
    assert code_of(lambda: store.get(name)) == "storage.package_changed"
    assert store.put(FILES) == name
    assert store.get(name) == FILES


@pytest.mark.parametrize("name", ["", "x", "ab" * 32, "../packages"])
def test_snapshots_that_are_not_there(store: PackageStore, name: str) -> None:
    assert code_of(lambda: store.get(name)) == "storage.package_missing"


def test_a_put_that_fails_leaves_nothing(
    store: PackageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        assert code_of(lambda: store.put(FILES)) == "storage.full"
    assert list((tmp_path / "packages").iterdir()) == []


def test_links_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_bytes(b"secret")
    (folder / "semantics.yaml").unlink()
    (folder / "semantics.yaml").symlink_to(tmp_path / "secret.yaml")
    assert code_of(lambda: read_folder(folder)) == "package.link"
    (folder / "semantics.yaml").unlink()
    (folder / "semantics.yaml").symlink_to(folder / "agent.toml")
    assert code_of(lambda: read_folder(folder)) == "package.link"


def test_a_linked_folder_is_not_entered(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "more.yaml").write_bytes(b"no")
    (folder / "linked").symlink_to(tmp_path / "outside")
    assert read_folder(folder) == FILES


def test_what_is_no_plain_file_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe.yaml")
    assert code_of(lambda: read_folder(folder)) == "package.link"


def test_no_package_there(tmp_path: Path) -> None:
    assert code_of(lambda: read_folder(tmp_path / "nowhere")) == "package.missing"
    (tmp_path / "file").write_bytes(b"")
    assert code_of(lambda: read_folder(tmp_path / "file")) == "package.missing"


def test_packages_beyond_the_limits(folder: Path) -> None:
    (folder / "big.yaml").write_bytes(bytes(PACKAGE_FILE_BYTES_MAX))
    assert len(read_folder(folder)["big.yaml"]) == PACKAGE_FILE_BYTES_MAX
    (folder / "big.yaml").write_bytes(bytes(PACKAGE_FILE_BYTES_MAX + 1))
    assert code_of(lambda: read_folder(folder)) == "package.too_large"
    (folder / "big.yaml").unlink()
    deep = folder.joinpath(*"d" * (PACKAGE_DEPTH_MAX + 1))
    deep.mkdir(parents=True)
    assert code_of(lambda: read_folder(folder)) == "package.too_large"


def test_too_many_files(folder: Path) -> None:
    for number in range(PACKAGE_FILES_MAX - len(FILES) + 1):
        (folder / f"{number}.yaml").write_bytes(b"")
    assert code_of(lambda: read_folder(folder)) == "package.too_large"


@pytest.mark.parametrize("name", [b"e\xcc\x81.yaml", b"\xff.yaml", b"a\\b.py"])
def test_file_names_that_have_no_one_form(folder: Path, name: bytes) -> None:
    with open(os.path.join(os.fsencode(folder), name), "wb"):
        pass
    assert code_of(lambda: read_folder(folder)) == "package.path"


@pytest.mark.parametrize(
    "name", ["", "/etc/x.py", "../x.py", "a//b.py", "a/./b.py", "a\\b.py", "a\0.py", "e\u0301.py"]
)
def test_paths_that_leave_a_snapshot(store: PackageStore, name: str) -> None:
    assert code_of(lambda: store.put({name: b""})) == "package.path"
