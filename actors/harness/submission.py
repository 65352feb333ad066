"""Taking a signed order: everything about a mandate that has to hold before a run begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.authority.mandate import Mandate
from duly.protocol.authority.tiers import TIERS
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import Amended, KeptResult, Submitted
from duly.protocol.plan.agent import BUDGET_NAMES
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request, new_request
from duly.protocol.plan.validate import parse_plan
from duly.protocol.wire.errors import AuthorityError, BudgetError, PlanError, RequestError, RunError
from duly.protocol.wire.ids import is_name

from .packages import OpenPackage, Packages
from .people import People
from .thinker import Thinker


@dataclass(frozen=True, slots=True)
class Order:
    """A mandate that holds, with what it is about."""

    mandate: Mandate
    envelope: bytes
    submitter: str
    request: Request
    opened: OpenPackage
    plan: Plan | None
    submitter_name: str
    fingerprints: Mapping[str, str]
    kept: Sequence[KeptResult] = ()
    has_model: bool = False
    has_critic: bool = False
    replay_of: str = ""

    def stimulus(self, now_ms: int, fresh: str, epoch: int) -> Submitted:
        agent = self.opened.package.agent(self.mandate.agent)
        granted = self.opened.granted(agent)
        return Submitted(
            now_ms=now_ms,
            fresh=fresh,
            mandate=self.mandate,
            mandate_envelope=self.envelope,
            submitter=self.submitter,
            request=self.request,
            agent=agent,
            descriptors={name: granted[name] for name in self.mandate.tools},
            digests=self.opened.digests(),
            capabilities=self.opened.package.can_do(),
            policy=self.opened.package.manifest.policy,
            has_model=self.has_model,
            has_critic=self.has_critic,
            replay_of=self.replay_of,
            epoch=epoch,
            plan=self.plan,
            submitter_name=self.submitter_name,
            from_run=self.mandate.from_run or "",
            kept=list(self.kept),
            fingerprints=dict(self.fingerprints),
        )


class Submission:
    """Judges submissions. ``people`` are those whose signatures count, ``earlier`` gives the results of an ended run."""

    def __init__(
        self,
        packages: Packages,
        people: People,
        earlier: Callable[[str], Sequence[KeptResult]],
        thinker: Thinker,
    ) -> None:
        self._packages = packages
        self._people = people
        self._earlier = earlier
        self._thinker = thinker

    async def take(self, fields: Mapping[str, Any], now_ms: int) -> Order:
        """The order of a ``submit`` request. Raises what keeps it from being taken; nothing is kept of it then."""
        mandate, envelope, submitter = self._opened(fields, now_ms)
        if not is_name(mandate.run_id):
            raise RunError("run.bad_id", "A run's id has letters, digits and _ . : - only.")
        request = _request(fields.get("request"), mandate)
        opened = await self._packages.get(mandate.package)
        _check_tools(mandate, opened)
        _check_budget(mandate.budget)
        replay_of = str(fields.get("replay_of") or "")
        critic = TIERS[mandate.tier].critic
        models = await self._thinker.models_for(opened.digest, replay_of, critic=critic)
        return Order(
            mandate=mandate,
            envelope=envelope,
            submitter=submitter,
            request=request,
            opened=opened,
            plan=_plan(fields.get("plan"), mandate),
            submitter_name=self._people.name(submitter),
            fingerprints=dict(opened.fingerprints),
            kept=self._earlier(mandate.from_run) if mandate.from_run else (),
            has_model=models[0],
            has_critic=models[1],
            replay_of=replay_of,
        )

    async def amend(self, fields: Mapping[str, Any], run: Run, now_ms: int) -> Callable[[int, str], Amended]:
        """The new objective of a run, signed anew. Package, agent and tools stay; only what is asked changes."""
        mandate, envelope, submitter = self._opened(fields, now_ms)
        mandate.check(run_id=run.run_id, now_ms=now_ms)
        if mandate.package != run.mandate.package or mandate.agent != run.mandate.agent:
            raise AuthorityError("mandate.other_agent", "An amended run keeps its package and its agent.")
        request = _request(fields.get("request"), mandate)
        opened = await self._packages.get(mandate.package)
        _check_tools(mandate, opened)
        _check_budget(mandate.budget)
        name = self._people.name(submitter)
        return lambda now, fresh: Amended(
            now_ms=now,
            fresh=fresh,
            request=request,
            mandate=mandate,
            envelope=envelope,
            submitter=submitter,
            submitter_name=name,
        )

    def _opened(self, fields: Mapping[str, Any], now_ms: int) -> tuple[Mandate, bytes, str]:
        envelope = fields.get("mandate")
        if type(envelope) is not bytes:
            raise AuthorityError("mandate.malformed", "A submission carries a signed mandate.")
        mandate, submitter = Mandate.open(envelope, self._people.keys())
        mandate.check(run_id=mandate.run_id, now_ms=now_ms)
        return mandate, envelope, submitter


def _request(data: Any, mandate: Mandate) -> Request:
    request = Request.from_data(data, error=RequestError, code="request.malformed", what="The request")
    request = new_request(request.text, list(request.parts))
    if request.digest() != mandate.request:
        raise AuthorityError("mandate.request_mismatch", "The mandate was signed for another request.")
    return request


def _check_tools(mandate: Mandate, opened: OpenPackage) -> None:
    agent = opened.package.agent(mandate.agent)
    if agent.version != mandate.agent_version:
        raise AuthorityError(
            "mandate.other_agent", f"The agent {agent.name} is of version {agent.version} now."
        )
    granted = opened.granted(agent)
    for name, tool in mandate.tools.items():
        descriptor = granted.get(name)
        if descriptor is None:
            raise AuthorityError(
                "mandate.tool_not_granted", f"{name} is not granted to the agent {agent.name}."
            )
        if descriptor.digest() != tool.descriptor or descriptor.effect != tool.effect:
            raise AuthorityError("mandate.descriptor_changed", f"{name} is described differently now.")
    weakened = [
        name for name in agent.gated_tools if name in mandate.tools and name not in mandate.gated_tools
    ]
    if weakened or (agent.gate == "always" and mandate.gate != "always"):
        raise AuthorityError("mandate.gate_weakened", "The package gates more than this mandate says.")


def _check_budget(budget: Mapping[str, int]) -> None:
    for name, amount in budget.items():
        if name not in BUDGET_NAMES:
            raise BudgetError(
                "budget.unknown",
                f"There is no budget {name!r}.",
                hint=f"There are: {', '.join(BUDGET_NAMES)}.",
            )
        if amount < 0:
            raise BudgetError("budget.bad_value", f"The budget of {name} is negative.")


def _plan(data: Any, mandate: Mandate) -> Plan | None:
    """The plan that a person brings, if the mandate names exactly it."""
    if data is None:
        if mandate.plan is not None:
            raise PlanError("plan.missing", "The mandate names a plan, and none came.")
        return None
    plan = parse_plan(data)
    if plan.content_digest() != mandate.plan:
        raise AuthorityError("mandate.plan_mismatch", "The mandate was signed for another plan.")
    return plan
