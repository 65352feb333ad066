"""What every test may rely on: the suites folder, a data directory of its own, a fixed random seed, no leftovers.

Nothing here sleeps to wait for another process except the leftover check, which polls with a bound because only the
kernel says when a process is gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from process_table import Leftover, children_of, leftovers, wait_until_gone
from runtime_fixture import runtime  # noqa: F401 - a fixture: one runtime for the whole session

# A stopped runtime takes a few seconds to take its processes down; the watch's own test need not wait that long.
LEAVING_SECONDS_MAX = float(os.environ.get("DULY_TEST_LEAVING_SECONDS", "10"))
# With a blank instead of "=" pytest takes the folder for a test path before it has read this file.
SUITES_HINT = "give the folder with `pytest --suites=DIR` or `make test SUITES=DIR`"

# Every run tries the same examples, so a red test is red for everybody; `--hypothesis-profile explore` looks for new
# ones and prints the seed with which to see them again.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None, print_blob=True)
hypothesis.settings.register_profile(
    "explore", deadline=None, database=None, print_blob=True, max_examples=1_000
)
hypothesis.settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--suites", metavar="DIR", default=None, help="folder of the public suites; tests skip without"
    )
    parser.addoption(
        "--simulation-runs", metavar="N", type=int, default=400, help="stories by chance of tests/simulation"
    )


def pytest_configure(config: pytest.Config) -> None:
    """No test ever touches the data directory of the person who runs it.

    Whoever starts the tests in the background may have had interrupts and hang-ups ignored, and what is ignored is
    inherited: commands under test must hear them.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    short = tempfile.mkdtemp(
        prefix="duly-t-"
    )  # a Unix socket path has at most 107 bytes, pytest's own are longer
    os.environ["DULY_HOME"] = os.path.join(short, "home")
    config.stash[_BASE] = Path(short)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_BASE], ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> list[str]:
    profile = config.getoption("--hypothesis-profile", None) or "fixed"
    seed = config.getoption("--hypothesis-seed", None) or (
        "derandomized" if profile == "fixed" else "printed on failure"
    )
    return [
        f"hypothesis: profile {profile}, seed {seed}",
        f"suites: {config.getoption('--suites') or 'none'}",
    ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails where groups hold nothing together: two models at once exhaust a small machine."""
    grouped = item.get_closest_marker("xdist_group") is not None
    if grouped and getattr(item.config.option, "loadgroup", False) and "@" not in item.nodeid:
        pytest.fail(
            f"pytest {pytest.__version__} and this pytest-xdist do not group tests: take an older pytest"
        )


_BASE = pytest.StashKey[Path]()


@pytest.fixture(scope="session")
def suites(request: pytest.FixtureRequest) -> Path:
    """The folder of the public suites. Tests that ask for it are skipped where it is absent."""
    given = request.config.getoption("--suites")
    if given is None:
        pytest.skip(f"no suites folder: {SUITES_HINT}")
    folder = Path(given).resolve()
    if not folder.is_dir():
        pytest.skip(f"the suites folder {given} is not there: {SUITES_HINT}")
    return folder


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def duly_home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty data directory, set as ``DULY_HOME``, with a path short enough for sockets; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="h", dir=request.config.stash[_BASE]))
    monkeypatch.setenv("DULY_HOME", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _no_child_left() -> Iterator[None]:
    """Fails the test that leaves a child process of its own behind."""
    before = children_of(os.getpid())
    yield
    left = wait_until_gone(lambda: children_of(os.getpid()) - before, LEAVING_SECONDS_MAX)
    assert not left, f"the test left child processes behind: {_named(left)}"


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_at_all(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Fails the session whose tests left a detached process behind: one whose command, environment or folder names
    a temporary directory of this session."""
    yield
    marks = [str(request.config.stash[_BASE]), str(tmp_path_factory.getbasetemp())]
    left = wait_until_gone(lambda: leftovers(marks), LEAVING_SECONDS_MAX)
    assert not left, f"processes outlived the tests: {_named(left)}"


def _named(processes: set[Leftover]) -> str:
    return "; ".join(f"{one.pid} {one.command}" for one in sorted(processes, key=lambda one: one.pid))
