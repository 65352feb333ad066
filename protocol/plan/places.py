"""Where in a hand-written file a fault stands: ``file:line: field/field``, with the nearest known word as a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from ..wire.errors import Fault, PackageError

Path = tuple[str | int, ...]


@dataclass(slots=True)
class Places:
    """One file under judgement: its name in errors, the line of each known field, and the faults found so far."""

    place: str
    lines: Mapping[Path, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add(self, path: Path, code: str, message: str) -> None:
        """One more fault at a field; an unknown field stands at the line of the nearest known one around it."""
        self.faults.append(Fault(self.text_of(path), code, message))

    def text_of(self, path: Path) -> str:
        """``file:line: field/field``, without a line where none is known."""
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        line = f":{self.lines[known]}" if known in self.lines else ""
        name = "/".join(str(part) for part in path)
        return f"{self.place}{line}: {name}" if name else f"{self.place}{line}"

    def add_model_faults(
        self, problem: ValidationError, tree: Any, at: Path, code: str, model: type[BaseModel] | None = None
    ) -> None:
        """Every fault of a pydantic error over the value ``tree`` that stands at ``at``. Values are not repeated."""
        known = list(model.model_fields) if model is not None else []
        for entry in problem.errors(include_url=False, include_input=False):
            path = (*at, *real_path(entry["loc"], tree))
            if entry["type"] == "extra_forbidden":
                near = nearest(str(entry["loc"][-1]), known) if len(entry["loc"]) == 1 else None
                self.add(path, code, f"There is no such field here{_meant(near)}.")
            elif entry["type"] == "missing":
                self.add(path, code, "This field is missing.")
            else:
                text = str(entry["msg"]).removeprefix("Value error, ")
                self.add(path, code, f"{text[:1].upper()}{text[1:].rstrip('.')}.")

    def refuse(self, code: str, what: str) -> PackageError:
        """The error that carries every fault found so far; there is at least one."""
        return refusal(code, what, self.faults)


def refusal(code: str, what: str, faults: Sequence[Fault]) -> PackageError:
    """One error for all faults of a file or a package; its place is the first fault's."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return PackageError(
        code if len({fault.code for fault in faults}) > 1 else faults[0].code,
        f"{what}: {faults[0].message}{more}",
        place=faults[0].path,
        hint="Correct the file; every fault is listed with its place.",
        faults=faults,
    )


def real_path(location: Sequence[int | str], tree: Any) -> Path:
    """A pydantic location without the union and tag names that are no part of the document."""
    path: list[str | int] = []
    here = tree
    for index, part in enumerate(location):
        inside = (isinstance(here, dict) and part in here) or (
            isinstance(here, list) and isinstance(part, int) and part < len(here)
        )
        if inside:
            here = here[part]
            path.append(part)
        elif index == len(location) - 1 and isinstance(here, dict):
            path.append(part)
    return tuple(path)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like ``word``, ``None`` where none is."""
    found = difflib.get_close_matches(word[:200], sorted(known), n=1)
    return found[0] if found else None


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """The sentence for a name that nothing stands behind: the nearest one, else all of them."""
    names = sorted(known)
    near = nearest(word, names)
    shown = word if len(word) <= 60 else word[:60] + "…"
    if near is not None:
        return f"There is no {what} {shown!r}{_meant(near)}."
    return f"There is no {what} {shown!r}; known: {', '.join(names) or 'none'}."


def _meant(near: str | None) -> str:
    return f" (did you mean {near!r}?)" if near is not None else ""
