"""The package that docs/packages.md builds is one that duly loads."""

from __future__ import annotations

import re

import pytest

from duly.protocol.plan.package import load_package
from duly.protocol.wire.errors import PackageError
from source_tree import CHECKOUT

PAGE = CHECKOUT / "docs/packages.md"


def files() -> dict[str, bytes]:
    """The block that follows each heading with a file's name in it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(
        r"^## [^\n]*`([a-z.]+)`\n\n```(?:toml|yaml)\n(.*?)```", text, flags=re.MULTILINE | re.DOTALL
    )
    return {name: block.encode() for name, block in found}


def test_the_page_is_a_package():
    package = load_package(files(), "shop")
    assert sorted(files()) == ["agent.toml", "semantics.yaml"]
    assert package.agent().tools == ["metrics.value", "metrics.completeness", "report.value"]
    assert package.semantics is not None
    assert list(package.semantics.metrics) == ["return_rate"]


def test_a_fault_in_the_page_would_be_seen():
    broken = {
        **files(),
        "semantics.yaml": files()["semantics.yaml"].replace(b"column: country", b"colum: country"),
    }
    with pytest.raises(PackageError) as caught:
        load_package(broken, "shop")
    assert any("semantics.yaml" in fault.path for fault in caught.value.faults)


def test_every_kind_of_tool_is_on_the_page():
    manifest = (CHECKOUT / "protocol/plan/manifest.py").read_text(encoding="utf-8")
    kinds = set(re.findall(r'kind: Literal\["([a-z]+)"\] = ', manifest)) - {"duckdb"}
    assert kinds
    assert (
        kinds == set(re.findall(r"^\| `([a-z]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) & kinds
    )
