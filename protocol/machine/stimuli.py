"""Stimuli: what comes in. A request, an outcome, a decision of a person, the passing of time.

Every stimulus carries its own time and randomness, so that deciding stays pure: ``now_ms`` is wall time, ``elapsed_ms``
the active monotonic time since the run's last events, ``fresh`` 32 random hexadecimal digits, ``cause`` the id of
the message that brought it, ``order`` the key of the order that it answers: an answer to an order that is not pending
any more is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..authority.approval import Approval
from ..authority.mandate import Mandate
from ..plan.agent import AgentSpec
from ..plan.descriptor import Descriptor
from ..plan.plan import Plan
from ..plan.request import Binding, Question, Request
from ..wire.errors import DulyError


@dataclass(frozen=True, kw_only=True)
class Stimulus:
    kind: ClassVar[str]
    now_ms: int
    elapsed_ms: int = 0
    fresh: str
    cause: str = ""
    order: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Submitted(Stimulus):
    """A signed order. ``mandate_envelope`` was verified by the harness; ``submitter`` is the signer's key id."""

    kind: ClassVar[str] = "submitted"
    mandate: Mandate
    mandate_envelope: bytes
    submitter: str
    request: Request
    agent: AgentSpec
    descriptors: Mapping[str, Descriptor]
    digests: Mapping[str, str]  # package parts: semantics, playbooks, policy, catalogue
    capabilities: list[str]
    has_model: bool = False
    epoch: int = 0
    plan: Plan | None = None


@dataclass(frozen=True, kw_only=True)
class Bound(Stimulus):
    kind: ClassVar[str] = "bound"
    binding: Binding


@dataclass(frozen=True, kw_only=True)
class CacheReplied(Stimulus):
    """The plan cache's word: ``hit`` with a plan, ``stale`` with what differs, or ``miss`` (``tampered`` is one)."""

    kind: ClassVar[str] = "cache_replied"
    outcome: Literal["hit", "stale", "miss"]
    plan: Plan | None = None
    reasons: list[str] = field(default_factory=list)
    tampered: bool = False


@dataclass(frozen=True, kw_only=True)
class Drafted(Stimulus):
    """The planner's answer: a plan, a question, or an error (``plan.no_alternative``, ``model.none``, ...).

    ``fingerprints`` are the sources as they are now: a kept result is used again only where its source is unchanged.
    """

    kind: ClassVar[str] = "drafted"
    plan: Plan | None = None
    playbook: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    question: Question | None = None
    error: DulyError | None = None


@dataclass(frozen=True, kw_only=True)
class Approved(Stimulus):
    """A verified approval; ``approver`` is the key id that signed it."""

    kind: ClassVar[str] = "approved"
    approval: Approval
    envelope: bytes
    approver: str


@dataclass(frozen=True, kw_only=True)
class AuthorityRefused(Stimulus):
    """An approval whose signature or key did not hold."""

    kind: ClassVar[str] = "authority_refused"
    error: DulyError


@dataclass(frozen=True, kw_only=True)
class Rejected(Stimulus):
    kind: ClassVar[str] = "rejected"
    gate: str
    feedback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answered(Stimulus):
    kind: ClassVar[str] = "answered"
    text: str


@dataclass(frozen=True, kw_only=True)
class CancelAsked(Stimulus):
    kind: ClassVar[str] = "cancel_asked"
    reason: str = "a person"


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What became of one dispatched call. ``lost``: nobody can say, since the executor or host went away.

    ``arguments`` is the digest of the bytes that the host ran. ``receipt`` is the signed envelope, checked.
    """

    step_id: str
    attempt: int
    wave: int
    outcome: Literal["ok", "error", "unknown", "not_started", "lost"]
    code: str = ""
    message: str = ""
    transient: bool = False
    output: bytes | None = None
    receipt: bytes | None = None
    arguments: str = ""
    host: str = ""
    node: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    duration_us: int = 0
    rows: int = 0
    truncated: bool = False
    fingerprints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StepsReturned(Stimulus):
    kind: ClassVar[str] = "steps_returned"
    outcomes: list[StepOutcome]


@dataclass(frozen=True, kw_only=True)
class ChecksReturned(Stimulus):
    """The verifier's word on the outputs of single steps, before something that writes depends on them."""

    kind: ClassVar[str] = "checks_returned"
    checks: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ReadsWanted(Stimulus):
    """The reads that the verifier wants for its recomputation: ``{read_id, tool, arguments}`` each."""

    kind: ClassVar[str] = "reads_wanted"
    reads: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Judged(Stimulus):
    """The verifier's judgement with every check's outcome."""

    kind: ClassVar[str] = "judged"
    outcome: Literal["pass", "fail", "inconclusive"]
    reason: str
    checks: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class VerifierLost(Stimulus):
    """The verifier could not be asked any more; its checks are not run."""

    kind: ClassVar[str] = "verifier_lost"
    error: DulyError


@dataclass(frozen=True, kw_only=True)
class Resumed(Stimulus):
    """A new harness took the run over under a higher epoch. ``changed`` names what is no longer as it was."""

    kind: ClassVar[str] = "resumed"
    epoch: int
    changed: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TimePassed(Stimulus):
    """A timer fired: a retry is due, a gate expired, or the wall-clock budget may be spent."""

    kind: ClassVar[str] = "time_passed"


STIMULI: tuple[type[Stimulus], ...] = (
    Submitted,
    Bound,
    CacheReplied,
    Drafted,
    Approved,
    AuthorityRefused,
    Rejected,
    Answered,
    CancelAsked,
    StepsReturned,
    ChecksReturned,
    ReadsWanted,
    Judged,
    VerifierLost,
    Resumed,
    TimePassed,
)
