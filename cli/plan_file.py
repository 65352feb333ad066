"""Plans that a person writes: ``--plan FILE``, and the file in which a waiting plan is edited; JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duly.protocol.plan import plain_yaml, validate
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.places import Places
from duly.protocol.plan.plan import Plan, Provenance
from duly.protocol.wire import canon
from duly.protocol.wire.errors import Fault, PlanError, WireError
from duly.protocol.wire.limits import FRAME_BYTES_MAX

KEY_SHOWN_MAX = 60
_NOT_EDITED = ("plan_id", "version", "origin", "provenance")


def read_plan(path: Path) -> Plan:
    """The plan in a file, its origin ``person``. Raises ``PlanError`` ``plan.file`` with the place and every fault."""
    tree, places = _tree(path, read_bytes(path))
    return _plan({"plan_id": "plan", **tree, "origin": "person"}, places)


def edited(path: Path, data: bytes, waiting: Plan, descriptors: Mapping[str, Descriptor]) -> Plan:
    """The plan that a person made of the one that waits.

    Number, version and origin are given here, whatever the file says; a tool's ``descriptor`` that is left out is that of
    the granted tool. Raises ``PlanError`` ``plan.file`` with every fault, each with its line where the file is YAML.
    """
    tree, places = _tree(path, data)
    tree = {name: value for name, value in tree.items() if name not in _NOT_EDITED}
    steps = tree.get("steps")
    for step in steps if isinstance(steps, list) else ():
        _pin(step, descriptors)
    number = waiting.provenance.number
    plan = _plan(
        {
            "objective": waiting.objective,
            **tree,
            "plan_id": waiting.plan_id,
            "version": waiting.version + 1,
            "origin": "person",
            "provenance": Provenance(kind="edited", number=number, reason="edited by a person").to_data(),
        },
        places,
    )
    faults = validate.faults_of(plan, descriptors)
    if plan.objective != waiting.objective:
        faults.insert(
            0,
            Fault(
                "objective",
                "plan.objective",
                "the objective is fixed; `duly amend` changes what a run is for.",
            ),
        )
    if faults:
        raise located(PlanError("plan.file", _count(faults), faults=faults), path, data)
    return plan


def located(error: PlanError, path: Path, data: bytes) -> PlanError:
    """The same error with every fault at its line of the file."""
    places = _tree(path, data)[1]
    faults = [Fault(_line(fault.path, places), fault.code, fault.message) for fault in error.faults]
    return PlanError(error.code, error.message, place=str(path), hint=error.hint, faults=faults)


def read_bytes(path: Path) -> bytes:
    """The bytes of a plan's file. Raises ``PlanError`` ``plan.file``."""
    place = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(FRAME_BYTES_MAX + 1)
    except OSError as error:
        raise PlanError("plan.file", f"The plan cannot be read: {error.strerror}.", place=place) from None
    if len(data) > FRAME_BYTES_MAX:
        raise PlanError("plan.file", f"A plan has at most {FRAME_BYTES_MAX} bytes.", place=place)
    return data


def _tree(path: Path, data: bytes) -> tuple[dict[str, Any], Places]:
    """What a file says, with the lines of its fields (none for JSON)."""
    if path.suffix in (".yaml", ".yml"):
        tree, places = plain_yaml.read(data, str(path))
        if places.faults:
            first = places.faults[0]
            raise PlanError("plan.file", first.message, place=first.path, faults=places.faults)
        return tree, places
    try:
        value = json.loads(data, object_pairs_hook=_once)
    except RecursionError:
        raise PlanError("plan.file", "The plan is nested too deeply.", place=str(path)) from None
    except ValueError as error:
        raise PlanError("plan.file", f"The plan is not JSON: {error}.", place=str(path)) from None
    if not isinstance(value, dict):
        raise PlanError("plan.file", "A plan is a map with the field steps.", place=str(path))
    return value, Places(str(path))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A map of JSON. A key that stands twice would let one reader see another plan than the next."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:KEY_SHOWN_MAX]!r} stands twice")
        found[key] = value
    return found


def _plan(data: dict[str, Any], places: Places) -> Plan:
    try:
        plan = Plan.from_data(data, error=PlanError, code="plan.file", what="The plan")
        canon.encode(plan.to_data())
    except (PlanError, WireError) as error:
        paths = [fault.path for fault in error.faults] or [(error.place or "").strip("/")]
        faults = [
            Fault(_line(path, places), fault.code, fault.message)
            for path, fault in zip(paths, error.faults, strict=False)
        ]
        raise PlanError("plan.file", error.message, place=_line(paths[0], places), faults=faults) from None
    return plan


def _pin(step: Any, descriptors: Mapping[str, Descriptor]) -> None:
    """Fills in the descriptor of every tool that a step names without one."""
    if not isinstance(step, dict):
        return
    contract, verification = step.get("tool_contract"), step.get("verification")
    independent = verification.get("independent") if isinstance(verification, dict) else None
    named = [
        contract.get("tool") if isinstance(contract, dict) else None,
        independent.get("read_back") if isinstance(independent, dict) else None,
    ]
    for tool in named:
        if isinstance(tool, dict) and "descriptor" not in tool:
            known = descriptors.get(f"{tool.get('server')}.{tool.get('name')}")
            if known is not None:
                tool["descriptor"] = known.digest()


def _line(path: str, places: Places) -> str:
    """A path such as ``steps/0/inputs`` with the line of the field, or of what is nearest around it."""
    parts = [int(part) if part.isdigit() else part for part in path.split("/") if part]
    return (
        places.text_of(tuple(parts)) if places.lines else f"{places.place}: {path}" if path else places.place
    )


def _count(faults: list[Fault]) -> str:
    return f"The plan has {len(faults)} fault{'' if len(faults) == 1 else 's'}."
