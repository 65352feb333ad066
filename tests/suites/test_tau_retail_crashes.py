"""Writes of a shop and a crash at every boundary of the journal: nothing is lost, nothing happens twice."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver import Driver
from duly.protocol.machine.phases import Phase
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from suite_tau import Shop, failing, once_each, retail_plan, retail_rows, retail_tools, shop_driver, written

# Their crashes at every boundary are about two hundred runs; 500 takes every row of more than one write.
CRASHED_ROWS = int(os.environ.get("DULY_SUITES_CRASHED_ROWS", "8"))


def looked_up(driver: Driver, shop: Shop) -> str:
    """What a person says who went to the shop to see whether a call that was cut off happened."""
    assert driver.run is not None and driver.run.asked is not None
    about, _, step_id = driver.run.asked.about.partition(":")
    if about != "outcome":
        return "skip"
    step = driver.run.step(step_id)
    return "it happened" if shop.holds(step.tool or "", step.tool_contract.arguments) else "it did not"


def crashed(
    row: Mapping[str, Any], descriptors: Mapping[str, Descriptor], wanted: Plan, **crash: int
) -> bool:
    """One run with one crash; whether it came to that. Nothing is lost, nothing happens twice."""
    driver, shop = shop_driver(row, descriptors, wanted)
    driver.crash_before, driver.crash_after = crash.get("before", 0), crash.get("after", 0)
    run = driver.submit()
    while run.phase.waits:
        run = driver.approve() if run.gate is not None else driver.answer(looked_up(driver, shop))
    once_each(shop, written(row))
    assert (run.phase is Phase.COMPLETED) == (not failing(row)), driver.story()
    return not driver.crash_before and not driver.crash_after


def test_no_crash_repeats_or_loses_a_write(suites: Path):
    """Before and after every boundary of the journal; where nobody can say what happened, a person looks."""
    chance = random.Random(20)
    descriptors = retail_tools(suites)
    several = [row for row in retail_rows(suites) if len(row["steps"]) > 1]
    chosen = chance.sample([row for row in several if failing(row)], 3)
    chosen += chance.sample(several, min(CRASHED_ROWS, len(several)))
    crashes = 0
    for row in chosen:
        wanted = retail_plan(row, descriptors)
        for side in ("before", "after"):
            boundary = 1
            while crashed(row, descriptors, wanted, **{side: boundary}):
                boundary += 1
                crashes += 1
    assert crashes > 20 * len(chosen)
