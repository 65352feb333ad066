"""The shoppers table against its gold numbers: nothing of metrics, reports or recomputation is tied to flights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duly.hosts.tools.metrics_cells import DataContext
from duly.protocol.judgement.verdict import judge
from duly.protocol.wire.errors import DulyError
from metric_steps import Steps, texts

NOVEMBER, DECEMBER = {"year": None, "month": 11}, {"year": None, "month": 12}
CASES = {"Q1 new visitors Nov->Dec": "new_conversion", "Q4 all Nov->Dec": "conversion"}
COLUMNS = {
    "TrafficType": "channel",
    "Region": "region",
    "OperatingSystems": "system",
    "Browser": "browser",
    "Weekend": "weekend",
}


@pytest.fixture(scope="module")
def gold(suites: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((suites / "gold" / "online_shoppers.json").read_bytes())
    return found


@pytest.mark.parametrize("case", list(CASES))
def test_every_contribution(shoppers: DataContext, gold: dict[str, Any], case: str) -> None:
    known = gold[case]
    steps = Steps(shoppers)
    for column, dimension in COLUMNS.items():
        found = steps.run(
            f"by_{dimension}",
            "metrics.decompose",
            metric=CASES[case],
            baseline=NOVEMBER,
            current=DECEMBER,
            dimension=dimension,
        )
        assert found["change"] == pytest.approx(known["delta_pp"], abs=1e-9)
        assert found["rate_effect"] == pytest.approx(known[column]["rate_sum_pp"], abs=6e-5)
        assert found["mix_effect"] == pytest.approx(known[column]["mix_sum_pp"], abs=6e-5)
        segments = {item["segment"]: item for item in found["segments"]}
        for row in known[column]["rows"]:
            item = segments[row["k"]]
            assert (item["baseline"]["observed"], item["baseline"]["numerator"]) == (row["nb"], row["gb"])
            assert (item["current"]["observed"], item["current"]["numerator"]) == (row["nc"], row["gc"])
            assert item["rate_effect"] == pytest.approx(row["rate_pp"], abs=6e-5)
            assert item["mix_effect"] == pytest.approx(row["mix_pp"], abs=6e-5)
    assert judge(steps.verify()) == ("pass", "")


def test_new_visitors(shoppers: DataContext) -> None:
    steps = Steps(shoppers)
    advice = [{"when": ["concentrated", "worse"], "text": "Begin with {dimension} {top} ({contribution})."}]
    report = steps.diagnose("new_conversion", NOVEMBER, DECEMBER, advice)
    found = steps.outputs["complete"]
    assert found["baseline"]["value"] == pytest.approx(30.55, abs=5e-3)
    assert found["current"]["value"] == pytest.approx(22.39, abs=5e-3)
    assert found["change"] == pytest.approx(-8.161, abs=5e-4)
    assert found["watermark"] is None
    assert found["baseline"]["covered"] is None
    assert found["sign_certain"] is True
    top = steps.outputs["by_channel"]["top"]
    assert (top["segment"], top["contribution"]) == ("8", pytest.approx(-4.917, abs=5e-4))
    assert steps.outputs["by_channel"]["spread"]["kind"] == "concentrated"
    assert report["status"] == "complete"
    assert texts(report, "recommendation") == ["Begin with channel 8 (-4.917 points)."]
    assert judge(steps.verify()) == ("pass", "")


def test_a_month_without_rows(shoppers: DataContext) -> None:
    with pytest.raises(DulyError) as caught:
        Steps(shoppers).run(
            "change",
            "metrics.change",
            metric="conversion",
            baseline={"year": None, "month": 1},
            current=DECEMBER,
        )
    assert caught.value.code == "tool.period_empty"


def test_a_year_where_there_are_none(shoppers: DataContext) -> None:
    with pytest.raises(DulyError) as caught:
        Steps(shoppers).run("value", "metrics.value", metric="conversion", period={"year": 2013, "month": 11})
    assert caught.value.code == "tool.period_has_year"
