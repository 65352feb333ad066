"""How many ended runs the harness keeps in memory: few large ones or many small ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from duly.actors.harness.core import HarnessCore
from duly.protocol.wire.limits import ENDED_RUNS_KEPT, ENDED_STEPS_KEPT


def kept_after(sizes: list[int]) -> tuple[list[str], list[str]]:
    """The runs in memory, and those that the recorder was told to forget, after runs of these sizes ended."""
    forgotten: list[str] = []
    recorder: Any = SimpleNamespace(forget=forgotten.append)
    core = HarnessCore(
        recorder=recorder,
        clock=SimpleNamespace(),  # type: ignore[arg-type]
        perform=lambda run, order: None,
        publish=lambda run_id, records, run: None,
        give_up=lambda error: None,
    )
    for number, steps in enumerate(sizes):
        core.runs[f"r{number}"] = SimpleNamespace()  # type: ignore[assignment]
        core._retire(f"r{number}", steps)
    return list(core.runs), forgotten


def test_small_runs_are_kept_by_their_number():
    kept, forgotten = kept_after([1] * (ENDED_RUNS_KEPT + 3))
    assert len(kept) == ENDED_RUNS_KEPT
    assert forgotten == ["r0", "r1", "r2"]


def test_large_runs_are_kept_by_their_steps():
    kept, forgotten = kept_after([ENDED_STEPS_KEPT // 2] * 5)
    assert kept == ["r3", "r4"]
    assert forgotten == ["r0", "r1", "r2"]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_the_last_one_is_kept_whatever_its_size(before):
    kept, _ = kept_after([10] * before + [ENDED_STEPS_KEPT * 2])
    assert kept == [f"r{before}"]
