"""`make setup` on a machine that lacks something says what to install instead of failing somewhere deep."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from source_tree import CHECKOUT

# Interpreters that answer as Debian's do: too old, or without the parts that python3-venv brings.
OLD = """#!/bin/sh
exit 1
"""
BARE = """#!/bin/sh
case "$2" in
    *"import venv"*) exit 1 ;;
    *print*) echo 3.12 ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A search path that holds nothing but what the test puts there, and the shell's own tools."""
    for tool in ("sh", "echo"):
        os.symlink(f"/bin/{tool}", tmp_path / tool)
    return tmp_path


def make_venv(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    (folder / "python3").write_text(python, encoding="utf-8")
    (folder / "python3").chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(CHECKOUT / ".ci/make-venv"), str(folder / "venv dir")],
        check=False,
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_python_without_venv_is_named_with_its_package(folder):
    done = make_venv(folder, BARE)
    assert done.returncode != 0
    assert "apt-get install python3.12-venv" in done.stderr
    assert not (folder / "venv dir").exists()


def test_a_machine_without_a_recent_python_is_told_what_to_install(folder):
    done = make_venv(folder, OLD)
    assert done.returncode != 0
    assert "apt-get install python3 python3-venv" in done.stderr
    assert "3.11" in done.stderr


def test_make_explains_itself():
    done = subprocess.run(["make"], check=False, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    for target in ("setup", "demo", "test", "check"):
        assert f"make {target} " in done.stdout
