"""A home with a scripted runtime behind a real socket, and a package folder to name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duly.cli import entry
from duly.storage.home import Home
from fake_front_door import FakeFrontDoor
from scripted_harness import ScriptedHarness

Duly = Callable[..., int]


@pytest.fixture
def home(duly_home: Path) -> Home:
    return Home(duly_home)


@pytest.fixture
def door(home: Home) -> Iterator[FakeFrontDoor]:
    served = FakeFrontDoor(ScriptedHarness(home))
    yield served
    served.close()


@pytest.fixture
def package(tmp_path: Path) -> str:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "agent.toml").write_text('[package]\nname = "shop"\n', encoding="utf-8")
    return str(folder)


@pytest.fixture
def duly(home: Home) -> Duly:
    """Runs a command line in this process, on the home of the test; gives the exit code."""

    def run(*arguments: str) -> int:
        return entry.main(list(arguments))

    return run
