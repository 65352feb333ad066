"""The catalogue says what the sources hold, in words that a planner can bind to; damaged sources are named."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import shoppers
from duly.actors.planner.bind import bind
from duly.hosts.tools.catalogue import catalogue
from duly.hosts.tools.context import CallContext
from duly.hosts.tools.duckdb_source import SourceFile
from duly.protocol.plan.catalogue import Catalogue, MonthCoverage, coverage_text
from duly.protocol.plan.package import load_package
from duly.protocol.plan.request import new_request
from duly.protocol.wire import canon
from duly.protocol.wire.errors import ToolError
from flights import months

SEMANTICS = """
version: "1"
sources:
  sales: {time: {kind: columns, year: y, month: m}}
dimensions:
  shop: {label: shop, source: sales, column: shop, value_labels: {N: North}}
metrics:
  sold:
    label: sales
    definition: Sold things
    kind: count
    source: sales
    unit: things
    direction: up
    dimensions: [shop]
"""


def survey(folder: Path, files: dict[str, Path]) -> Catalogue:
    call = CallContext("r", "s", folder, folder, folder)
    found = catalogue(call, {name: SourceFile(path) for name, path in files.items()})
    assert call.fingerprints == {name: source.fingerprint for name, source in found.sources.items()}
    return found


def sales(folder: Path, rows: str) -> dict[str, Path]:
    (folder / "semantics.yaml").write_text(SEMANTICS)
    path = folder / "sales.parquet"
    duckdb.sql(f"SELECT * FROM (VALUES {rows}) AS t(y, m, shop)").write_parquet(str(path))
    return {"sales": path}


def test_columns_coverage_and_values(tmp_path: Path) -> None:
    found = survey(
        tmp_path, sales(tmp_path, "(2020, 12, 'N'), (2021, 1, 'N'), (2021, 3, 'S'), (2021, 3, NULL)")
    )
    source = found.sources["sales"]
    assert [column.name for column in source.columns] == ["y", "m", "shop"]
    assert source.rows == 4
    assert [(m.year, m.month, m.rows) for m in source.coverage] == [(2020, 12, 1), (2021, 1, 1), (2021, 3, 2)]
    shop = found.dimensions["shop"]
    assert shop.complete
    assert [(v.value, v.label, v.rows) for v in shop.values] == [
        ("N", "North", 2),
        ("S", None, 1),
        ("unknown", None, 1),
    ]
    assert [v.text() for v in shop.values] == ["North (N)", "S", "unknown"]
    assert Catalogue.model_validate(canon.decode(canon.encode(found.to_data()))) == found


def test_a_source_without_meaning_is_listed_too(tmp_path: Path) -> None:
    files = sales(tmp_path, "(2020, 12, 'N')")
    (tmp_path / "semantics.yaml").unlink()
    found = survey(tmp_path, files)
    assert found.sources["sales"].rows == 1
    assert found.sources["sales"].coverage == []
    assert found.dimensions == {}


def test_another_content_is_another_digest(tmp_path: Path) -> None:
    first = survey(tmp_path, sales(tmp_path, "(2020, 12, 'N')"))
    second = survey(tmp_path, sales(tmp_path, "(2020, 12, 'S')"))
    assert first.digest() != second.digest()
    assert first.sources["sales"].fingerprint != second.sources["sales"].fingerprint


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    files = sales(tmp_path, "(2020, 13, 'N')")
    with pytest.raises(ToolError) as strange:
        survey(tmp_path, files)
    data = files["sales"].read_bytes()
    files["sales"].write_bytes(data[: len(data) // 2])
    with pytest.raises(ToolError) as damaged:
        survey(tmp_path, files)
    files["sales"].unlink()
    with pytest.raises(ToolError) as missing:
        survey(tmp_path, files)
    (tmp_path / "sales.parquet").unlink(missing_ok=True)
    duckdb.sql("SELECT 1 AS y, 2 AS m").write_parquet(str(files["sales"]))
    with pytest.raises(ToolError) as column:
        survey(tmp_path, files)
    codes = [caught.value.code for caught in (strange, damaged, missing, column)]
    assert codes == [
        "tool.source_damaged",
        "tool.source_damaged",
        "tool.source_missing",
        "tool.column_missing",
    ]
    assert all(
        str(files["sales"]) in (caught.value.place or "") for caught in (strange, damaged, missing, column)
    )


@pytest.mark.parametrize(
    ("covered", "text"),
    [
        ([], "no month"),
        (months(2013), "January 2013 to December 2013"),
        (months(2012, 2013), "January 2012 to December 2013"),
        ([MonthCoverage(year=None, month=m, rows=1) for m in (2, 3, 5)], "February to March, May"),
        ([MonthCoverage(year=2012, month=12, rows=1), MonthCoverage(year=2013, month=2, rows=1)], "December 2012, February 2013"),
    ],
)  # fmt: skip
def test_coverage_in_words(covered: list[MonthCoverage], text: str) -> None:
    assert coverage_text(covered) == text


def test_the_shoppers_bind_over_their_own_table(suites: Path, tmp_path: Path) -> None:
    table = suites / shoppers.TABLE
    shoppers.write_package(tmp_path, table)
    found = survey(tmp_path, {"sessions": table})
    assert coverage_text(found.coverage_of("sessions")) == "February to March, May to December"
    package = load_package(shoppers.package_files(table), "shoppers")
    text = "Conversion of new visitors is down in December compared with November. Why?"
    binding = bind(new_request(text), package, found, package.agent())
    assert binding.question is None
    assert binding.parameters == {
        "metric": "conversion",
        "baseline": {"year": None, "month": 11},
        "current": {"year": None, "month": 12},
        "who": [{"dimension": "visitor", "value": "New_Visitor"}],
        "cuts": ["channel", "region", "weekend"],
    }
