"""What is built: the wheel equals the tree, installs under one name, and the sdist holds what a reader needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from source_tree import CHECKOUT, PACKAGES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("build")]
_LEAVE_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", "build", "dist", "*.egg-info", ".*_cache", ".hypothesis"
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout: building in place would leave files behind, and read stale ones."""
    target = tmp_path_factory.mktemp("copy") / "duly with blank"
    shutil.copytree(CHECKOUT, target, symlinks=True, ignore=_LEAVE_OUT)
    return target


def built(copy: Path, kind: str, target: Path) -> Path:
    """A distribution, built offline by the backend that pyproject.toml names."""
    command = [
        sys.executable,
        "-m",
        "build",
        f"--{kind}",
        "--no-isolation",
        "--outdir",
        str(target),
        str(copy),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return next(iter(target.iterdir()))


@pytest.fixture(scope="module")
def wheel(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(copy, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_equals_the_tree(wheel, copy):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"duly/{path.relative_to(copy).as_posix()}": path.read_bytes()
        for folder in PACKAGES
        for path in (copy / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in ("__init__.py", "py.typed"):
        expected[f"duly/{name}"] = (copy / "src/duly" / name).read_bytes()
    assert packed.keys() == expected.keys()
    assert packed == expected


def test_the_wheel_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(
            archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")
        )
        licence = [name for name in archive.namelist() if name.endswith("/LICENSE")]
        entries = next(
            archive.read(name).decode() for name in archive.namelist() if name.endswith("entry_points.txt")
        )
    assert "License-Expression: Apache-2.0" in metadata
    assert licence
    assert "duly = duly.cli.entry:main" in entries


def test_an_installed_wheel_has_one_top_level_name(wheel, tmp_path):
    """Beside the dependencies that are already here: what is asked is where the names go."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    lines = [
        "import sys, importlib.util",
        "import duly, duly.protocol.wire.canon, duly.storage, duly.hosts, duly.cli",
        "assert duly.__file__.startswith(sys.argv[1]), duly.__file__",
        "found = [name for name in sys.argv[2:] if importlib.util.find_spec(name)]",
        "assert not found, found",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", "\n".join(lines), str(tmp_path / "site"), *PACKAGES]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "site").iterdir() if "dist-info" not in path.name) == [
        "duly"
    ]


def test_the_sdist_holds_what_a_reader_and_a_cluster_need(copy, tmp_path):
    with tarfile.open(built(copy, "sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "pyproject.toml",
        "cluster.yaml",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Makefile",
    }
    wanted |= {"src/duly/__init__.py", "src/duly/py.typed", ".ci/run", ".ci/make-venv"}
    for folder in ("benchmarks", "examples", "docs", "tests"):
        wanted |= {
            path.relative_to(copy).as_posix()
            for path in (copy / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    assert wanted - names == set()
    modules = {path.relative_to(copy).as_posix() for path in (copy / "protocol").rglob("*.py")}
    assert {f"src/duly/{name}" for name in modules} - names == set()
