"""What checkers of stories share: the violation, and every entry beside the plan that holds at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chance_plans import DESCRIPTORS
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from memory_record import MemoryRecord

NEW_PLAN = ("plan.drafted", "plan.edited")
LONGER_PLAN = "plan.extended"  # the same plan with one more step


class Violation(AssertionError):
    """A story that should not be."""


def hold(condition: bool, what: str) -> None:
    if not condition:
        raise Violation(what)


def acts(tool: str) -> bool:
    """Whether a call does more than read; a model that reasons, which has no tool, does not."""
    return bool(tool) and not DESCRIPTORS[tool].reads_only


def plans_of(
    leaves: Iterable[Mapping[str, Any]], record: MemoryRecord
) -> Iterable[tuple[Mapping[str, Any], Plan | None]]:
    """Every entry with the plan that holds at that moment."""
    plan = None
    for leaf in leaves:
        if leaf["kind"] in (*NEW_PLAN, LONGER_PLAN):
            plan = Plan.model_validate(canon.decode(record.artifacts[leaf["artifacts"]["plan"]]))
        yield leaf, plan
