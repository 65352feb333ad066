"""The plan: an artifact that is shown, approved, stored and compared.

A step has seven required fields (``step_id, objective, inputs, tool_contract, output_contract, verification,
on_failure``) plus ``kind`` and ``depends_on``. What "given, or none with a reason" means is written as
``{"none": "why"}``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from ..wire import canon
from ..wire.errors import PlanError
from ..wire.ids import Digest, digest_bytes
from ..wire.limits import (
    ARTIFACT_BYTES_MAX,
    ATTEMPTS_PER_STEP_MAX,
    PLANS_KEPT_MAX,
    TOOL_TIMEOUT_SECONDS_MAX,
)
from ..wire.model import Model
from .descriptor import Effect
from .rules import Rule
from .scope import Scope

K = TypeVar("K")
V = TypeVar("V")

Evidence = Literal["observation", "association", "causal"]


class Nothing(Model):
    """A field that is deliberately empty, with the reason."""

    none: str = Field(min_length=1)


class SourceInput(Model):
    """A data source that a step reads, with the version of its meaning (the semantics file)."""

    source: str
    semantic_version: str


class Inputs(Model):
    """What a step works from: data sources, and prior artifacts by name (``artifact name -> step``)."""

    sources: list[SourceInput] = Field(default_factory=list)
    artifacts: dict[str, str] = Field(default_factory=dict)


class ToolRef(Model):
    """Exactly which tool: its server, its name, and the digest of its descriptor."""

    server: str
    name: str
    descriptor: str

    @property
    def full_name(self) -> str:
        return f"{self.server}.{self.name}"


class ToolContract(Model):
    """How a step acts. ``arguments: null`` means "to be filled before dispatch"; a reason step has ``tool: null``."""

    tool: ToolRef | None
    arguments: dict[str, Any] | None
    effect: Effect
    authority: str = ""
    timeout_seconds: int = Field(ge=1, le=TOOL_TIMEOUT_SECONDS_MAX)
    idempotency: Literal["none", "key", "natural"] = "none"
    model: dict[str, Any] | None = None


class OutputContract(Model):
    """What a step gives: a JSON Schema, the artifact's name, version and place, and how strong its evidence is."""

    json_schema: dict[str, Any]
    artifact: str
    version: str = "1"
    location: str = "artifacts"
    evidence: Evidence = "observation"


class ReadBack(Model):
    """The independent check of a write: another tool reads what was written, and fields must agree.

    ``agree`` maps a JSON Pointer into the read output to a JSON Pointer into the write's arguments.
    """

    read_back: ToolRef
    arguments: dict[str, Any]
    agree: dict[str, str] = Field(min_length=1)


class Recompute(Model):
    """The independent check of a read: the verifier computes the named quantity from the semantics."""

    recompute: str


class Verification(Model):
    """How a step's result is accepted: rules, tolerance, independent check; each given, or none with a reason."""

    acceptance: list[Rule] | Nothing
    tolerance: float | int | Nothing
    independent: Recompute | ReadBack | Nothing


class Retry(Model):
    do: Literal["retry"] = "retry"
    attempts: int = Field(default=1, ge=1, le=ATTEMPTS_PER_STEP_MAX)
    backoff_ms: int = Field(default=200, ge=0, le=60_000)


class Replan(Model):
    do: Literal["replan"] = "replan"


class Degrade(Model):
    do: Literal["degrade"] = "degrade"


class Clarify(Model):
    do: Literal["clarify"] = "clarify"
    question: str


class Escalate(Model):
    do: Literal["escalate"] = "escalate"


Destination = Annotated[Retry | Replan | Degrade | Clarify | Escalate, Field(discriminator="do")]


class Step(Model):
    step_id: str
    kind: Literal["tool", "reason"] = "tool"
    objective: str
    inputs: Inputs
    tool_contract: ToolContract
    output_contract: OutputContract
    verification: Verification
    on_failure: list[Destination]
    depends_on: list[str] = Field(default_factory=list)

    @property
    def tool(self) -> str | None:
        """The full name of the step's tool, ``None`` for a reason step."""
        return self.tool_contract.tool.full_name if self.tool_contract.tool else None


class Provenance(Model):
    """How a plan came to be: the first, the n-th replan, or a person's edit; with the reason."""

    kind: Literal["initial", "replan", "edited"] = "initial"
    number: int = 0
    reason: str = ""


class Plan(Model):
    """A directed acyclic graph of steps for one objective."""

    plan_id: str
    version: int = Field(default=1, ge=1)
    objective: str
    constraints: list[str] = Field(default_factory=list)
    scope: Scope = Field(default_factory=Scope)
    steps: list[Step]
    task_class: Literal["deterministic", "open"] = "deterministic"
    allow_partial: bool = False
    report_step: str | None = None
    origin: Literal["playbook", "model", "person", "cache"] = "playbook"
    provenance: Provenance = Field(default_factory=Provenance)

    def content(self) -> dict[str, Any]:
        """The plan without plan_id, version, origin and provenance: a rejected plan cannot return under new ones."""
        data = self.to_data()
        for name in _NOT_CONTENT:
            del data[name]
        return data

    def content_digest(self) -> Digest:
        """The digest of the canonical bytes of ``content``."""
        entries = {name: data for name, data in self._entries().items() if name not in _NOT_CONTENT}
        return digest_bytes("plan", canon.join_entries(entries))

    def encoded(self) -> bytes:
        """The canonical bytes of the plan. Raises ``WireError`` with the path of what has no canonical form."""
        data = canon.join_entries(self._entries())
        _keep(_PLANS, data, self)
        return data

    @staticmethod
    def decoded(data: bytes) -> Plan:
        """The plan of canonical bytes. Raises ``WireError``, or ``PlanError`` ``plan.malformed`` with every fault."""
        plan = _PLANS.get(data)
        if plan is None:
            value = canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX)
            plan = Plan.from_data(value, error=PlanError, code="plan.malformed", what="The plan")
            _keep(_PLANS, data, plan)
        return plan

    def _entries(self) -> dict[str, bytes]:
        """The canonical bytes of every field. Copies of a plan under another number share their list of steps, so the
        steps are encoded once for all of them."""
        known = _STEPS.get(id(self.steps))
        if known is not None and known[0] is self.steps:
            head = self.model_dump(mode="python", by_alias=True, exclude={"steps"})
            return {**canon.encode_entries(head), "steps": known[1]}
        entries = canon.encode_entries(self.to_data())
        _keep(_STEPS, id(self.steps), (self.steps, entries["steps"]))
        return entries

    def step(self, step_id: str) -> Step:
        """The step of that id; ``KeyError`` where there is none."""
        for step in self.steps:
            if step.step_id == step_id:
                return step
        raise KeyError(step_id)


# Plans are frozen, their lists too by agreement, and a plan of a thousand steps costs many milliseconds to encode or read.
_STEPS: dict[
    int, tuple[list[Step], bytes]
] = {}  # by identity, which the list beside it keeps from being given again
_PLANS: dict[bytes, Plan] = {}
_NOT_CONTENT = frozenset(("plan_id", "version", "origin", "provenance"))


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Remembers a value, and forgets the oldest of too many."""
    kept[key] = value
    while len(kept) > PLANS_KEPT_MAX:
        kept.pop(next(iter(kept)), None)
