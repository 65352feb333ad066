"""Effects: orders in the imperative, which the harness performs after the events are durable.

What is left to do follows from the state (``pending``), so a restart asks the state and repeats nothing that is done.
``key`` tells two orders apart: an order whose key was pending before is not given again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..plan.descriptor import Effect as EffectClass
from ..plan.plan import Plan
from ..plan.request import Binding

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Ask the planner what it recognises in the request; ``answers`` maps parameters to what the person said."""

    key: Key
    answers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LookUpPlan:
    """Ask the plan cache."""

    key: Key
    cache_key: str
    binding: Binding


@dataclass(frozen=True, slots=True)
class Draft:
    """Ask the planner for a plan. ``exclude`` are playbooks that were tried; ``guidance`` reaches every attempt; ``left`` is
    what may still be spent of each limited budget, for a replan that has to be small. With ``model`` a model makes the plan,
    for at most ``tokens_max`` tokens."""

    key: Key
    mode: Literal["constrained", "orchestrated"]
    binding: Binding
    plan_id: str
    version: int
    replan: int
    reason: str
    exclude: tuple[str, ...]
    guidance: tuple[str, ...]
    left: Mapping[str, int] = field(default_factory=dict)
    model: bool = False
    tokens_max: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One step to dispatch. With ``template`` the arguments hold references to steps of the same dispatch.

    ``rows_max`` is how many rows the call may scan, 0 without a limit; so much is reserved for it.
    """

    step_id: str
    attempt: int
    tool: str
    descriptor: str
    effect: EffectClass
    arguments: Any
    template: bool
    template_digest: str
    timeout_seconds: int
    idempotency_key: str
    rows_max: int = 0


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Run these calls: at once, or one after the other until one fails."""

    key: Key
    wave: int
    mode: Literal["concurrent", "serial"]
    calls: tuple[Call, ...]
    plan_digest: str


@dataclass(frozen=True, slots=True)
class FillArguments:
    """Ask the planner's model for the open arguments of a step, from its resolved ``inputs`` (tagged, by name)."""

    key: Key
    step_id: str
    inputs: Mapping[str, Any]
    tokens_max: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Ask the planner's model to do a reason step, from its resolved ``inputs`` alone; answered like a call."""

    key: Key
    step_id: str
    attempt: int
    wave: int
    inputs: Mapping[str, Any]
    tokens_max: int


@dataclass(frozen=True, slots=True)
class TakeTurn:
    """Ask the planner's model for the next turn of a direct run; a ``last`` one has to be the answer."""

    key: Key
    last: bool
    tokens_max: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask whether a write whose outcome is unknown happened: ``call`` is a read, to be granted like any other.

    Answered with ``Probed``, ``unknown`` where the probe fails.
    """

    key: Key
    step_id: str
    call: Call


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """Evaluate a policy's expressions over one call, in a worker with a deadline; answered with ``PolicyJudged``.

    ``expressions`` are the ``when`` texts of the policy's gates for this tool; one that is true, or that cannot be
    evaluated, gates the call. ``facts`` are what they may name.
    """

    key: Key
    step_id: str
    expressions: tuple[str, ...]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PrepareChecks:
    """Ask the verifier which reads it needs to check these steps' outputs; answered with ``ReadsWanted`` (``checks``)."""

    key: Key
    step_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckSteps:
    """Ask the verifier for schema, rules and recomputation of these steps' outputs, with its granted ``reads``.

    ``rows_max`` is how many rows each read may scan, 0 without a limit.
    """

    key: Key
    step_ids: tuple[str, ...]
    reads: list[dict[str, Any]] = field(default_factory=list)
    rows_max: int = 0


@dataclass(frozen=True, slots=True)
class PrepareVerification:
    """Ask the verifier which reads it needs."""

    key: Key


@dataclass(frozen=True, slots=True)
class Judge:
    """Give the verifier its granted reads and ask for the judgement; with ``critic`` the critic is asked too.

    ``rows_max`` is how many rows each read may scan, ``tokens_max`` what the critic may take; 0 without a limit.
    """

    key: Key
    reads: list[dict[str, Any]] = field(default_factory=list)
    critic: bool = False
    rows_max: int = 0
    tokens_max: int = 0


@dataclass(frozen=True, slots=True)
class StorePlan:
    """Give the plan of a passed run to the cache."""

    key: Key
    cache_key: str
    plan: Plan
    binding: Binding


@dataclass(frozen=True, slots=True)
class CancelCalls:
    """Kill what still runs for this run."""

    key: Key


@dataclass(frozen=True, slots=True)
class Wake:
    """Send ``TimePassed`` at this wall time (a retry, or a gate's end)."""

    key: Key
    at_ms: int


Order = (
    Bind
    | LookUpPlan
    | Draft
    | FillArguments
    | Reason
    | TakeTurn
    | Dispatch
    | Probe
    | JudgePolicy
    | PrepareChecks
    | CheckSteps
    | PrepareVerification
    | Judge
    | StorePlan
    | CancelCalls
    | Wake
)
