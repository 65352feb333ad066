"""The state of a run: what replaying its events gives. Values are never changed in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..authority.approval import Approval
from ..authority.mandate import Mandate
from ..plan import schedule
from ..plan.agent import AgentSpec
from ..plan.descriptor import Descriptor
from ..plan.plan import Plan, Step
from ..plan.policy import Policy
from ..plan.request import Binding, Question, Request
from ..plan.scope import Scope
from ..wire.limits import STEPS_INDEXED_MAX
from .budget import Budget
from .outputs import decoded
from .phases import Phase

V = TypeVar("V", "Run", "StepState")

DONE = frozenset(("succeeded", "reused"))
GONE = frozenset(("failed", "degraded", "skipped", "shadowed", "abandoned"))


@dataclass(frozen=True)
class StepState:
    """One step of the current plan.

    ``status``: pending, started, retrying, unknown, succeeded, reused, failed, degraded, skipped, shadowed, abandoned (it
    ran when the run ended). ``key`` is the digest of tool, descriptor and resolved arguments, once the call ran. ``then``
    is where a failure leads. ``checked``: pass, fail, not_run or empty. ``rows_max``, of a reason step ``tokens_max``, is
    reserved while it is started. ``mode``: concurrent, serial, reason.
    ``probe`` (of an unknown outcome): empty, asked, done. ``policy``: empty, asked, gated, free.
    """

    status: str = "pending"
    attempts: int = 0
    lost: int = 0
    wave: int = 0
    mode: str = "serial"
    template: bool = False
    retry_at_ms: int = 0
    code: str = ""
    message: str = ""
    then: str = ""
    rows_max: int = 0
    tokens_max: int = 0
    granted_ms: int = 0  # wall time of the start; approvals had to hold then
    probe: str = ""
    probes: int = 0
    policy: str = ""
    output: str = ""
    receipt: str = ""
    key: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    started_ms: int = 0
    ended_ms: int = 0
    node: str = ""
    checked: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """What waits for a person: a plan, or one step with resolved arguments."""

    gate_id: str
    kind: str
    step_id: str | None
    asked_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the person; ``about`` is ``bind``, ``outcome:<step>`` or ``step:<step>``."""

    about: str
    question: Question


@dataclass(frozen=True, slots=True)
class GivenApproval:
    approval: Approval
    envelope: bytes
    approver: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A validated result of an earlier plan that a later one may use again."""

    output: bytes
    artifact: str
    receipt: str
    fingerprints: Mapping[str, str]
    imported: bool = False  # from another run


@dataclass(frozen=True)
class Run:
    run_id: str
    mandate: Mandate
    mandate_envelope: bytes
    submitter: str
    request: Request
    agent: AgentSpec
    descriptors: Mapping[str, Descriptor]
    digests: Mapping[str, str]
    capabilities: tuple[str, ...]
    has_model: bool
    has_critic: bool = False
    policy: Policy = field(default_factory=Policy)
    submitter_name: str = ""
    from_run: str = ""
    replay_of: str = ""  # the run whose recorded answers stand for a model
    phase: Phase = Phase.PLANNING
    epoch: int = 0
    submitted_ms: int = 0
    stalled: str = ""  # the code with which nothing could execute this run at the last start
    amended: int = 0
    # planning
    binding: Binding | None = None
    answers: Mapping[str, str] = field(default_factory=dict)
    answered: int = 0
    route: str = ""
    score: int = 0
    cache: str = ""  # "", asked, hit, stale, miss
    drafts: int = 0
    draft_faults: tuple[str, ...] = ()  # of the drafts that were refused since the last plan
    guidance: tuple[str, ...] = ()
    used_playbooks: tuple[str, ...] = ()
    # the plan
    plan: Plan | None = None
    plan_digest: str = ""
    plan_artifact: str = ""
    previous_plan: Plan | None = None
    steps: Mapping[str, StepState] = field(default_factory=dict)
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    kept: Mapping[str, Kept] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)  # fingerprints when the plan was drafted
    failed_keys: frozenset[str] = frozenset()
    rejected_plans: frozenset[str] = frozenset()
    failed_plans: frozenset[str] = frozenset()
    approved: bool = False
    approvals: tuple[GivenApproval, ...] = ()
    settled_scope: Scope | None = (
        None  # the scope that was approved, or that the first plan of a run without gates had
    )
    asking: str = ""  # the step of which a probe, or an expression of the policy, is under way
    denied: frozenset[tuple[str, str, str]] = frozenset()  # tool, effect and resource that were denied
    withdrawn: frozenset[str] = frozenset()  # tools that are described differently since the run began
    breakers: Mapping[str, int] = field(default_factory=dict)  # tool -> transient failures in a row
    waves: int = 0
    # models
    thinking: str = ""  # what a model is asked for: plan, arguments:<step>, direct
    filled: Mapping[str, Step] = field(
        default_factory=dict
    )  # steps with the arguments that a model gave them
    turns: tuple[Mapping[str, Any], ...] = ()  # of a direct run
    answer: str = ""
    # stops
    gate: Gate | None = None
    asked: Asked | None = None
    # verification
    verification: str = ""  # "", prepare, judge
    checking: bool = False  # the reads for checks before a write are reserved
    reads: tuple[dict[str, Any], ...] = ()
    held: Mapping[str, int] = field(
        default_factory=dict
    )  # what is reserved for the verifier, a probe or a model
    verdict: str = "none"
    checks: tuple[dict[str, Any], ...] = ()
    # bounds
    replans: Mapping[str, int] = field(default_factory=dict)
    replan_reason: str = ""
    replan_trigger: str = ""
    replan_message: str = ""
    budget: Budget = field(default_factory=Budget)
    active_until_ms: int = 0  # wall time at which the active time is spent; 0 without a limit
    # the end
    reason: str = ""
    message: str = ""
    next_owner: str = "duly"

    def step(self, step_id: str) -> Step:
        if self.plan is None:
            raise KeyError(step_id)
        return self.filled.get(step_id) or _index(self.plan)[step_id]

    def output(self, step_id: str) -> Any:
        """The tagged output of a finished step. Raises ``KeyError``."""
        return decoded(self.outputs[step_id])

    @property
    def levels(self) -> list[list[str]]:
        return _levels(self.plan) if self.plan is not None else []

    @property
    def outstanding(self) -> list[str]:
        """The steps that are dispatched and have not come back."""
        return [name for name, state in self.steps.items() if state.status == "started"]

    def reads_only(self, step_id: str) -> bool:
        """Whether a step changes nothing: it only reads, or a model only thinks."""
        step = self.step(step_id)
        return step.kind == "reason" or schedule.reads_only(step, self.descriptors)


class Outputs(Mapping[str, Any]):
    """The outputs of a run as tagged values, decoded when asked for."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, step_id: str) -> Any:
        return self._run.output(step_id)

    def __iter__(self) -> Any:
        return iter(self._run.outputs)

    def __len__(self) -> int:
        return len(self._run.outputs)

    def __contains__(self, step_id: object) -> bool:
        return step_id in self._run.outputs


# Plans are frozen; what follows from one is computed once. Pydantic models with lists do not hash, so the identity is
# the key, and the plan is kept alive beside the value; so the oldest are let go by their steps.
_index_cache: dict[int, tuple[Plan, dict[str, Step], list[list[str]]]] = {}


def _facts(plan: Plan) -> tuple[Plan, dict[str, Step], list[list[str]]]:
    found = _index_cache.get(id(plan))
    if found is None or found[0] is not plan:
        found = (plan, {step.step_id: step for step in plan.steps}, schedule.levels(plan))
        _index_cache.pop(id(plan), None)
        _index_cache[id(plan)] = found
        while len(_index_cache) > 1 and sum(len(one[1]) for one in _index_cache.values()) > STEPS_INDEXED_MAX:
            del _index_cache[next(iter(_index_cache))]
    return found


def _index(plan: Plan) -> dict[str, Step]:
    return _facts(plan)[1]


def _levels(plan: Plan) -> list[list[str]]:
    return _facts(plan)[2]


def changed(value: V, **changes: Any) -> V:
    """What ``dataclasses.replace`` gives, ten times as fast: a long run has thousands of events, each with a copy or two."""
    if not changes.keys() <= value.__dict__.keys():
        raise TypeError(f"{type(value).__name__} has no {', '.join(changes.keys() - value.__dict__.keys())}")
    copy = object.__new__(type(value))
    copy.__dict__.update(value.__dict__, **changes)
    return copy
