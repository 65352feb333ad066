"""Stimuli: what comes in. A request, an outcome, a decision of a person, the passing of time.

Every stimulus carries its own time and randomness, so that deciding stays pure: ``now_ms`` is wall time, ``elapsed_ms``
the active monotonic time since the run's last events, ``fresh`` 32 random hexadecimal digits, ``cause`` the id of
the message that brought it, ``order`` the key of the order that it answers: an answer to an order that is not pending
any more is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..authority.approval import Approval
from ..authority.mandate import Mandate
from ..plan.agent import AgentSpec
from ..plan.descriptor import Descriptor
from ..plan.model_call import Used
from ..plan.plan import Plan
from ..plan.policy import Policy
from ..plan.request import Binding, Question, Request
from ..wire.errors import DulyError
from .stimulus import Stimulus
from .work_stimuli import (
    ArgumentsFilled,
    ChecksReturned,
    Judged,
    PolicyJudged,
    Probed,
    ReadsWanted,
    StepOutcome,
    StepsReturned,
    TurnAnswered,
    VerifierLost,
)


@dataclass(frozen=True, kw_only=True)
class KeptResult:
    """A trusted result of an earlier run. ``key`` is the step's key there; ``fingerprints`` are its sources' marks then."""

    key: str
    output: bytes
    receipt: bytes = b""
    fingerprints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Submitted(Stimulus):
    """A signed order. ``mandate_envelope`` was verified by the harness; ``submitter`` is the signer's key id.

    ``submitter_name`` is the name of that key in the key ring, for a policy that names its approvers. ``from_run`` and
    ``kept`` continue an earlier run; the recorded answers of ``replay_of`` stand for a model.
    ``fingerprints`` are the sources as they are now: with a brought plan no draft says them.
    """

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
    has_critic: bool = False
    policy: Policy = field(default_factory=Policy)
    epoch: int = 0
    plan: Plan | None = None
    submitter_name: str = ""
    from_run: str = ""
    replay_of: str = ""
    kept: list[KeptResult] = field(default_factory=list)
    fingerprints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Bound(Stimulus):
    kind: ClassVar[str] = "bound"
    binding: Binding


@dataclass(frozen=True, kw_only=True)
class CacheReplied(Stimulus):
    """The plan cache's word: ``hit`` with a plan, ``stale`` with what differs, or ``miss`` (``tampered`` is one).

    ``fingerprints`` are the sources as they are now, as with a draft.
    """

    kind: ClassVar[str] = "cache_replied"
    outcome: Literal["hit", "stale", "miss"]
    plan: Plan | None = None
    reasons: list[str] = field(default_factory=list)
    tampered: bool = False
    fingerprints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Drafted(Stimulus):
    """The planner's answer: a plan, a question, or an error (``plan.no_alternative``, ``model.none``, ...).

    ``fingerprints`` are the sources as they are now, told with every draft: a kept result is used again only where its
    source is unchanged. ``uses`` are the calls of a model that it took.
    """

    kind: ClassVar[str] = "drafted"
    plan: Plan | None = None
    playbook: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    question: Question | None = None
    error: DulyError | None = None
    uses: Sequence[Used] = ()


@dataclass(frozen=True, kw_only=True)
class Approved(Stimulus):
    """A verified approval; ``approver`` is the key id that signed it, ``approver_name`` that key's name in the key ring."""

    kind: ClassVar[str] = "approved"
    approval: Approval
    envelope: bytes
    approver: str
    approver_name: str = ""


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
class Edited(Stimulus):
    """A person's own version of the plan that waits at a plan gate. ``gate`` names that gate; empty means the open one."""

    kind: ClassVar[str] = "edited"
    plan: Plan
    gate: str = ""


@dataclass(frozen=True, kw_only=True)
class Guided(Stimulus):
    """A text of a person that every later draft takes into account."""

    kind: ClassVar[str] = "guided"
    text: str


@dataclass(frozen=True, kw_only=True)
class Amended(Stimulus):
    """Another objective, with the mandate that a person signed for it; the same run goes on. Verified like ``Submitted``."""

    kind: ClassVar[str] = "amended"
    request: Request
    mandate: Mandate
    envelope: bytes
    submitter: str
    submitter_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Answered(Stimulus):
    kind: ClassVar[str] = "answered"
    text: str


@dataclass(frozen=True, kw_only=True)
class CancelAsked(Stimulus):
    kind: ClassVar[str] = "cancel_asked"
    reason: str = "a person"


@dataclass(frozen=True, kw_only=True)
class Resumed(Stimulus):
    """A new harness took the run over under a higher epoch.

    ``changed`` names what is no longer as it was: parts of the package, sources, and tools by their full names.
    ``digests`` are the parts' digests as they are now. ``settled`` is what the write host knows of effects that were
    under way: ``not_started`` (and their grants are void), or how they ended. ``stalled`` is the code with which the run's package could not be
    opened: then nothing can execute it until the next start.
    """

    kind: ClassVar[str] = "resumed"
    epoch: int
    changed: list[str] = field(default_factory=list)
    digests: Mapping[str, str] = field(default_factory=dict)
    settled: list[StepOutcome] = field(default_factory=list)
    stalled: str = ""


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
    Edited,
    Guided,
    Amended,
    Answered,
    CancelAsked,
    StepsReturned,
    ArgumentsFilled,
    TurnAnswered,
    Probed,
    PolicyJudged,
    ChecksReturned,
    ReadsWanted,
    Judged,
    VerifierLost,
    Resumed,
    TimePassed,
)

__all__ = [
    "STIMULI",
    "Amended",
    "Answered",
    "Approved",
    "ArgumentsFilled",
    "AuthorityRefused",
    "Bound",
    "CacheReplied",
    "CancelAsked",
    "ChecksReturned",
    "Drafted",
    "Edited",
    "Guided",
    "Judged",
    "KeptResult",
    "PolicyJudged",
    "Probed",
    "ReadsWanted",
    "Rejected",
    "Resumed",
    "StepOutcome",
    "StepsReturned",
    "Stimulus",
    "Submitted",
    "TimePassed",
    "TurnAnswered",
    "VerifierLost",
]
