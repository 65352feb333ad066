"""The data directory: where it is, who may use it, how long its sockets' paths are."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from duly.protocol.wire.errors import StorageError
from duly.storage.home import Home


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(StorageError) as caught:
        call()
    return caught.value.code


def test_the_environment_names_it_or_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Home.resolve({"DULY_HOME": str(tmp_path)}).root == tmp_path
    assert Home.resolve({}).root == Path(platformdirs.user_data_dir("duly", appauthor=False))
    monkeypatch.chdir(tmp_path)
    assert Home.resolve({"DULY_HOME": "here/../there"}).root == tmp_path / "there"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Home.resolve({"DULY_HOME": "~/d"}).root == tmp_path / "d"
    monkeypatch.setenv("DULY_HOME", str(tmp_path / "e"))
    assert Home.resolve().root == tmp_path / "e"
    for name in ("", "  ", "a\0b"):
        assert code_of(lambda name=name: Home.resolve({"DULY_HOME": name})) == "storage.home"  # type: ignore[misc]


def test_naming_touches_nothing(tmp_path: Path) -> None:
    home = Home.resolve({"DULY_HOME": str(tmp_path / "h")})
    assert home.journal == tmp_path / "h" / "journal"
    assert home.socket_path("harness") == tmp_path / "h" / "run" / "harness.sock"
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_for_their_owner_only(tmp_path: Path) -> None:
    home = Home(tmp_path / "gr\u00fcn und wei\u00df" / "h").prepare()
    assert sorted(path.name for path in home.root.iterdir()) == ["keys", "packages", "run"]
    for folder in (home.root, home.keys, home.packages, home.run):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert home.prepare() == home


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_folders_that_others_may_write_are_refused(tmp_path: Path, mode: int) -> None:
    home = Home(tmp_path / "h").prepare()
    home.keys.chmod(mode)
    assert code_of(home.prepare) == "storage.home"
    home.keys.chmod(0o755)
    home.prepare()
    home.root.chmod(mode)
    assert code_of(home.prepare) == "storage.home"


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "h").prepare()
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert code_of(home.prepare) == "storage.home"


def test_a_home_that_is_a_file_or_below_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert code_of(Home(tmp_path / "file").prepare) == "storage.home"
    assert code_of(Home(tmp_path / "file" / "below").prepare) == "storage.home"
    home = Home(tmp_path / "h").prepare()
    home.run.rmdir()
    home.run.symlink_to(tmp_path)
    assert code_of(home.prepare) == "storage.home"


def test_a_home_that_may_not_be_made(forked: Callable[..., str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o555)

        def work() -> str:
            return code_of(Home(Path(name) / "h").prepare)

        assert forked(work, as_nobody=True) == "storage.home"
        os.chmod(name, 0o755)


def test_the_home_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Home(tmp_path / "link").prepare()
    assert (tmp_path / "real" / "keys").is_dir()


def test_a_long_path_gets_a_short_socket_that_binds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="t") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        home = Home(tmp_path / ("\u00e9" * 60) / "h")
        path = home.socket_path("harness")
        assert len(os.fsencode(path)) <= 107
        assert path == home.socket_path("harness")
        assert path != home.socket_path("read")
        assert path != Home(tmp_path / ("e" * 120) / "h").socket_path("harness")
        assert path.parent.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.fsencode(path))
        path.parent.chmod(0o777)
        assert code_of(lambda: home.socket_path("harness")) == "storage.home"


def test_the_longest_path_that_fits_is_kept(tmp_path: Path) -> None:
    base = Path("/") / ("x" * (107 - len("/") - len("/run/harness.sock")))
    assert Home(base).socket_path("harness") == base / "run" / "harness.sock"
    assert len(os.fsencode(Home(base).socket_path("harness"))) == 107


def test_a_planted_folder_for_short_sockets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"duly-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: Home(tmp_path / ("e" * 120)).socket_path("harness")) == "storage.home"


@pytest.mark.parametrize("name", ["", "..", "/etc", "a/../../b", "../x", "a\0b", "journal", "keys/more", "."])
def test_data_of_a_package_stays_inside(tmp_path: Path, name: str) -> None:
    assert code_of(lambda: Home(tmp_path).data(name)) == "storage.home"


def test_data_of_a_package(tmp_path: Path) -> None:
    assert Home(tmp_path).data("examples/flights") == tmp_path / "examples" / "flights"


def test_socket_names(tmp_path: Path) -> None:
    for name in ("", "a/b", "..", "x" * 200):
        assert code_of(lambda name=name: Home(tmp_path).socket_path(name)) == "storage.home"  # type: ignore[misc]
