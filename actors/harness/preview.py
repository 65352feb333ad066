"""What would happen to a request: its route and its plan, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.authority.mandate import Mandate
from duly.protocol.authority.rendering import GateFacts, render_plan
from duly.protocol.machine import gates
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, Request
from duly.protocol.plan.route import Route, choose, nobody_plans
from duly.protocol.wire import canon
from duly.protocol.wire.errors import BudgetError, ModelError, error_from_data
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, DRAFT_TOKENS_MAX

from ..caller import Caller
from ..messages import AskBinding, AskDraft, BindingFound, PlanDrafted
from ..model_terms import ModelTerms
from .packages import OpenPackage, Packages
from .people import People
from .thinker import Thinker


class Preview:
    def __init__(self, caller: Caller, packages: Packages, people: People, thinker: Thinker) -> None:
        self._caller = caller
        self._packages = packages
        self._people = people
        self._thinker = thinker

    async def route(self, fields: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """``{route, binding}`` of a request to an agent of an open package."""
        _, _, route, binding, _ = await self._judged(fields, request)
        return {"route": route.to_data(), "binding": binding.to_data()}

    async def draft(self, fields: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """``{plan, question, rendering}``: the plan that the package makes of a request, or what it has to ask first.

        Raises what the planner found wrong, or ``ModelError`` ``model.none``.
        """
        opened, agent, route, binding, has_model = await self._judged(fields, request)
        if binding.question is not None:
            return {"plan": None, "question": binding.question.to_data(), "rendering": ""}
        if route.route == "none":
            raise nobody_plans(opened.package.can_do())
        descriptors = opened.granted(agent)
        body = AskDraft(
            package=opened.digest,
            agent=agent.name,
            request=request.to_data(),
            binding=binding.to_data(),
            mode="constrained" if route.route == "constrained" else "orchestrated",
            plan_id="p-preview",
            version=1,
            replan=0,
            reason="",
        )
        data = canon.encode({name: one.to_data() for name, one in descriptors.items()})
        given = [opened.catalogue, data]
        reply, blobs = await self._caller.ask("planner", body, PlanDrafted, blobs=given)
        if reply.error is not None and reply.error["code"] == "plan.no_playbook" and has_model:
            terms, scope = self._terms(fields)
            body = body.model_copy(update={"terms": terms, "scope": scope, "left": dict(agent.budget)})
            reply, blobs = await self._caller.ask("planner", body, PlanDrafted, blobs=given)
        if reply.error is not None:
            raise error_from_data(reply.error)
        if not reply.has_plan:
            return {"plan": None, "question": reply.question, "rendering": ""}
        plan = Plan.model_validate(canon.decode(blobs[0], bytes_max=ARTIFACT_BYTES_MAX))
        facts = GateFacts(
            "preview",
            "preview",
            canon.digest("scope", plan.scope.to_data()),
            dict(agent.budget),
            opened.package.policy_digest(),
        )
        writes = {
            step.step_id: gates.approved_template(step)
            for step in plan.steps
            if step.tool in descriptors and not descriptors[step.tool].reads_only
        }
        return {
            "plan": plan.to_data(),
            "question": None,
            "rendering": render_plan(plan, descriptors, facts, writes),
        }

    async def _judged(
        self, fields: Mapping[str, Any], request: Request
    ) -> tuple[OpenPackage, AgentSpec, Route, Binding, bool]:
        opened = await self._packages.get(str(fields.get("package", "")))
        agent = opened.package.agent(str(fields["agent"]) if fields.get("agent") else None)
        if fields.get("planning"):
            agent = AgentSpec.model_validate({**agent.to_data(), "planning": fields["planning"]})
        body = AskBinding(package=opened.digest, agent=agent.name, request=request.to_data())
        found, _ = await self._caller.ask("planner", body, BindingFound, blobs=[opened.catalogue])
        binding = Binding.model_validate(found.binding)
        has_model = bool(await self._thinker.model_of("planner", opened.digest))
        return opened, agent, choose(request, binding, agent, has_model=has_model), binding, has_model

    def _terms(self, fields: Mapping[str, Any]) -> tuple[ModelTerms, dict[str, Any]]:
        """The terms on which a model may draft a plan that nobody runs: a person signs for them as for a run."""
        envelope = fields.get("mandate")
        if type(envelope) is not bytes:
            raise ModelError(
                "model.none", "No playbook matches, and this request carries no mandate to ask a model."
            )
        mandate, _ = Mandate.open(envelope, self._people.keys())
        left = min(mandate.budget.get("model_tokens", DRAFT_TOKENS_MAX), DRAFT_TOKENS_MAX)
        if left < 1:
            raise BudgetError("budget.model_tokens", "The budget leaves no tokens for a model.")
        terms = ModelTerms(run_id=mandate.run_id, mandate=envelope, tokens_max=left)
        return terms, mandate.scope.to_data()
