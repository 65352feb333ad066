"""JSON Schema over arguments and outputs, with one compiled validator a schema."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs

from ..wire import canon
from ..wire.errors import Fault, PlanError

NAMES_SHOWN_MAX = 3
NAME_CHARS_SHOWN_MAX = 40


@lru_cache(maxsize=512)
def _compiled(canonical: bytes) -> Any:
    schema = canon.decode(canonical, bytes_max=len(canonical))
    try:
        return jsonschema_rs.validator_for(schema)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise PlanError(
            "plan.bad_schema", f"This is no JSON Schema: {str(error).splitlines()[0][:200]}"
        ) from None


def compiled(schema: dict[str, Any]) -> Any:
    """The validator of a schema. Raises ``PlanError`` ``plan.bad_schema``. References to other documents do not load."""
    return _compiled(canon.encode(schema))


def faults_of(
    value: Any, schema: dict[str, Any], path: str, code: str, holes: Sequence[str] = ()
) -> list[Fault]:
    """Every way in which a value breaks a schema.

    ``holes`` are paths below ``path`` whose values are not known yet (references): whatever concerns them, or follows
    from them higher up through a combinator, is left out.
    """
    faults: list[Fault] = []
    for error in compiled(schema).iter_errors(value):
        where = "".join(f"/{part}" for part in error.instance_path)
        if any(
            hole == where or hole.startswith(where + "/") and _combines(error) or where.startswith(hole + "/")
            for hole in holes
        ):
            continue
        for cause in _causes(error):
            place = "".join(f"/{part}" for part in cause.instance_path)
            faults.append(Fault(path + place, code, _sentence(cause)))
    return faults


def _causes(error: Any) -> list[Any]:
    """What is wrong inside of the branch of a choice for which a value was meant; the error itself where none shows.

    Meant is the branch with the fewest faults among those whose type, and whose fixed words, the value has most of.
    """
    branches = getattr(error.kind, "context", None)
    if not branches:
        return [error]
    depth = len(error.instance_path)
    chosen = min(branches, key=lambda branch: _strangeness(branch, depth))
    if _strangeness(chosen, depth)[0]:
        return [error]
    return [cause for each in chosen for cause in _causes(each)]


def _strangeness(branch: Sequence[Any], depth: int) -> tuple[bool, int, int]:
    """How little a value was meant for a branch: another type, other fixed words than its own, many faults."""
    words = [(len(each.instance_path) - depth, str(each.schema_path[-1])) for each in branch]
    other = sum(1 for below, word in words if below <= 1 and word in ("enum", "const"))
    return (0, "type") in words, other, len(branch)


def _combines(error: Any) -> bool:
    return any(
        str(part) in ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "uniqueItems", "contains")
        for part in error.schema_path
    )


def _sentence(error: Any) -> str:
    """The schema's complaint, without the value: it may be long, secret or hostile. Fields are named, in ASCII and cut."""
    kind = str(error.schema_path[-1]) if error.schema_path else "schema"
    said = f"the value breaks the schema's {kind!r} ({'/'.join(str(part) for part in error.schema_path)})"
    missing = getattr(error.kind, "property", None)
    unwanted = getattr(error.kind, "unexpected", None)
    if kind == "required" and missing is not None:
        return f"{said}: {_name(missing)} is missing."
    if kind == "additionalProperties" and unwanted:
        more = f" and {len(unwanted) - NAMES_SHOWN_MAX} more" if len(unwanted) > NAMES_SHOWN_MAX else ""
        return f"{said}: no field is named {', '.join(map(_name, unwanted[:NAMES_SHOWN_MAX]))}{more}."
    return said + "."


def _name(field: Any) -> str:
    return ascii(str(field)[:NAME_CHARS_SHOWN_MAX])


def at(schema: dict[str, Any], parts: Sequence[str]) -> dict[str, Any] | None:
    """The subschema that a JSON Pointer's parts lead to, ``{}`` where the schema leaves it open.

    ``None`` means that the schema rules such a value out.
    """
    current: Any = schema
    for part in parts:
        if not isinstance(current, dict) or not current:
            return {}
        properties = current.get("properties", {})
        if part in properties:
            current = properties[part]
        elif part.isdigit() and isinstance(current.get("items"), dict):
            current = current["items"]
        elif current.get("additionalProperties") is False and "patternProperties" not in current:
            return None
        elif isinstance(current.get("additionalProperties"), dict):
            current = current["additionalProperties"]
        else:
            return {}
    return current if isinstance(current, dict) else {}


def may_fit(produced: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a value of one schema may be one of the other, judged by plain ``type`` words; unsure means yes."""
    have, want = _types(produced), _types(wanted)
    if not have or not want:
        return True
    numbers = {"integer", "number"}  # 3 is both, and which of them an output will be is not known yet
    return bool(have & want) or bool(have & numbers and want & numbers)


def _types(schema: dict[str, Any]) -> set[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    return {str(item) for item in kind} if isinstance(kind, list) else set()
