"""The one runtime that most tests of real processes share: starting one takes seconds, a run in it a few tenths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from process_table import still_alive, tree_below, wait_until_gone

if TYPE_CHECKING:
    from runtime_home import RuntimeHome

CANARY = "canary-of-the-launcher-4f1c"
HOST_SECRET = "canary-of-the-read-host-9b27"
GONE_SECONDS_MAX = 30.0


def short_home(name: str) -> Path:
    """A data directory beside the session's own: its path is short enough for sockets, and it goes with the session."""
    return Path(os.environ["DULY_HOME"]).parent / name


@pytest.fixture(scope="session")
def runtime() -> Iterator[RuntimeHome]:
    """A runtime that the command line started, with canaries in its environment; nothing of it is left afterwards."""
    from runtime_home import RuntimeHome  # the stores and keys are loaded only where a runtime is asked for

    home = RuntimeHome(short_home("rt"), {"MY_SECRET": CANARY, "DULY_READ_SECRET_DB": HOST_SECRET})
    started = home.duly("up")
    assert started.code == 0, started.err
    yield home
    stop(home)


def stop(home: RuntimeHome) -> None:
    """Stops a runtime with ``duly down``, and sees that every process that was below its supervisor is gone."""
    tree = tree_below(home.supervisor())
    assert home.duly("down").code == 0
    left = wait_until_gone(lambda: still_alive(tree), GONE_SECONDS_MAX)
    assert not left, f"the runtime left processes behind: {left}"
