"""The outputs that a report rests on, and the values that statements take from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.judgement.report import Value
from duly.protocol.plan import refs
from duly.protocol.wire.errors import ToolError

Values = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One step with its output."""

    step: str
    output: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.output.get("kind"))

    def at(self, pointer: str, unit: str = "text") -> Value:
        """The value at a JSON Pointer, with its source. Raises ``ToolError`` ``tool.bad_evidence``."""
        found = self.get(pointer)
        if isinstance(found, dict):
            raise ToolError("tool.bad_evidence", f"A map stands at {pointer}, no value.", place=self.step)
        return Value.from_data(
            {"value": found, "unit": unit, "source": f"{self.step}#{pointer}"},
            error=ToolError,
            code="tool.bad_evidence",
            what=f"The value at {pointer} of {self.step}",
        )

    def get(self, pointer: str) -> Any:
        """What stands at a pointer. Raises ``ToolError`` ``tool.bad_evidence`` where nothing does."""
        try:
            return refs.lookup(self.output, refs.pointer_parts(pointer))
        except KeyError:
            raise ToolError(
                "tool.bad_evidence", f"The output of {self.step} has nothing at {pointer}.", place=self.step
            ) from None

    def query(self) -> str | None:
        found = self.output.get("query")
        return str(found) if found is not None else None

    def unit(self) -> str:
        return str(self.get("/unit"))

    def change_unit(self) -> str:
        return str(self.get("/change_unit"))


def read(arguments: Mapping[str, Any]) -> list[Evidence]:
    """The evidence of a report's arguments: ``[{step, output}]``, each step once."""
    found = [Evidence(str(item["step"]), item["output"]) for item in arguments["evidence"]]
    if len({item.step for item in found}) != len(found):
        raise ToolError("tool.bad_evidence", "A step stands twice in the evidence.", place="evidence")
    return found


def of_kind(evidence: Sequence[Evidence], kind: str) -> list[Evidence]:
    return [item for item in evidence if item.kind == kind]


def only(evidence: Sequence[Evidence], kind: str) -> Evidence:
    """The one output of a kind. Raises ``ToolError`` ``tool.bad_evidence`` for none or several."""
    found = of_kind(evidence, kind)
    if len(found) != 1:
        raise ToolError(
            "tool.bad_evidence",
            f"The report needs one output of the kind {kind}; there are {len(found)}.",
            place="evidence",
        )
    return found[0]


def filter_values(item: Evidence, template: str) -> tuple[str, Values]:
    """The template with ``{where}`` spelled out, and the values of the filters: `` (carrier DL, origin JFK)`` or nothing."""
    values: Values = {}
    parts = []
    for index, _ in enumerate(item.output.get("filters") or ()):
        values[f"filter{index}"] = item.at(f"/filters/{index}/dimension")
        values[f"filtered{index}"] = item.at(f"/filters/{index}/value")
        parts.append(f"{{filter{index}}} {{filtered{index}}}")
    return template.replace("{where}", f" ({', '.join(parts)})" if parts else ""), values


def side_values(item: Evidence) -> Values:
    """What both periods of a change show, and the change itself."""
    unit = item.unit()
    return {
        "label": item.at("/label"),
        "direction": item.at("/direction"),
        "change": item.at("/change", item.change_unit()),
        "baseline": item.at("/baseline/period_text"),
        "current": item.at("/current/period_text"),
        "before": item.at("/baseline/value", unit),
        "after": item.at("/current/value", unit),
        "before_counted": item.at("/baseline/numerator", "rows"),
        "before_observed": item.at("/baseline/observed", "rows"),
        "before_missing": item.at("/baseline/missing", "rows"),
        "before_population": item.at("/baseline/population", "rows"),
        "after_counted": item.at("/current/numerator", "rows"),
        "after_observed": item.at("/current/observed", "rows"),
        "after_missing": item.at("/current/missing", "rows"),
        "after_population": item.at("/current/population", "rows"),
        "population": item.at("/nouns/population"),
        "observed": item.at("/nouns/observed"),
    }
