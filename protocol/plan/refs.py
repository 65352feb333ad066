"""References: ``{"$ref": "s2#/rows/0/rate"}`` in arguments means the value at a JSON Pointer in a step's output.

There is no text substitution. Outputs are held in their tagged form (``wire/tagged``), whose literal keys that begin
with ``$`` carry one more, so no output can pose as a reference.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..wire.errors import Fault, PlanError
from ..wire.ids import is_name

_TEXT_MARKS = re.compile(
    r"\$\{?\{?([A-Za-z0-9][A-Za-z0-9_:-]*)(?:[.#/\[][^$\s]*)?\}?\}?\$?|\{\{\s*([A-Za-z0-9_:-]+)[^}]*\}\}"
)
_TAGS = frozenset(
    (
        "$decimal",
        "$int",
        "$float",
        "$bytes",
        "$text",
        "$date",
        "$time",
        "$datetime",
        "$duration",
        "$tuple",
        "$map",
    )
)


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference: the step whose output is meant, and the pointer's parts, unescaped."""

    step_id: str
    pointer: tuple[str, ...]

    def __str__(self) -> str:
        return (
            self.step_id + "#" + "".join("/" + p.replace("~", "~0").replace("/", "~1") for p in self.pointer)
        )


def parse(text: str) -> Ref:
    """The reference of ``step#/pointer``. Raises ``PlanError`` ``plan.bad_reference``."""
    step_id, mark, pointer = text.partition("#")
    if not mark or not is_name(step_id) or (pointer and not pointer.startswith("/")):
        raise PlanError(
            "plan.bad_reference", f"{text!r} is no reference.", hint="Write {'$ref': 'step#/path'}."
        )
    return Ref(step_id, pointer_parts(pointer))


def pointer_parts(pointer: str) -> tuple[str, ...]:
    """The parts of a JSON Pointer (RFC 6901): ``/a~1b/0`` gives ``a/b`` and ``0``."""
    if not pointer:
        return ()
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def find(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every (path, raw reference) in arguments. The raw reference may be malformed; ``parse`` tells."""
    if type(value) is dict:
        if "$ref" in value:
            yield path, value
            return
        for key, item in value.items():
            yield from find(item, f"{path}/{key}")
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from find(item, f"{path}/{index}")


def steps_of(arguments: Any) -> list[str]:
    """The ids of the steps that well-formed references in arguments name, each once, in order of appearance."""
    names: dict[str, None] = {}
    for _, raw in find(arguments):
        target = raw.get("$ref")
        if isinstance(target, str) and "#" in target:
            names[target.partition("#")[0]] = None
    return list(names)


def lookup(value: Any, pointer: tuple[str, ...]) -> Any:
    """The value at a pointer in tagged data. Raises ``KeyError`` with the first part that leads nowhere."""
    for part in pointer:
        if type(value) is list:
            if not part.isdigit() or (len(part) > 1 and part[0] == "0") or int(part) >= len(value):
                raise KeyError(part)
            value = value[int(part)]
        elif type(value) is dict:
            key = "$" + part if part.startswith("$") else part
            if key not in value:
                raise KeyError(part)
            value = value[key]
        else:
            raise KeyError(part)
    return value


def resolve(arguments: Any, outputs: Mapping[str, Any], keep: Collection[str] = ()) -> Any:
    """Arguments with every reference replaced by the value that it names; nothing else changes.

    ``outputs`` maps step ids to tagged outputs; references to the steps in ``keep`` stay. Arguments without any
    reference come back as they are. Raises ``PlanError`` ``plan.reference_unresolved``.
    """
    if next(find(arguments), None) is None:
        return arguments
    return _replaced(arguments, outputs, keep)


def _replaced(arguments: Any, outputs: Mapping[str, Any], keep: Collection[str]) -> Any:
    if type(arguments) is dict:
        if "$ref" not in arguments:
            return {key: _replaced(item, outputs, keep) for key, item in arguments.items()}
        if keep and parse(arguments["$ref"]).step_id in keep:
            return arguments
        return _resolved(arguments["$ref"], outputs)
    if type(arguments) is list:
        return [_replaced(item, outputs, keep) for item in arguments]
    return arguments


def is_data(value: Any) -> bool:
    """Whether tagged output holds nothing but data: every key that begins with one ``$`` is a tag, so no output can
    pose as a reference."""
    if type(value) is dict:
        return all(
            (not key.startswith("$") or key.startswith("$$") or key in _TAGS) and is_data(item)
            for key, item in value.items()
        )
    return type(value) is not list or all(is_data(item) for item in value)


def _resolved(text: Any, outputs: Mapping[str, Any]) -> Any:
    ref = parse(text)
    if ref.step_id not in outputs:
        raise PlanError("plan.reference_unresolved", f"Step {ref.step_id} has no output yet.", place=str(ref))
    try:
        return lookup(outputs[ref.step_id], ref.pointer)
    except KeyError as missing:
        raise PlanError(
            "plan.reference_unresolved",
            f"The output of step {ref.step_id} has nothing at {missing.args[0]!r}.",
            place=str(ref),
        ) from None


def faults_in(arguments: Any, step_ids: frozenset[str], path: str) -> list[Fault]:
    """Everything that is wrong with references and ``$`` keys in arguments, the graph aside."""
    faults: list[Fault] = []
    _walk(arguments, step_ids, path, faults)
    return faults


def _walk(value: Any, step_ids: frozenset[str], path: str, faults: list[Fault]) -> None:
    if type(value) is str:
        for match in _TEXT_MARKS.finditer(value):
            if (match.group(1) or match.group(2)) in step_ids:
                faults.append(
                    Fault(
                        path,
                        "plan.reference_in_text",
                        f"a reference to {match.group(1) or match.group(2)} stands inside a text.",
                    )
                )
                return
    elif type(value) is list:
        for index, item in enumerate(value):
            _walk(item, step_ids, f"{path}/{index}", faults)
    elif type(value) is dict:
        _walk_map(value, step_ids, path, faults)


def _walk_map(value: dict[str, Any], step_ids: frozenset[str], path: str, faults: list[Fault]) -> None:
    if "$ref" in value:
        if len(value) != 1 or not isinstance(value["$ref"], str):
            faults.append(
                Fault(path, "plan.bad_reference", "a reference is a map with the one key $ref and a text.")
            )
            return
        try:
            ref = parse(value["$ref"])
        except PlanError as error:
            faults.append(Fault(path, error.code, error.message))
            return
        if ref.step_id not in step_ids:
            faults.append(Fault(path, "plan.dangling_reference", f"there is no step {ref.step_id}."))
        return
    for key, item in value.items():
        if (
            key.startswith("$")
            and not key.startswith("$$")
            and key not in _TAGS
            and key not in ("fold", "zone")
        ):
            faults.append(
                Fault(f"{path}/{key}", "plan.bad_key", "a literal key that begins with $ is written $$.")
            )
        _walk(item, step_ids, f"{path}/{key}", faults)
