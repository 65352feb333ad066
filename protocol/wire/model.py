"""The base of every model that crosses a boundary: frozen, no unknown field, no silent conversion."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import DulyError, Fault


class Model(BaseModel):
    """A frozen pydantic model that refuses unknown fields and does not convert types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants")

    def to_data(self) -> dict[str, Any]:
        """The model as plain data (maps, lists, texts, numbers)."""
        return self.model_dump(mode="python", by_alias=True)

    @classmethod
    def from_data(cls, data: Any, *, error: type[DulyError], code: str, what: str) -> Self:
        """The model of plain data, or ``error`` with ``code`` and one fault for everything that is wrong."""
        try:
            return cls.model_validate(data)
        except ValidationError as problem:
            faults = faults_of(problem, code)
            raise error(
                code, f"{what} is not valid: {faults[0].message}", place=faults[0].path or None, faults=faults
            ) from None


def faults_of(problem: ValidationError, code: str) -> list[Fault]:
    """Every fault of a pydantic error, with its path; values are not repeated (they may be secret or hostile)."""
    return [
        Fault("/".join(str(part) for part in entry["loc"]), code, _sentence(entry["type"], entry["msg"]))
        for entry in problem.errors(include_url=False, include_input=False, include_context=False)
    ]


def _sentence(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "there is no such field."
    if kind == "missing":
        return "this field is missing."
    return message[0].lower() + message[1:] + "."
