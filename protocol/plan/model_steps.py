"""From what a model wrote (``model_plan``) to a plan with all seven fields of every step.

The model's word counts for the order of steps, their arguments and the checks that it adds; everything else comes from
the granted descriptors and the package by rule. Nothing is repaired silently: what is wrong becomes a fault, and the
plan is built as far as it goes, so that all faults of a draft are found at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..wire.errors import Fault
from ..wire.limits import MODEL_SECONDS_MAX, MODEL_STRING_CHARS_MAX
from ..wire.model import faults_of as model_faults
from . import refs
from .descriptor import Descriptor
from .manifest import MetricTools
from .model_plan import FIELD_TYPES
from .model_schema import Schema, closed, text
from .model_value import plain
from .package import Package
from .plan import (
    Destination,
    Escalate,
    Inputs,
    Nothing,
    OutputContract,
    ReadBack,
    Recompute,
    Replan,
    Retry,
    Step,
    ToolContract,
    ToolRef,
    Verification,
)
from .reads import inputs_of
from .rules import Rule

_RULES: TypeAdapter[Rule] = TypeAdapter(Rule)
_RECOMPUTED = ("value", "change", "completeness", "decompose", "interact", "segments")
_NO_RULES = Nothing(none="the plan adds none; the schema and the package's own checks apply")
_NO_TOLERANCE = Nothing(none="the plan states no tolerance")
_NO_CHECK = Nothing(none="nothing recomputes this; the package's own checks apply")


@dataclass(slots=True)
class Wishes:
    """A model's value, read field by field. ``faults`` collects what is not as the form says."""

    package: Package
    descriptors: Mapping[str, Descriptor]
    faults: list[Fault] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)  # step id -> the name of its artifact

    def steps(self, value: Any) -> list[Step]:
        """The steps of a plan's value, those that are no map left out (each a fault)."""
        listed = value.get("steps") if isinstance(value, dict) else None
        if not isinstance(listed, list):
            self._fault("steps", "a plan is a map with a list of steps.")
            return []
        for one in listed:
            if isinstance(one, dict) and isinstance(one.get("id"), str):
                self.artifacts.setdefault(one["id"], _artifact(one))
        found = []
        for index, one in enumerate(listed):
            if isinstance(one, dict):
                found.append(self._step(one, f"steps/{index}"))
            else:
                self._fault(f"steps/{index}", "a step is a map.")
        return found

    def _step(self, one: Mapping[str, Any], path: str) -> Step:
        kind = one.get("kind", "tool")
        if kind not in ("tool", "reason"):
            self._fault(f"{path}/kind", "a step is of kind tool or reason.")
        return self._reason(one, path) if kind == "reason" else self._call(one, path)

    def _call(self, one: Mapping[str, Any], path: str) -> Step:
        self._known(
            one, path, ("id", "kind", "tool", "objective", "arguments", "after", "checks", "read_back")
        )
        name = self._text(one, "tool", path)
        descriptor = self.descriptors.get(name)
        where = f"{path}/tool_contract/arguments"
        arguments = self._arguments(one.get("arguments"), descriptor, where)
        needs = [target for target in refs.steps_of(arguments) if target in self.artifacts]
        return Step(
            step_id=self._text(one, "id", path),
            objective=self._text(one, "objective", path),
            inputs=Inputs(
                sources=inputs_of(self.package, name, arguments),
                artifacts={self.artifacts[target]: target for target in needs},
            ),
            tool_contract=_contract(name, descriptor, arguments),
            output_contract=OutputContract(
                json_schema=descriptor.output_schema if descriptor else {},
                artifact=_artifact(one),
                evidence=descriptor.evidence if descriptor else "observation",
            ),
            verification=Verification(
                acceptance=self._checks(one.get("checks", []), path) or _NO_RULES,
                tolerance=_NO_TOLERANCE,
                independent=self._independent(one.get("read_back"), name, path),
            ),
            on_failure=_on_failure(descriptor),
            depends_on=list(dict.fromkeys([*self._ids(one, "after", path), *needs])),
        )

    def _reason(self, one: Mapping[str, Any], path: str) -> Step:
        self._known(one, path, ("id", "kind", "objective", "reads", "gives"))
        reads = self._ids(one, "reads", path)
        return Step(
            step_id=self._text(one, "id", path),
            kind="reason",
            objective=self._text(one, "objective", path),
            inputs=Inputs(artifacts={self.artifacts[name]: name for name in reads if name in self.artifacts}),
            tool_contract=ToolContract(
                tool=None,
                arguments=None,
                effect="read",
                timeout_seconds=MODEL_SECONDS_MAX,
                model={"purpose": "reason"},
            ),
            output_contract=OutputContract(
                json_schema=self._gives(one.get("gives"), path), artifact=_artifact(one)
            ),
            verification=Verification(
                acceptance=_NO_RULES, tolerance=_NO_TOLERANCE, independent=Nothing(none="a model's own words")
            ),
            on_failure=[Retry(), Replan()],
            depends_on=list(dict.fromkeys(reads)),
        )

    def _arguments(self, value: Any, descriptor: Descriptor | None, path: str) -> dict[str, Any] | None:
        """Arguments in duly's own form; ``None`` for "to be filled before dispatch"."""
        if value is None:
            return None
        schema = descriptor.input_schema if descriptor is not None else {}
        found = plain(value, schema, path, self.faults, references=True)
        if isinstance(found, dict) and "$ref" not in found:
            return found
        self._fault(path, "arguments are a map by name, or null.")
        return None

    def _checks(self, value: Any, path: str) -> list[Rule]:
        found: list[Rule] = []
        if not isinstance(value, list):
            self._fault(f"{path}/checks", "checks are a list.")
            return found
        for index, one in enumerate(value):
            try:
                found.append(_RULES.validate_python(one))
            except ValidationError as problem:
                where = f"{path}/checks/{index}"
                self.faults += [
                    Fault(f"{where}/{fault.path}".rstrip("/"), fault.code, fault.message)
                    for fault in model_faults(problem, "plan.bad_check")
                ]
        return found

    def _independent(self, value: Any, tool: str, path: str) -> Recompute | ReadBack | Nothing:
        if value is not None:
            return self._read_back(value, f"{path}/verification/independent")
        server, _, name = tool.partition(".")
        if isinstance(self.package.manifest.tools.get(server), MetricTools) and name in _RECOMPUTED:
            return Recompute(recompute=name)
        return _NO_CHECK

    def _read_back(self, value: Any, path: str) -> ReadBack | Nothing:
        if not isinstance(value, dict):
            self._fault(path, "read_back is a map of tool, arguments and agree.")
            return _NO_CHECK
        self._known(value, path, ("tool", "arguments", "agree"))
        name = self._text(value, "tool", path)
        reader = self.descriptors.get(name)
        arguments = self._arguments(value.get("arguments"), reader, f"{path}/arguments")
        agree: dict[str, str] = {}
        pairs = value.get("agree")
        for index, pair in enumerate(pairs if isinstance(pairs, list) else []):
            if not isinstance(pair, dict):
                self._fault(f"{path}/agree/{index}", "a pair is a map of read and written.")
                continue
            where = f"{path}/agree/{index}"
            agree[self._text(pair, "read", where)] = self._text(pair, "written", where)
        if not agree:
            self._fault(f"{path}/agree", "agree names at least one pair of read and written.")
            return _NO_CHECK
        return ReadBack(read_back=_ref(name, reader), arguments=arguments or {}, agree=agree)

    def _gives(self, value: Any, path: str) -> Schema:
        """The schema of a reason step's output, from the fields that the model names."""
        kinds: dict[str, Schema] = {name: {"type": name} for name in FIELD_TYPES}
        kinds["string"] = text()
        kinds["strings"] = {"type": "array", "items": text(MODEL_STRING_CHARS_MAX), "maxItems": 100}
        fields: dict[str, Schema] = {}
        for index, one in enumerate(value if isinstance(value, list) else []):
            where = f"{path}/gives/{index}"
            if not isinstance(one, dict) or one.get("type") not in FIELD_TYPES:
                self._fault(where, f"a field has a name and a type of {', '.join(FIELD_TYPES)}.")
                continue
            name = self._text(one, "name", where)
            if not name or name.startswith("$") or name in fields:
                self._fault(f"{where}/name", "a field has a name of its own, without $ in front.")
            else:
                fields[name] = kinds[str(one["type"])]
        if not fields:
            self._fault(f"{path}/gives", "a reason step says what it gives.")
        return closed(fields)

    def _ids(self, one: Mapping[str, Any], name: str, path: str) -> list[str]:
        value = one.get(name, [])
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return [str(each) for each in value]
        self._fault(f"{path}/{name}", f"{name} is a list of step ids.")
        return []

    def _text(self, one: Mapping[str, Any], name: str, path: str) -> str:
        value = one.get(name)
        if isinstance(value, str):
            return str(plain(value, {}, f"{path}/{name}", self.faults))
        self._fault(f"{path}/{name}", f"{name} is missing, or no text.")
        return ""

    def _known(self, one: Mapping[str, Any], path: str, names: tuple[str, ...]) -> None:
        for name in sorted(set(one) - set(names)):
            self._fault(f"{path}/{name[:64]}", "there is no such field.")

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, "plan.malformed", message))


def _artifact(one: Mapping[str, Any]) -> str:
    """The name of a step's output: its id and what gives it."""
    tool = one.get("tool")
    gives = tool.rpartition(".")[2] if isinstance(tool, str) and one.get("kind") != "reason" else "answer"
    return f"{one.get('id')}.{gives or 'output'}"


def _ref(name: str, descriptor: Descriptor | None) -> ToolRef:
    """A tool as plans name it; of a tool that is not granted there is no descriptor, which validation says."""
    if descriptor is not None:
        return ToolRef(server=descriptor.server, name=descriptor.name, descriptor=descriptor.digest())
    server, _, rest = name.partition(".")
    return ToolRef(server=server, name=rest, descriptor="0" * 64)


def _contract(name: str, descriptor: Descriptor | None, arguments: dict[str, Any] | None) -> ToolContract:
    return ToolContract(
        tool=_ref(name, descriptor),
        arguments=arguments,
        effect=descriptor.effect if descriptor else "read",
        authority=descriptor.authority if descriptor else "",
        timeout_seconds=descriptor.timeout_seconds if descriptor else 1,
        idempotency=descriptor.idempotency if descriptor else "none",
    )


def _on_failure(descriptor: Descriptor | None) -> list[Destination]:
    """Reads are tried again and then planned anew; what may have had an effect goes to a person."""
    if descriptor is None or descriptor.reads_only:
        return [Retry(), Replan()]
    return [Escalate()] if descriptor.idempotency == "none" else [Retry(), Escalate()]
