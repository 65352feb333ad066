"""The flights against the published gold numbers (``gold/nycflights13.json`` of the suites), which another engine computed."""

from __future__ import annotations

from typing import Any

import pytest

from duly.hosts.tools.metrics_cells import DataContext
from duly.protocol.judgement.verdict import judge
from metric_steps import Steps, failed, texts

METRIC = "on_time_arrival_rate"


def month(number: int) -> dict[str, Any]:
    return {"year": 2013, "month": number}


@pytest.fixture(scope="module")
def june(flights: DataContext) -> Steps:
    steps = Steps(flights)
    advice = [
        {"when": ["broad", "worse"], "text": "Review what changed at every {dimension}, not at {top} alone."},
        {"when": "concentrated", "text": "Begin with {top}."},
    ]
    steps.diagnose(METRIC, month(5), month(6), advice)
    return steps


@pytest.fixture(scope="module")
def february(flights: DataContext) -> Steps:
    steps = Steps(flights)
    steps.diagnose(METRIC, month(1), month(2))
    return steps


def near(value: float) -> Any:
    """Equal in the three decimals that the gold numbers are given with."""
    return pytest.approx(value, abs=6e-4)


def segment(steps: Steps, dimension: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        item for item in steps.outputs[f"by_{dimension}"]["segments"] if item["segment"] == name
    )
    return found


def test_june_change_and_bounds(june: Steps) -> None:
    found = june.outputs["complete"]
    assert (found["baseline"]["numerator"], found["baseline"]["observed"]) == (21_950, 28_128)
    assert (found["current"]["numerator"], found["current"]["observed"]) == (18_735, 27_075)
    assert found["baseline"]["value"] == near(78.036)
    assert found["current"]["value"] == near(69.197)
    assert found["change"] == near(-8.839)
    assert found["change_low"] == pytest.approx(-12.21, abs=5e-3)
    assert found["change_high"] == pytest.approx(-5.76, abs=5e-3)
    assert found["sign_certain"] is True
    assert found["complete"] is False


@pytest.mark.parametrize(
    ("dimension", "name", "contribution", "low", "high"),
    [
        ("origin", "JFK", -3.573, -4.440, -2.935),
        ("origin", "LGA", -2.731, -4.110, -1.627),
        ("origin", "EWR", -2.535, -3.943, -1.329),
        ("carrier", "B6", -2.019, -2.246, -1.843),
        ("carrier", "UA", -1.984, -2.288, -1.708),
        ("carrier", "DL", -1.455, -1.596, -1.366),
    ],
)
def test_june_contributions(
    june: Steps, dimension: str, name: str, contribution: float, low: float, high: float
) -> None:
    found = segment(june, dimension, name)
    assert found["contribution"] == near(contribution)
    assert found["low"] == near(low)
    assert found["high"] == near(high)


def test_june_separability(june: Steps) -> None:
    origins, carriers = june.outputs["by_origin"], june.outputs["by_carrier"]
    assert origins["not_separable"] == [["JFK", "LGA"], ["JFK", "EWR"], ["LGA", "EWR"]]
    assert carriers["top"]["segment"] == "B6"
    assert carriers["top"]["note"] == "largest point contribution, not separable from UA"
    assert carriers["top"]["separable_from"] == "DL"
    assert ["B6", "DL"] not in carriers["not_separable"]
    assert ["UA", "DL"] not in carriers["not_separable"]


def test_june_is_broad(june: Steps) -> None:
    assert june.outputs["by_origin"]["spread"] == {"kind": "broad", "moved": 3, "comparable": 3}
    assert june.outputs["by_carrier"]["rate_effect"] == near(-9.0605)
    assert june.outputs["by_carrier"]["mix_effect"] == near(0.2210)


def test_june_report(june: Steps) -> None:
    report = june.outputs["report"]
    assert report["status"] == "complete"
    hypothesis = texts(report, "hypothesis")
    assert len(hypothesis) == 1
    for part in ("is broad", "every origin fell", "-9.060", "+0.221"):
        assert part in hypothesis[0]
    assert texts(report, "recommendation") == ["Review what changed at every origin, not at JFK alone."]
    said = " ".join(texts(report, "observation"))
    assert "JFK is not separable from LGA and EWR" in said
    assert "B6 is not separable from UA: the intervals overlap; DL is separable from B6 and UA." in said
    assert {item["level"] for item in report["statements"]} <= {"observation", "association", None}


def test_june_gold_file(june: Steps, suites: Any) -> None:
    import json

    gold = json.loads((suites / "gold" / "nycflights13.json").read_bytes())["5->6"]
    for dimension in ("origin", "carrier"):
        for row in gold[dimension]:
            found = segment(june, dimension, row["k"])
            assert found["baseline"]["observed"] == row["nb"]
            assert found["current"]["observed"] == row["nc"]
            for name, field in (("contribution", "contribution"), ("rate_effect", "rate_effect")):
                assert found[name] == pytest.approx(row[field], abs=6e-5)
            assert found["mix_effect"] == pytest.approx(row["mix_effect"], abs=6e-5)


def test_unknown_makers_drop_no_row(june: Steps) -> None:
    found = june.outputs["by_maker"]
    assert sum(item["current"]["population"] for item in found["segments"]) == 28_243
    assert "unknown" in {item["segment"] for item in found["segments"]}


def test_june_verifies(june: Steps) -> None:
    checks = june.verify()
    assert not failed(checks)
    assert judge(checks) == ("pass", "")
    assert {check.step_id for check in checks} == set(june.outputs)


def test_february_is_withheld(february: Steps) -> None:
    found = february.outputs["complete"]
    assert found["change"] == near(-0.214)
    assert (found["baseline"]["missing"], found["current"]["missing"]) == (606, 1_340)
    assert found["change_low"] == pytest.approx(-4.86, abs=5e-3)
    assert found["change_high"] == pytest.approx(2.75, abs=5e-3)
    assert found["sign_certain"] is False
    assert found["baseline"]["poor_days"] == []
    assert found["current"]["poor_days"] == [
        {"day": "2013-02-08", "missing": 475, "population": 930},
        {"day": "2013-02-09", "missing": 393, "population": 684},
    ]
    for step, output in february.outputs.items():
        if step.startswith("by_"):
            assert output["status"] == "withheld"
            assert (output["segments"], output["top"], output["rate_effect"]) == ([], None, None)
        if step.startswith("in_"):
            assert (output["status"], output["candidates"]) == ("withheld", [])


def test_february_report(february: Steps) -> None:
    report = february.outputs["report"]
    assert report["status"] == "withheld"
    said = " ".join(texts(report))
    for name in ("JFK", "LGA", "EWR", "B6", "UA", "DL", "accounts for"):
        assert name not in said
    assert "[-4.86, +2.75] points" in said
    missing = texts(report, "missing_evidence")
    assert "The outcome of 475 of 930 scheduled flights on 8 February 2013 is missing." in missing
    assert "The outcome of 393 of 684 scheduled flights on 9 February 2013 is missing." in missing
    assert len(report["choices"]) >= 2
    assert "8 February 2013 and 9 February 2013" in report["choices"][0]["text"]


def test_february_verdict_is_open(february: Steps) -> None:
    checks = february.verify()
    assert not failed(checks)
    outcome, reason = judge(checks)
    assert outcome == "inconclusive"
    assert "[-4.86, 2.75]" in reason


def test_reversal_of_delta_and_us_airways(flights: DataContext) -> None:
    steps = Steps(flights)
    found = steps.run(
        "compare",
        "metrics.segments",
        metric=METRIC,
        dimension="carrier",
        segments=["DL", "US"],
        strata=["day_part"],
    )
    values = {item["segment"]: item["value"] for item in found["segments"]}
    assert values["US"] == pytest.approx(82.05335081438152, abs=1e-9)
    assert values["DL"] == pytest.approx(81.76591548113643, abs=1e-9)
    rows = {row["stratum"]: [item["value"] for item in row["segments"]] for row in found["strata"][0]["rows"]}
    assert list(rows) == ["morning", "afternoon", "evening"]
    assert rows["morning"] == [near(89.2735), near(88.7186)]
    assert rows["afternoon"] == [near(78.2981), near(77.4033)]
    assert rows["evening"] == [near(74.2433), near(74.0918)]
    assert found["reversal"]["overall"] == "US"
    assert found["reversal"]["within"] == "DL"
    report = steps.run("report", "report.comparison", evidence=["compare"])
    assert any("reversal" in text and "Simpson" in text for text in texts(report))
    assert "association" in {item["level"] for item in report["statements"]}
    assert judge(steps.verify()) == ("pass", "")


@pytest.mark.parametrize(("metric", "count"), [("departed_flights", 9_512), ("scheduled_flights", 9_697)])
def test_flights_from_jfk_in_march(flights: DataContext, metric: str, count: int) -> None:
    steps = Steps(flights)
    where = [{"dimension": "origin", "value": "JFK"}]
    found = steps.run("value", "metrics.value", metric=metric, period=month(3), filters=where)
    assert found["value"] == count
    assert isinstance(found["value"], int)
    assert "SELECT" in found["query"]
    report = steps.run("report", "report.value", evidence=["value"])
    assert f"{count:,} flights" in texts(report)[0]
    assert judge(steps.verify()) == ("pass", "")


@pytest.mark.parametrize(
    "metric", ["scheduled_flights", "departed_flights", "cancelled_share", "mean_arrival_delay"]
)
def test_every_metric_verifies(flights: DataContext, metric: str) -> None:
    steps = Steps(flights)
    common = {"metric": metric, "baseline": month(12), "current": month(11)}
    steps.run("complete", "metrics.completeness", **common)
    steps.run("change", "metrics.change", **common)
    steps.run("by_carrier", "metrics.decompose", **common, dimension="carrier")
    steps.run("in_origin", "metrics.interact", **common, dimension="origin", others=["day_part", "maker"])
    checks = steps.verify()
    assert not failed(checks)
    if metric == "mean_arrival_delay":  # nothing bounds the delay of a flight that did not arrive
        assert judge(checks)[0] == "inconclusive"
    else:
        assert judge(checks) == ("pass", "")


def test_catalogue(flights: DataContext) -> None:
    steps = Steps(flights)
    found = steps.run("catalogue", "metrics.catalogue")
    periods = found["sources"]["flights"]["periods"]
    assert [item["month"] for item in periods] == list(range(1, 13))
    assert {item["year"] for item in periods} == {2013}
    carriers = {item["value"]: item.get("label") for item in found["dimensions"]["carrier"]["values"]}
    assert carriers["DL"] == "Delta Air Lines Inc."
    assert found["dimensions"]["maker"]["values"][0]["value"] == "BOEING"
    unknown = next(item for item in found["dimensions"]["maker"]["values"] if item["value"] == "unknown")
    assert unknown["rows"] == 52_606
