"""Stimuli of work: what became of calls, probes and policies, and the verifier's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..plan.model_call import Used
from ..plan.plan import SourceInput
from ..wire.errors import DulyError
from .stimulus import Stimulus


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What became of one dispatched call. ``lost``: nobody can say, since the executor or host went away.

    ``arguments`` is the digest of the bytes that the host ran. ``receipt`` is the signed envelope, checked. ``rows``,
    ``tokens`` and ``cost`` (millionths) are what the call took, failed ones too.
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
    tokens: int = 0
    cost: int = 0
    truncated: bool = False
    fingerprints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StepsReturned(Stimulus):
    """``uses`` are a model's calls, where what came back is a reason step."""

    kind: ClassVar[str] = "steps_returned"
    outcomes: list[StepOutcome]
    uses: Sequence[Used] = ()


@dataclass(frozen=True, kw_only=True)
class ArgumentsFilled(Stimulus):
    """What a model gives for the open arguments of a step (tagged), or why there is nothing."""

    kind: ClassVar[str] = "arguments_filled"
    step_id: str
    arguments: dict[str, Any] | None = None
    error: DulyError | None = None
    uses: Sequence[Used] = ()


@dataclass(frozen=True, kw_only=True)
class TurnAnswered(Stimulus):
    """The model's turn in a direct run: an ``answer``, or a call of ``tool`` with tagged ``arguments``, the reason for it, and the
    ``sources`` that it reads by what the package says."""

    kind: ClassVar[str] = "turn_answered"
    answer: str | None = None
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    sources: Sequence[SourceInput] = ()
    error: DulyError | None = None
    uses: Sequence[Used] = ()


@dataclass(frozen=True, kw_only=True)
class Probed(Stimulus):
    """What the probe of a write says: it happened (``output`` is what the probe knows of it, tagged), it did not, or
    ``unknown``, also where the probe itself failed. ``rows`` is what it scanned."""

    kind: ClassVar[str] = "probed"
    step_id: str
    outcome: Literal["happened", "did_not_happen", "unknown"]
    output: bytes | None = None
    receipt: bytes | None = None
    code: str = ""
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class PolicyJudged(Stimulus):
    """What the expressions of a policy say of one call: whether a person must see it. ``code`` names why nobody could
    evaluate them (a deadline, a wrong type); then ``gated`` is true."""

    kind: ClassVar[str] = "policy_judged"
    step_id: str
    gated: bool
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class ChecksReturned(Stimulus):
    """The verifier's word on the outputs of single steps, before something that writes depends on them."""

    kind: ClassVar[str] = "checks_returned"
    checks: list[dict[str, Any]]
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class ReadsWanted(Stimulus):
    """The reads that the verifier wants for its recomputation: ``{read_id, tool, arguments}`` each.

    ``purpose`` says which order this answers: ``PrepareVerification``, or ``PrepareChecks`` (``checks``).
    """

    kind: ClassVar[str] = "reads_wanted"
    reads: list[dict[str, Any]]
    purpose: Literal["verification", "checks"] = "verification"


@dataclass(frozen=True, kw_only=True)
class Judged(Stimulus):
    """The verifier's judgement with every check's outcome, the critic's among them, and what its reads and calls took."""

    kind: ClassVar[str] = "judged"
    outcome: Literal["pass", "fail", "inconclusive"]
    reason: str
    checks: list[dict[str, Any]]
    rows: int = 0
    uses: Sequence[Used] = ()


@dataclass(frozen=True, kw_only=True)
class VerifierLost(Stimulus):
    """The verifier could not be asked any more; its checks are not run."""

    kind: ClassVar[str] = "verifier_lost"
    error: DulyError
