"""Every benchmark script runs, with sizes so small that its figures mean nothing, and says what its page says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("bench_*.py"))


def ran(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Exit code 1 is a missed target, which so small a measurement on a shared machine may give."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *options],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done


def measured(script: str, *options: str) -> dict[str, Any]:
    found = json.loads(ran(script, "--json", *options).stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_what_it_asks_and_the_page_describes_it(script, checkout):
    assert "?" in ran(script, "--help").stdout
    page = (checkout / "docs" / "benchmarks.md").read_text("utf-8")
    assert f"benchmarks/{script}" in page


def test_the_journal_is_measured_against_raw_lmdb():
    found = measured("bench_journal.py", "--seconds", "0.01", "--rounds", "1")
    assert [row["group"] for row in found["groups"]] == [1, 16, 64, 256]
    assert all(row["queue_events_per_second"] > 0 for row in found["groups"])
    assert set(found["floor"]) == {"flush_us", "sign_us"}


@pytest.mark.ray
@pytest.mark.slow
def test_the_overhead_is_measured_on_a_runtime_of_its_own():
    found = measured("bench_overhead.py", "--quick")
    assert found["chain"]["durable_us_per_step"] > 0
    assert found["level"]["durable_s"] >= found["level"]["ideal_s"]
    assert found["shell"]["duly_runs_s"] > 0
    assert found["memory"]["idle_bytes"] > 0
    assert set(found["floor_us"]) == {"flush", "sign", "socket", "ray_call", "interpreter"}
    assert isinstance(found["missed"], list)


@pytest.mark.ray
@pytest.mark.slow
def test_a_models_call_is_measured_against_a_bare_request_and_a_draft_against_the_cache():
    found = measured("bench_models.py", "--quick")
    for name in ("small", "draft"):
        row = found["overhead"][name]
        assert row["duly"]["median_ms"] > row["raw"]["median_ms"] > 0
        assert row["library"]["p95_ms"] > 0
    assert [row["tools"] for row in found["prompt"]] == [5, 10, 20, 40, 50, 100, 200]
    assert all(row["prompt_bytes"] > row["message_bytes"] > 0 for row in found["prompt"])
    assert found["cache"]["model_calls"] == {"draft": 1, "hit": 0}
    assert found["cache"]["draft_ms"] > 0 and found["cache"]["hit_ms"] > 0
    assert "raw_call" in found["floor_us"]
    assert isinstance(found["missed"], list)
