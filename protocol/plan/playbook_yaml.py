"""``playbooks/*.yaml``: bytes → ``Playbook``, every fault of the file at once, each with line and field."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pydantic import ValidationError

from ..wire.errors import PlanError
from . import plain_yaml, refs
from .places import Path, Places, unknown
from .playbook import ADVICE, ITEM, OTHERS, PLACED, PLACEHOLDERS, Playbook, ReadBackTemplate, StepTemplate
from .schedule import levels_of

_CODE = "package.playbook"
_SHORT = ("replan", "degrade", "escalate")


def parse_playbook(data: bytes, place: str, *, tools: Collection[str] | None = None) -> Playbook:
    """The playbook in ``data``; ``tools`` are the full names that its steps may call (``None``: not judged here).

    Raises ``PackageError`` with every fault. Codes: ``package.yaml``, ``package.playbook`` (a field),
    ``package.playbook_cycle``, ``package.unknown_tool``, ``package.unknown_parameter``, ``package.unknown_step``.
    """
    tree, places = plain_yaml.read(data, place)
    if places.faults:
        raise places.refuse(_CODE, "The playbook has a fault")
    try:
        playbook = Playbook.model_validate(_spelled_out(tree))
    except ValidationError as problem:
        places.add_model_faults(problem, tree, (), _CODE, Playbook)
        raise places.refuse(_CODE, "The playbook has a fault") from None
    _judge(playbook, places, tools)
    if places.faults:
        raise places.refuse(_CODE, "The playbook has a fault")
    return playbook


def _spelled_out(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree with every short ``on_failure`` (``replan``) written as a map (``{do: replan}``)."""
    found = dict(tree)
    if isinstance(tree.get("defaults"), dict):
        found["defaults"] = _with_destinations(tree["defaults"])
    if isinstance(tree.get("steps"), list):
        found["steps"] = [
            _with_destinations(step) if isinstance(step, dict) else step for step in tree["steps"]
        ]
    return found


def _with_destinations(holder: dict[str, Any]) -> dict[str, Any]:
    listed = holder.get("on_failure")
    if not isinstance(listed, list):
        return holder
    spelled = [{"do": item} if item in (*_SHORT, "retry") else item for item in listed]
    return {**holder, "on_failure": spelled}


def _judge(playbook: Playbook, places: Places, tools: Collection[str] | None) -> None:
    by_id = {step.id: step for step in playbook.steps}
    seen: set[str] = set()
    for index, step in enumerate(playbook.steps):
        at: Path = ("steps", index)
        if step.id in seen:
            places.add((*at, "id"), _CODE, f"The step {step.id!r} stands twice.")
        seen.add(step.id)
        for where, name in _tools_of(step):
            if tools is not None and name not in tools:
                places.add((*at, *where), "package.unknown_tool", unknown("tool", name, tools))
        _step_names(playbook, step, by_id, at, places)
        destinations = step.on_failure if step.on_failure is not None else playbook.defaults.on_failure
        if not destinations or destinations[-1].do == "retry":
            places.add((*at, "on_failure"), _CODE, "on_failure ends in a destination, not in a retry.")
    _parameters(playbook, places)
    _cycle(playbook, by_id, places)
    if playbook.report is not None and playbook.report not in by_id:
        places.add(("report",), "package.unknown_step", unknown("step", playbook.report, by_id))
    elif playbook.report is not None and by_id[playbook.report].foreach is not None:
        places.add(("report",), _CODE, "The report is one step, not one for every item.")


def _tools_of(step: StepTemplate) -> Iterator[tuple[Path, str]]:
    yield ("tool",), step.tool
    if isinstance(step.verification.independent, ReadBackTemplate):
        yield ("verification", "independent", "read_back"), step.verification.independent.read_back


def _step_names(
    playbook: Playbook, step: StepTemplate, by_id: dict[str, StepTemplate], at: Path, places: Places
) -> None:
    """Every name that a step uses: parameters, steps, the item."""
    parameters = {name for name, entry in playbook.parameters.items() if entry.kind == "dimensions"}
    if step.foreach is not None and step.foreach not in parameters:
        places.add(
            (*at, "foreach"), "package.unknown_parameter", unknown("list parameter", step.foreach, parameters)
        )
    for index, name in enumerate(step.after):
        if name not in by_id:
            places.add((*at, "after", index), "package.unknown_step", unknown("step", name, by_id))
    templates: list[tuple[Path, Any]] = [((*at, "arguments"), step.arguments)]
    if isinstance(step.objective, list):
        templates.append(((*at, "objective"), step.objective))
    if isinstance(step.verification.independent, ReadBackTemplate):
        where: Path = (*at, "verification", "independent", "arguments")
        templates.append((where, step.verification.independent.arguments))
    for path, template in templates:
        for where, text in _texts_with_marks(template, path, frozenset(by_id)):
            places.add(where, _CODE, text)
        for where, key, name in _walk(template, path):
            _placeholder(playbook, step, by_id, (where, key, name), places)


def _placeholder(
    playbook: Playbook,
    step: StepTemplate,
    by_id: dict[str, StepTemplate],
    found: tuple[Path, str, Any],
    places: Places,
) -> None:
    where, key, name = found
    if key == "$evidence":
        _evidence(name, by_id, where, places)
        return
    if not isinstance(name, str):
        places.add(where, _CODE, f"A placeholder is a map with the one key {key} and a text.")
        return
    if key == "$param":
        provided = set(playbook.provided()) | ({ITEM, OTHERS} if step.foreach is not None else set())
        if name not in provided:
            places.add(where, "package.unknown_parameter", unknown("parameter", name, provided))
        return
    try:
        target = refs.parse(name).step_id
    except PlanError as error:
        places.add(where, _CODE, error.message)
        return
    if target not in by_id:
        places.add(where, "package.unknown_step", unknown("step", target, by_id))
    elif key == "$all" and by_id[target].foreach is None:
        places.add(where, _CODE, f"The step {target!r} has no foreach; write $ref.")
    elif key == "$ref" and by_id[target].foreach not in (None, step.foreach):
        places.add(where, _CODE, f"The step {target!r} is one for every item; write $all.")


def _evidence(names: Any, by_id: dict[str, StepTemplate], where: Path, places: Places) -> None:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        places.add(where, _CODE, "$evidence is a map with this one key and a list of steps.")
        return
    for name in names:
        if name not in by_id:
            places.add((*where, "$evidence"), "package.unknown_step", unknown("step", name, by_id))


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, str, Any]]:
    if type(value) is dict:
        keys = [key for key in PLACEHOLDERS if key in value]
        if keys:
            yield path, keys[0], value[keys[0]] if len(value) == 1 else None
            return
        for key, item in value.items():
            yield from _walk(item, (*path, key))
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index))


def _texts_with_marks(value: Any, path: Path, step_ids: frozenset[str]) -> Iterator[tuple[Path, str]]:
    """References inside of longer texts: there is no text substitution."""
    if type(value) is dict:
        if not any(key in value for key in PLACEHOLDERS):
            for key, item in value.items():
                yield from _texts_with_marks(item, (*path, key), step_ids)
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _texts_with_marks(item, (*path, index), step_ids)
    elif type(value) is str:
        for fault in refs.faults_in(value, step_ids, ""):
            yield path, f"{fault.message[0].upper()}{fault.message[1:]}"


def _parameters(playbook: Playbook, places: Places) -> None:
    kinds: dict[str, str] = {}
    for name, parameter in playbook.parameters.items():
        at: Path = ("parameters", name)
        if parameter.kind not in PLACED and kinds.setdefault(parameter.kind, name) != name:
            places.add((*at, "kind"), _CODE, f"{kinds[parameter.kind]!r} is of the same kind already.")
        if parameter.default is not None and parameter.kind not in ("metric", "dimension"):
            places.add((*at, "default"), _CODE, "Only a metric or a dimension has a default here.")
        if parameter.single != "ask" and parameter.kind != "period_pair":
            places.add((*at, "single"), _CODE, "`single` belongs to a period pair.")
        if name in (ITEM, OTHERS, *ADVICE):
            places.add(at, _CODE, f"The name {name!r} has a meaning of its own.")
    _request(playbook, places)
    needs_metric = {"dimension", "dimensions"} & set(kinds)
    if needs_metric and "metric" not in kinds:
        at = ("parameters", kinds[min(needs_metric)])
        places.add(at, _CODE, "Dimensions are those of a metric; a parameter of the kind metric is missing.")


def _request(playbook: Playbook, places: Places) -> None:
    """The whole request names every text and number, nothing else, and keeps them apart."""
    placed = {name for name, parameter in playbook.parameters.items() if parameter.kind in PLACED}
    between = " "
    for index, piece in enumerate(playbook.match.request):
        if isinstance(piece, str):
            between += piece
            continue
        name = piece.get("$param", "")
        at: Path = ("match", "request", index)
        if name not in placed:
            places.add(at, "package.unknown_parameter", unknown("text or number parameter", name, placed))
        if not any(c.isspace() for c in between):
            places.add(at, _CODE, "White space stands between two parameters.")
        between = ""
    named = {piece.get("$param") for piece in playbook.match.request if isinstance(piece, dict)}
    for name in sorted(placed - named):
        places.add(("parameters", name), _CODE, f"match/request does not say where {name!r} stands.")


def _cycle(playbook: Playbook, by_id: dict[str, StepTemplate], places: Places) -> None:
    graph = [(step.id, [name for name in step.targets() if name in by_id]) for step in playbook.steps]
    placed = {name for level in levels_of(graph) for name in level}
    circling = [index for index, step in enumerate(playbook.steps) if step.id not in placed]
    if circling:
        names = ", ".join(playbook.steps[index].id for index in circling[:20])
        message = f"These steps wait for each other: {names}."
        places.add(("steps", circling[0]), "package.playbook_cycle", message)
