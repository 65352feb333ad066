"""Where a request's own texts and numbers stand in a plan: what of the request may be another the next time.

A value counts as the request's where it stands there, letter for letter and as whole words, and the plan uses it nowhere
but as a whole argument. Everything else of the request is kept as it is: another request is not for this plan.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..plan.plan import Plan, ReadBack
from ..plan.playbook import ADVICE, ITEM, OTHERS
from ..wire.limits import PLAYBOOK_SLOT_CHARS_MAX, PLAYBOOK_SLOTS_MAX

_TEXT = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}\Z")
Piece = str | dict[str, str]


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter ``name`` of a kind (``text``, ``number``) whose value stands in the request at these spans."""

    name: str
    kind: str
    value: str | int | float
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a request, and the request as a playbook has it: texts, and ``{$param: name}`` for each place."""

    found: list[Slot] = field(default_factory=list)
    request: list[Piece] = field(default_factory=list)


def slots_of(plan: Plan, taken: Mapping[str, Any]) -> Slots:
    """The slots of a plan's request. ``taken`` are argument names whose values are parameters already."""
    text = " ".join(plan.objective.split())
    leaves = [leaf for step in plan.steps for tree in _arguments(step) for leaf in _leaves(tree, taken)]
    rules = json.dumps([step.verification.to_data().get("acceptance") for step in plan.steps], default=str)
    chosen: list[Slot] = []
    reserved = {ITEM, OTHERS, *ADVICE, *taken}
    for value in _candidates(leaves):
        spans = tuple(match.span() for match in _standing(value).finditer(text))
        if not spans or _stands_elsewhere(value, leaves, rules):
            continue
        if len(chosen) < PLAYBOOK_SLOTS_MAX and _apart(text, [*_spans(chosen), *spans]):
            names = [name for name, leaf in leaves if _same(leaf, value)]
            name = _name(names[0], {*reserved, *(slot.name for slot in chosen)}, len(chosen))
            chosen.append(Slot(name, "text" if isinstance(value, str) else "number", value, spans))
    return Slots(chosen, _pieces(text, chosen))


def _arguments(step: Any) -> Iterator[Any]:
    yield step.tool_contract.arguments
    if isinstance(step.verification.independent, ReadBack):
        yield step.verification.independent.arguments


def _leaves(tree: Any, taken: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Every (name of its argument, text or number); references and what is a parameter already are none."""
    if name in taken and tree == taken[name]:
        return
    if isinstance(tree, dict):
        if "$ref" not in tree:
            for key, value in tree.items():
                yield from _leaves(value, taken, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _leaves(value, taken, name)
    elif isinstance(tree, str | int | float) and not isinstance(tree, bool):
        yield name, tree


def _candidates(leaves: list[tuple[str, Any]]) -> list[Any]:
    """The values that may be slots, the longest text first."""
    found: list[Any] = []
    for _, value in leaves:
        if isinstance(value, str) and not (
            len(value) <= PLAYBOOK_SLOT_CHARS_MAX
            and value.isprintable()
            and _TEXT.fullmatch(value)
            and value == " ".join(value.split())
        ):
            continue
        if not any(_same(value, one) for one in found):
            found.append(value)
    return sorted(found, key=lambda value: -len(str(value)))


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _standing(value: Any) -> re.Pattern[str]:
    if isinstance(value, str):
        return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
    return re.compile(rf"(?<![\w.,+-]){re.escape(str(value))}(?![\w]|[.,]\d)")


def _stands_elsewhere(value: Any, leaves: list[tuple[str, Any]], rules: str) -> bool:
    """Whether the plan has a value where no parameter can stand: inside of another text, or in a rule. A number that is
    two different arguments may be the request's in one and not in the other."""
    inside = re.compile(rf"(?<!\w){re.escape(str(value))}(?!\w)", re.IGNORECASE)
    texts = [leaf for _, leaf in leaves if isinstance(leaf, str) and not _same(leaf, value)]
    if any(inside.search(one) for one in (*texts, rules)):
        return True
    return not isinstance(value, str) and len({name for name, leaf in leaves if leaf == value}) > 1


def _spans(slots: list[Slot]) -> list[tuple[int, int]]:
    return [span for slot in slots for span in slot.spans]


def _apart(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether white space stands between any two, so that nobody can tell them apart in another way."""
    ordered = sorted(spans)
    return all(" " in text[end:start] for (_, end), (start, _) in itertools.pairwise(ordered))


def _name(wish: str, used: Collection[str], number: int) -> str:
    name = wish if _NAME.match(wish) else f"value_{number + 1}"
    while name in used:
        name += "_"
    return name


def _pieces(text: str, slots: list[Slot]) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for (start, end), name in sorted((span, slot.name) for slot in slots for span in slot.spans):
        if text[at:start]:
            pieces.append(text[at:start])
        pieces.append({"$param": name})
        at = end
    return [*pieces, text[at:]] if text[at:] else pieces
