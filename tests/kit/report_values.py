"""Looking into the report of a result: statements by what they name, and what of them is the same in two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Values = dict[str, Any]


class Report:
    """The report of a result object as ``--json`` prints it."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        assert result["report"] is not None, f"there is no report: {result['reason']} {result['message']}"
        self.statements: list[dict[str, Any]] = result["report"]["statements"]

    def all(self, name: str, **equal: Any) -> Iterator[Values]:
        """The plain values of every statement that has a value of that name, and these values."""
        for statement in self.statements:
            values = {key: one["value"] for key, one in statement["values"].items()}
            if name in values and all(values.get(key) == value for key, value in equal.items()):
                yield values

    def one(self, kind: str, name: str, **equal: Any) -> Values:
        """The values of the first such statement of a kind."""
        kinds = [one["kind"] for one in self.statements if name in one["values"]]
        assert kind in kinds, f"no {kind} has a value {name}"
        return next(self.all(name, **equal))

    def contribution(self, segment: str) -> Values:
        return next(self.all("contribution", segment=segment))

    def texts(self) -> list[str]:
        return [one["text"] for one in self.statements]

    def essence(self) -> list[dict[str, Any]]:
        """The statements without the names of artifacts, which are salted anew in every run."""
        return [{name: one[name] for name in one if name != "artifacts"} for one in self.statements]
