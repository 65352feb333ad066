"""The tools as a worker calls them: descriptors, schemas, what goes into the receipt, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from duly.hosts.tools import metrics, report, tally
from duly.hosts.tools.context import CallContext, Tool
from duly.hosts.tools.metrics_package import SEMANTICS_FILE
from duly.protocol.wire import tagged
from duly.protocol.wire.errors import ToolError
from small_world import APRIL, FIXED_PARTS, MARCH, fixed_rows, semantics, write

TOOLS: dict[str, Tool] = {
    tool.descriptor.full_name: tool for tool in (*metrics.tools(), *report.tools(), *tally.tools())
}
MANIFEST = """
[sources.orders]
file = "orders.parquet"
[sources.parts]
kind = "duckdb"
file = "parts.parquet"
nulls = ["", "NA"]
"""
CHANGE = {"metric": "rate", "baseline": MARCH, "current": APRIL}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "metrics.value": {"metric": "rate", "period": MARCH, "filters": [{"dimension": "shop", "value": "A"}]},
    "metrics.completeness": CHANGE,
    "metrics.change": CHANGE,
    "metrics.decompose": {**CHANGE, "dimension": "shop", "sign_certain": True},
    "metrics.interact": {**CHANGE, "dimension": "shop", "others": ["slot", "maker"]},
    "metrics.segments": {"metric": "rate", "dimension": "shop", "segments": ["A", "B"], "strata": ["slot"]},
    "metrics.catalogue": {},
    "verify.tally": {
        "source": "orders",
        "groups": [{"name": "shop", "column": "shop"}],
        "counts": {"rows": []},
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("package")
    write(found / "data", fixed_rows(), FIXED_PARTS)
    (found / SEMANTICS_FILE).write_bytes(semantics("columns"))
    (found / "agent.toml").write_text(MANIFEST)
    return found


def call_in(folder: Path, rows_max: int = 0) -> CallContext:
    return CallContext("run", "step", folder, folder / "data", folder / "scratch", rows_max=rows_max)


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_a_tool_takes_and_gives_what_its_schemas_say(folder: Path, name: str) -> None:
    tool, call = TOOLS[name], call_in(folder)
    jsonschema_rs.validate(tool.descriptor.input_schema, ARGUMENTS[name])
    output = tool.function(call, ARGUMENTS[name])
    jsonschema_rs.validate(tool.descriptor.output_schema, output)
    assert tagged.from_tagged(tagged.to_tagged(output)) == output
    assert tagged.to_tagged(output) == output  # plain data, so references and rules see what the tool gave
    assert "orders" in call.fingerprints
    assert call.rows_scanned > 0 or name == "metrics.catalogue"
    assert output == tool.function(call_in(folder), ARGUMENTS[name])


@pytest.mark.parametrize("name", [name for name in TOOLS if name.startswith("report.")])
def test_a_report_takes_and_gives_what_its_schemas_say(folder: Path, name: str) -> None:
    made = {"value": "value", "change": "completeness", "diagnosis": "completeness", "comparison": "segments"}
    step = made[name.removeprefix("report.")]
    output = TOOLS[f"metrics.{step}"].function(call_in(folder), ARGUMENTS[f"metrics.{step}"])
    arguments = {"evidence": [{"step": step, "output": output}]}
    tool = TOOLS[name]
    jsonschema_rs.validate(tool.descriptor.input_schema, arguments)
    said = tool.function(call_in(folder), arguments)
    jsonschema_rs.validate(tool.descriptor.output_schema, said)
    assert said["kind"] == "report"


def test_every_tool_only_reads() -> None:
    assert {tool.descriptor.effect for tool in TOOLS.values()} == {"read"}
    assert TOOLS["metrics.decompose"].descriptor.evidence == "association"
    assert TOOLS["metrics.value"].descriptor.evidence == "observation"


def test_another_server_name() -> None:
    assert [tool.descriptor.full_name for tool in metrics.tools("numbers", 7)][:1] == ["numbers.value"]
    assert {tool.descriptor.timeout_seconds for tool in metrics.tools("numbers", 7)} == {7}


def test_a_value_carries_its_report(folder: Path) -> None:
    output = TOOLS["metrics.value"].function(call_in(folder), ARGUMENTS["metrics.value"])
    first = output["report"]["statements"][0]
    assert first["artifacts"] == ["step"]
    assert "(shop A)" in first["text"]


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("metrics.value", {"metric": "profit"}, "tool.bad_arguments"),
        ("metrics.value", {"filters": [{"dimension": "colour", "value": "red"}]}, "tool.bad_arguments"),
        ("metrics.decompose", {"dimension": "colour"}, "tool.bad_arguments"),
        ("metrics.value", {"period": {"month": 3}}, "tool.period_needs_year"),
        ("metrics.change", {"baseline": {"year": 1999, "month": 3}}, "tool.period_empty"),
        ("metrics.segments", {"segments": ["A", "A"]}, "tool.bad_arguments"),
        ("metrics.segments", {"segments": ["A", "nobody"]}, "tool.segment_empty"),
        ("verify.tally", {"groups": [{"name": "x", "column": "colour"}]}, "tool.column_missing"),
        ("verify.tally", {"source": "nothing"}, "tool.source_missing"),
        (
            "verify.tally",
            {"counts": {"x": [{"column": "shop", "op": "~", "value": 1}]}},
            "tool.bad_arguments",
        ),
    ],
)
def test_bad_arguments_are_named(folder: Path, name: str, change: dict[str, Any], code: str) -> None:
    with pytest.raises(ToolError) as caught:
        TOOLS[name].function(call_in(folder), ARGUMENTS[name] | change)
    assert caught.value.code == code


def test_the_row_budget_is_kept(folder: Path) -> None:
    with pytest.raises(ToolError) as caught:
        TOOLS["metrics.change"].function(call_in(folder, rows_max=300), CHANGE)
    assert caught.value.code == "tool.rows_exceeded"


def test_a_package_without_semantics(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        TOOLS["metrics.value"].function(call_in(tmp_path), ARGUMENTS["metrics.value"])
    assert caught.value.code == "tool.no_semantics"


def test_a_package_with_faulty_semantics(tmp_path: Path) -> None:
    (tmp_path / SEMANTICS_FILE).write_text("version: 1\nmetrics: []\n")
    with pytest.raises(ToolError) as caught:
        TOOLS["metrics.value"].function(call_in(tmp_path), ARGUMENTS["metrics.value"])
    assert caught.value.code == "tool.bad_package"
    assert SEMANTICS_FILE in str(caught.value.place)


def test_hostile_names_in_data_are_only_data(tmp_path: Path) -> None:
    """Segments that look like SQL, references or templates stay texts, in the query and in the report."""
    names = ["'); DROP TABLE orders; --", '{"$ref": "s1#"}', "{label}", "$x", "\u202egnol", "A"]
    rows = [(*row[:1], names[index % len(names)], *row[2:]) for index, row in enumerate(fixed_rows())]
    write(tmp_path / "data", rows, FIXED_PARTS)
    (tmp_path / SEMANTICS_FILE).write_bytes(semantics("columns"))
    (tmp_path / "agent.toml").write_text(MANIFEST)
    call = call_in(tmp_path)
    output = TOOLS["metrics.decompose"].function(call, {**CHANGE, "dimension": "shop"})
    assert {item["segment"] for item in output["segments"]} == set(names)
    complete = TOOLS["metrics.completeness"].function(call, CHANGE)
    evidence = [{"step": "complete", "output": complete}, {"step": "by", "output": output}]
    said = TOOLS["report.diagnosis"].function(call, {"evidence": evidence})
    assert any(output["top"]["segment"] in item["text"] for item in said["statements"])
    for name in names:
        where = [{"dimension": "shop", "value": name}]
        found = TOOLS["metrics.value"].function(call, {"metric": "count", "filters": where})
        assert found["population"] == sum(1 for row in rows if row[1] == name)
