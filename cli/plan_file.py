"""A plan that a person brings (``--plan FILE``), as JSON or YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from duly.protocol.plan import plain_yaml
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from duly.protocol.wire.errors import PlanError, WireError
from duly.protocol.wire.limits import FRAME_BYTES_MAX


def read_plan(path: Path) -> Plan:
    """The plan in a file, its origin ``person``. Raises ``PlanError`` ``plan.file`` with the place and every fault."""
    place = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(FRAME_BYTES_MAX + 1)
    except OSError as error:
        raise PlanError("plan.file", f"The plan cannot be read: {error.strerror}.", place=place) from None
    if len(data) > FRAME_BYTES_MAX:
        raise PlanError("plan.file", f"A plan has at most {FRAME_BYTES_MAX} bytes.", place=place)
    value = _parsed(data, path)
    if not isinstance(value, dict):
        raise PlanError("plan.file", "A plan is a map with the field steps.", place=place)
    value = {"plan_id": "plan", **value, "origin": "person"}
    try:
        plan = Plan.from_data(value, error=PlanError, code="plan.file", what="The plan")
        canon.encode(plan.to_data())
    except (PlanError, WireError) as error:
        where = f"{place}: {error.place}" if error.place else place
        raise PlanError("plan.file", error.message, place=where, faults=error.faults) from None
    return plan


def _parsed(data: bytes, path: Path) -> Any:
    if path.suffix in (".yaml", ".yml"):
        tree, places = plain_yaml.read(data, str(path))
        if places.faults:
            first = places.faults[0]
            raise PlanError("plan.file", first.message, place=first.path, faults=places.faults)
        return tree
    try:
        return json.loads(data)
    except ValueError as error:
        raise PlanError("plan.file", f"The plan is not JSON: {error}.", place=str(path)) from None
