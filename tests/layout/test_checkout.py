"""The checkout: links, and what `import duly` offers."""

from __future__ import annotations

import os
import tomllib

import duly
from source_tree import CHECKOUT, PACKAGES

PUBLIC = ["Plan", "Request", "Runtime", "Step", "tool", "verify_log"]


def test_each_folder_is_linked_into_the_package():
    """A checkout without symbolic links would build an empty wheel and say nothing."""
    found = {path.name: os.readlink(path) for path in (CHECKOUT / "src/duly").iterdir() if path.is_symlink()}
    assert found == {folder: f"../../{folder}" for folder in PACKAGES}
    for folder in PACKAGES:
        assert (CHECKOUT / "src/duly" / folder / "__init__.py").is_file()


def test_the_package_holds_nothing_beside_the_links():
    plain = sorted(
        path.name
        for path in (CHECKOUT / "src/duly").iterdir()
        if not path.is_symlink() and path.name != "__pycache__"
    )
    assert plain == ["__init__.py", "py.typed"]


def test_public_names():
    """What `import duly` promises; one more name is a promise more."""
    assert sorted(name for name in duly.__all__ if not name.startswith("_")) == PUBLIC
    for name in PUBLIC:
        assert getattr(duly, name) is not None


def test_the_version_stands_once_in_each_place():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert duly.__version__ == project["version"]
    assert f"## [{project['version']}]" in (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
