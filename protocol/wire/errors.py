"""Every error that duly raises on purpose, with a stable code.

    DulyError
    ├── WireError        wire.*      bytes or values that may not cross a boundary
    ├── PackageError     package.*   an agent package that does not say what it must
    ├── RequestError     request.*   a request that cannot be taken
    ├── PlanError        plan.*      a plan with faults; carries every one of them
    ├── AuthorityError   mandate.* approval.* grant.* receipt.* key.* gate.* plan_entry.* epoch.* settlement.*   something was not allowed
    ├── ToolError        tool.*      a tool call that failed
    ├── BudgetError      budget.*    nothing left to spend
    ├── RunError         run.*       a run that cannot do what was asked of it
    ├── LogError         log.*       a record that does not verify
    ├── StorageError     storage.*   a store that cannot be used
    ├── ModelError       model.*     no model, or one that failed
    └── RuntimeFault     runtime.*   a process that is missing, late or of another version

An error crosses processes as data (``to_data``), never as a pickled exception. The code is for scripts, the message
for a person: it says what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a document: where (a path such as ``steps/2/inputs``), code, sentence."""

    path: str
    code: str
    message: str

    def to_data(self) -> dict[str, str]:
        return {"path": self.path, "code": self.code, "message": self.message}

    @classmethod
    def from_data(cls, data: Mapping[str, str]) -> Fault:
        return cls(data["path"], data["code"], data["message"])

    def __str__(self) -> str:
        return f"{self.path}: {self.message} [{self.code}]" if self.path else f"{self.message} [{self.code}]"


class DulyError(Exception):
    """The root. ``place`` says where (file, line, field, path), ``hint`` what to do, ``story`` what led here."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        place: str | None = None,
        hint: str | None = None,
        story: Sequence[str] = (),
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.place = place
        self.hint = hint
        self.story = tuple(story)
        self.faults = tuple(faults)

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint} [{self.code}]"

    @property
    def advice(self) -> str:
        """What went wrong and what to do, where that is known: for a person, without place and code."""
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (error_from_data, (self.to_data(),))

    def to_data(self) -> dict[str, Any]:
        """The error as a plain map that canonical msgpack and JSON can carry."""
        return {
            "code": self.code,
            "message": self.message,
            "place": self.place,
            "hint": self.hint,
            "story": list(self.story),
            "faults": [fault.to_data() for fault in self.faults],
        }


class WireError(DulyError):
    """Bytes or values that may not cross a boundary."""


class PackageError(DulyError):
    """An agent package, playbook or semantics file with a fault."""


class RequestError(DulyError):
    """A request that cannot be taken."""


class PlanError(DulyError):
    """A plan with faults; ``faults`` names every one."""


class AuthorityError(DulyError):
    """A mandate, approval, grant, receipt or key that does not hold, or a decision that came too late."""


class ToolError(DulyError):
    """A tool call that failed."""


class BudgetError(DulyError):
    """A budget that is spent or badly named."""


class RunError(DulyError):
    """An unknown run, or one whose phase does not allow what was asked."""


class LogError(DulyError):
    """A journal entry, node, checkpoint or artifact that does not verify."""


class StorageError(DulyError):
    """A store that is held, full, damaged, of another version or of another format."""


class ModelError(DulyError):
    """No model where one is needed, or a model that failed."""


class RuntimeFault(DulyError):
    """A process of duly that is missing, late, or of another version."""


E = TypeVar("E", bound=DulyError)
_FAMILIES: dict[str, type[DulyError]] = {
    "wire": WireError,
    "package": PackageError,
    "request": RequestError,
    "plan": PlanError,
    "mandate": AuthorityError,
    "approval": AuthorityError,
    "grant": AuthorityError,
    "receipt": AuthorityError,
    "key": AuthorityError,
    "plan_entry": AuthorityError,
    "epoch": AuthorityError,
    "settlement": AuthorityError,
    "gate": AuthorityError,
    "tool": ToolError,
    "budget": BudgetError,
    "run": RunError,
    "log": LogError,
    "storage": StorageError,
    "model": ModelError,
    "runtime": RuntimeFault,
}


def error_from_data(data: Mapping[str, Any]) -> DulyError:
    """The error that ``to_data`` described; the class follows from the first word of the code."""
    return error_of(_FAMILIES.get(str(data["code"]).partition(".")[0], DulyError), data)


def error_of(family: type[E], data: Mapping[str, Any]) -> E:
    """The error that ``to_data`` described, as one of this class whatever its code."""
    return family(
        str(data["code"]),
        str(data["message"]),
        place=data.get("place"),
        hint=data.get("hint"),
        story=data.get("story", ()),
        faults=[Fault.from_data(fault) for fault in data.get("faults", ())],
    )
