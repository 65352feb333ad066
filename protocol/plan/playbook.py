"""A playbook: how a kind of request becomes a plan without a model. The models; ``playbook_yaml`` reads them.

Arguments hold structural placeholders and no text substitution:

    {$param: name}         a bound parameter; in a ``foreach`` step also ``item``, and ``others``: the list without it
    {$ref: step#/pointer}  a step's output; between steps of one ``foreach`` it means the one for the same item
    {$all: step#/pointer}  that output of every expansion of a ``foreach`` step, as a list
    {$evidence: [steps]}   every step, each expansion by itself, as ``{step: id, output: its whole output}``: what a
                           report is made from
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ..wire.limits import TOOL_TIMEOUT_SECONDS_MAX
from ..wire.model import Model
from .manifest import Name
from .plan import Destination, Evidence, Nothing, Recompute, Replan, Retry
from .rules import Rule

ParameterKind = Literal[
    "metric", "period", "period_pair", "dimension", "dimensions", "segment_pair", "filters", "text", "number"
]
PLACED = ("text", "number")  # kinds whose values stand at a place of the whole request
Feature = Literal["metric", "period", "period_pair", "dimension", "segment", "segment_pair"]
ITEM = "item"
OTHERS = "others"
PLACEHOLDERS = ("$param", "$ref", "$all", "$evidence")
ADVICE = ("recommendations", "follow_ups")
# What a parameter of each kind gives to `$param`, where it is not the parameter's own name.
PROVIDES: dict[str, tuple[str, ...]] = {
    "period_pair": ("baseline", "current"),
    "segment_pair": ("compared_by", "segments", "strata"),
}


def _not_blank(words: list[str]) -> list[str]:
    if any(not any(c.isalnum() for c in word) for word in words):
        raise ValueError("a cue has letters")
    return words


def _retry_then_replan() -> list[Destination]:
    return [Retry(), Replan()]


class Cue(Model):
    """Words or phrases that speak for the playbook; the weight counts once however many of them stand there."""

    words: Annotated[list[str], Field(min_length=1), AfterValidator(_not_blank)]
    weight: int = Field(ge=-100, le=100)


class Match(Model):
    """When a request is for this playbook: the weights of cues and of what was recognised reach ``least``.

    The playbook with the highest sum wins; of equals the first by name. Instead of cues there may be a whole ``request``:
    texts, and ``{$param: name}`` where a text or number stands. Then only that request is for it, before any other playbook.
    """

    least: int = Field(default=1, ge=1, le=1_000)
    cues: list[Cue] = Field(default_factory=list)
    found: dict[Feature, int] = Field(default_factory=dict)
    request: list[str | dict[Literal["$param"], str]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_of_both(self) -> Match:
        if bool(self.cues) == bool(self.request):
            raise ValueError("either cues, or the whole request")
        return self


class Parameter(Model):
    """One typed parameter. What does not bind and has no default is asked for, in the order of the playbook.

    ``default``: a metric or dimension by name. ``single``: what a period pair does with one named month. ``words``: how
    many words a text has, neither more nor fewer.
    """

    kind: ParameterKind
    optional: bool = False
    default: str | None = None
    single: Literal["ask", "month_before"] = "ask"
    words: int = Field(default=1, ge=1, le=50)


class ReadBackTemplate(Model):
    """The read that checks a write: tool, arguments, and which read fields equal which written ones."""

    read_back: str
    arguments: dict[str, Any]
    agree: dict[str, str] = Field(min_length=1)


class VerificationTemplate(Model):
    """How a step's result is accepted; what is left out comes from the playbook's defaults."""

    acceptance: list[Rule] | Nothing | None = None
    tolerance: float | int | Nothing | None = None
    independent: Recompute | ReadBackTemplate | Nothing | None = None


class OutputTemplate(Model):
    """What a step gives; without ``json_schema`` and ``evidence`` the descriptor's own."""

    artifact: str | None = None
    version: str = "1"
    evidence: Evidence | None = None
    json_schema: dict[str, Any] | None = None


class StepDefaults(Model):
    """``verification`` and ``on_failure`` of every step that does not say its own."""

    verification: VerificationTemplate = Field(default_factory=VerificationTemplate)
    on_failure: list[Destination] = Field(default_factory=_retry_then_replan)


class StepTemplate(Model):
    """One step, or with ``foreach`` one step for every item of a parameter."""

    id: Name
    tool: str
    objective: str | list[str | dict[str, str]] = Field(min_length=1)
    arguments: dict[str, Any]
    foreach: str | None = None
    after: list[str] = Field(default_factory=list)
    sources: list[str] | None = None
    output: OutputTemplate = Field(default_factory=OutputTemplate)
    verification: VerificationTemplate = Field(default_factory=VerificationTemplate)
    on_failure: list[Destination] | None = None
    timeout_seconds: int | None = Field(default=None, ge=1, le=TOOL_TIMEOUT_SECONDS_MAX)
    authority: str = ""

    def targets(self) -> list[str]:
        """The ids of the steps that this one waits for, each once."""
        named: list[str] = []
        for key, value in placeholders(self.arguments):
            if key == "$evidence":
                named += [str(name) for name in value] if isinstance(value, list) else []
            elif key != "$param":
                named.append(str(value).partition("#")[0])
        return list(dict.fromkeys([*self.after, *named]))


class Advice(Model):
    """One recommendation or follow-up: the conditions under which the report makes it, and its text.

    The report tool knows the conditions, and fills ``{name}`` in the text from the report's named values only.
    """

    when: str | Annotated[list[str], Field(min_length=1, max_length=8)]
    text: str = Field(min_length=1, max_length=2_000)


class Playbook(Model):
    """The whole of a file under ``playbooks/``."""

    name: Name
    title: str = Field(min_length=1)
    task_class: Literal["deterministic", "open"]
    allow_partial: bool = False
    constraints: list[str] = Field(default_factory=list)
    match: Match
    parameters: dict[Name, Parameter] = Field(default_factory=dict)
    defaults: StepDefaults = Field(default_factory=StepDefaults)
    steps: list[StepTemplate] = Field(min_length=1)
    report: str | None = None
    recommendations: list[Advice] = Field(default_factory=list)
    follow_ups: list[Advice] = Field(default_factory=list)
    fallbacks: list[str] = Field(default_factory=list)

    def provided(self) -> dict[str, str]:
        """What ``$param`` may name → the parameter that gives it."""
        found = {name: name for name in ADVICE}
        for name, parameter in self.parameters.items():
            for given in PROVIDES.get(parameter.kind, (name,)):
                found[given] = name
        return found

    def parameter_of(self, kind: ParameterKind) -> str | None:
        """The name of the first parameter of a kind."""
        return next((name for name, parameter in self.parameters.items() if parameter.kind == kind), None)


def placeholders(value: Any) -> Iterator[tuple[str, Any]]:
    """Every (placeholder, what it names) in a template, in order."""
    if type(value) is dict:
        for key in PLACEHOLDERS:
            if key in value:
                yield key, value[key]
                return
        for item in value.values():
            yield from placeholders(item)
    elif type(value) is list:
        for item in value:
            yield from placeholders(item)
