"""Whether a cached plan still fits: what an entry records, and what makes it stale.

An entry is *stale* when something it was planned from differs in a way that matters: tools, playbook, semantics,
policy, resolved bindings ("last month" is another month now), or a literal of the plan that stood in the old request
and does not stand letter for letter in the new one. A stale entry is shown as such and not served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..wire import canon
from .plan import Plan
from .request import Binding, Request

FACTS = ("descriptors", "playbook", "semantics", "policy", "binding")


def facts_of(digests: Mapping[str, str], descriptors: str, playbook: str, binding: Binding) -> dict[str, str]:
    """What an entry must agree with, as digests by name."""
    return {
        "descriptors": descriptors,
        "playbook": playbook,
        "semantics": digests.get("semantics", ""),
        "policy": digests.get("policy", ""),
        "binding": canon.digest("binding", binding.to_data()),
    }


def differences(
    old: Mapping[str, str], new: Mapping[str, str], plan: Plan, was: Request, now: Request
) -> list[str]:
    """What makes an entry stale, as names of ``FACTS`` and ``literal``; empty where it may be served."""
    found = [name for name in FACTS if old.get(name, "") != new.get(name, "")]
    if any(text in was.text and text not in now.text for text in _literals(plan)):
        found.append("literal")
    return found


def _literals(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        yield from _texts(step.tool_contract.arguments)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict) and "$ref" not in value:
        for item in value.values():
            yield from _texts(item)
