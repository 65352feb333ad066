"""On random tables the verifier agrees with the tools, whatever the time, the nulls and the lost keys."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.protocol.wire.errors import DulyError
from metric_steps import Steps, failed
from small_world import APRIL, MARCH, METRICS, TIMES, Row, part_tables, tables, world

FILTERS = st.sampled_from(
    [
        [],
        [{"dimension": "shop", "value": "A"}],
        [{"dimension": "shop", "value": "A"}, {"dimension": "shop", "value": "d'E"}],
        [{"dimension": "slot", "value": "early"}, {"dimension": "maker", "value": "none"}],
    ]
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=tables,
    parts=part_tables,
    time=st.sampled_from(sorted(TIMES)),
    metric=st.sampled_from(METRICS),
    filters=FILTERS,
)
def test_tools_and_verifier_agree(
    rows: Sequence[Row], parts: Sequence[Row], time: str, metric: str, filters: list[dict[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        steps = Steps(world(Path(folder), rows, parts, time))
        common: dict[str, Any] = {"metric": metric, "filters": filters}
        change = {**common, "baseline": MARCH, "current": APRIL}
        _try(steps, "value", "metrics.value", **common, period=MARCH)
        _try(steps, "all", "metrics.value", **common)
        _try(steps, "change", "metrics.change", **change)
        _try(steps, "complete", "metrics.completeness", **change)
        for name in ("shop", "slot", "maker"):
            _try(steps, f"by_{name}", "metrics.decompose", **change, dimension=name)
        _try(steps, "in_shop", "metrics.interact", **change, dimension="shop", others=["slot", "maker"])
        _try(
            steps,
            "two",
            "metrics.segments",
            **common,
            dimension="shop",
            segments=["A", "B"],
            strata=["slot", "maker"],
        )
        if "complete" in steps.outputs and "by_shop" in steps.outputs:
            steps.run("report", "report.diagnosis", evidence=["complete", "by_shop", "in_shop"])
        checks = steps.verify()
        assert not failed(checks)
        assert {check.step_id for check in checks if check.outcome == "pass"} == set(steps.outputs)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=tables,
    parts=part_tables,
    metric=st.sampled_from(METRICS),
    name=st.sampled_from(["shop", "slot", "maker"]),
)
def test_segments_sum_to_the_change(
    rows: Sequence[Row], parts: Sequence[Row], metric: str, name: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        steps = Steps(world(Path(folder), rows, parts))
        if not _try(
            steps, "by", "metrics.decompose", metric=metric, baseline=MARCH, current=APRIL, dimension=name
        ):
            return
        found = steps.outputs["by"]
        if found["status"] == "withheld":
            assert found["segments"] == []
            assert not found["sign_certain"]
            return
        total = math.fsum(item["contribution"] for item in found["segments"])
        assert total == pytest.approx(found["change"], abs=1e-9, rel=1e-12)
        for item in found["segments"]:
            low, high = item["low"], item["high"]
            assert (low is None) == (high is None)
            if low is not None and item["baseline"]["missing"] == item["current"]["missing"] == 0:
                assert low == high == pytest.approx(item["contribution"], abs=1e-9, rel=1e-12)


def _try(steps: Steps, step: str, tool: str, **arguments: Any) -> bool:
    """Runs a step; a month or a segment without rows is refused by name, and then it has no output."""
    try:
        steps.run(step, tool, **arguments)
    except DulyError as error:
        assert error.code in ("tool.period_empty", "tool.segment_empty")
        return False
    return True
