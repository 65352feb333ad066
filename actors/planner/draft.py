"""From a binding to a plan: a playbook's steps with all seven fields, or one read for one value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duly.protocol.plan import refs
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.manifest import MetricTools
from duly.protocol.plan.package import Package
from duly.protocol.plan.plan import (
    Inputs,
    Nothing,
    OutputContract,
    Plan,
    Provenance,
    ReadBack,
    Recompute,
    SourceInput,
    Step,
    ToolContract,
    ToolRef,
    Verification,
)
from duly.protocol.plan.playbook import (
    OutputTemplate,
    Playbook,
    ReadBackTemplate,
    StepTemplate,
    VerificationTemplate,
)
from duly.protocol.plan.request import Binding, Request
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import PlanError

from .bind import value_tool
from .fill import Expansion, Filling
from .playbooks import tools_of


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan, and the playbook that made it (``constrained`` for the single read)."""

    playbook: str
    plan: Plan


CONSTRAINED = "constrained"
_NOT_SAID = "the playbook asks for none"
Mode = Literal["constrained", "orchestrated"]


def draft(
    request: Request,
    binding: Binding,
    package: Package,
    descriptors: Mapping[str, Descriptor],
    agent: AgentSpec,
    *,
    plan_id: str,
    version: int = 1,
    provenance: Provenance | None = None,
    exclude_playbooks: Collection[str] = (),
    mode: Mode = "orchestrated",
) -> Draft:
    """The plan of a request that is bound without a question.

    ``exclude_playbooks`` are those whose plans failed or were rejected (``constrained`` for the single read); the
    first of their fallbacks that is left plans instead. Raises ``PlanError``: ``plan.no_playbook`` (nothing plans
    this), ``plan.no_alternative`` (nothing else does), ``plan.unbound``, ``plan.tool_not_granted``.
    """
    single = mode == CONSTRAINED or binding.playbook is None
    playbook = _single(binding, package, agent) if single else package.playbook(str(binding.playbook))
    playbook = _left(playbook, binding, package, agent, exclude_playbooks)
    filling = Filling(playbook, binding.parameters, package.semantics)
    drafting = _Drafting(filling, package, descriptors)
    steps = [drafting.step(expansion) for expansion in filling.expansions()]
    plan = Plan(
        plan_id=plan_id,
        version=version,
        objective=request.text,
        constraints=list(playbook.constraints),
        scope=drafting.scope(steps),
        steps=steps,
        task_class=playbook.task_class,
        allow_partial=playbook.allow_partial,
        report_step=playbook.report,
        origin="playbook",
        provenance=provenance or Provenance(),
    )
    return Draft(playbook.name, plan)


def _left(
    first: Playbook, binding: Binding, package: Package, agent: AgentSpec, excluded: Collection[str]
) -> Playbook:
    """The playbook itself, or the first of its fallbacks (theirs included) that is not excluded and has what it needs."""
    waiting, seen = [first], {first.name}
    while waiting:
        playbook = waiting.pop(0)
        if playbook.name not in excluded and (playbook is first or _fits(playbook, binding, agent)):
            return playbook
        for name in playbook.fallbacks:
            if name not in seen:
                seen.add(name)
                waiting.append(package.playbook(name))
    raise PlanError(
        "plan.no_alternative",
        f"There is no other way to plan this than {first.name}.",
        hint="Bring a plan of your own (--plan), or say the request differently.",
    )


def _fits(playbook: Playbook, binding: Binding, agent: AgentSpec) -> bool:
    needed = {name for name in playbook.provided() if name not in ("recommendations", "follow_ups")}
    return needed <= set(binding.parameters) and tools_of(playbook) <= set(agent.tools)


def _single(binding: Binding, package: Package, agent: AgentSpec) -> Playbook:
    """The plan of one read, written as a playbook. Raises ``PlanError`` ``plan.no_playbook``."""
    tool = value_tool(package, agent)
    if not binding.single_value or tool is None:
        raise PlanError(
            "plan.no_playbook",
            "No playbook of this package matches the request.",
            hint=f"It can: {'; '.join(package.can_do()) or 'nothing yet'}.",
        )
    step = StepTemplate(
        id="value",
        tool=tool,
        objective=["What is the", {"$param": "metric"}, "in", {"$param": "period"}, "?"]
        if binding.parameters.get("period")
        else ["What is the", {"$param": "metric"}, "over everything?"],
        arguments={name: {"$param": name} for name in ("metric", "period", "filters")},
        output=OutputTemplate(artifact="value"),
        verification=VerificationTemplate(
            tolerance=1e-9,
            acceptance=Nothing(none="the checks of the metric apply"),
            independent=Recompute(recompute="value"),
        ),
    )
    return Playbook.model_construct(
        name=CONSTRAINED,
        title="one value of one metric",
        task_class="deterministic",
        steps=[step],
        report=step.id,
    )


class _Drafting:
    """Steps of one filling against the granted descriptors."""

    def __init__(self, filling: Filling, package: Package, descriptors: Mapping[str, Descriptor]) -> None:
        self._filling = filling
        self._package = package
        self._descriptors = descriptors

    def step(self, expansion: Expansion) -> Step:
        template = expansion.template
        descriptor = self._descriptor(template.tool)
        arguments = self._filling.filled(template.arguments, expansion)
        output = template.output
        after = [step_id for name in template.after for step_id in self._awaited(name, expansion)]
        return Step(
            step_id=expansion.step_id,
            objective=self._filling.objective(expansion),
            inputs=Inputs(sources=self._sources(template), artifacts=self._artifacts(arguments)),
            tool_contract=ToolContract(
                tool=_ref(descriptor),
                arguments=arguments,
                effect=descriptor.effect,
                authority=template.authority or descriptor.authority,
                timeout_seconds=min(
                    template.timeout_seconds or descriptor.timeout_seconds, descriptor.timeout_seconds
                ),
                idempotency=descriptor.idempotency,
            ),
            output_contract=OutputContract(
                json_schema=output.json_schema or descriptor.output_schema,
                artifact=_artifact(expansion),
                version=output.version,
                evidence=output.evidence or descriptor.evidence,
            ),
            verification=self._verification(template, expansion),
            on_failure=list(
                template.on_failure
                if template.on_failure is not None
                else self._filling.playbook.defaults.on_failure
            ),
            depends_on=list(dict.fromkeys([*after, *refs.steps_of(arguments)])),
        )

    def scope(self, steps: Sequence[Step]) -> Scope:
        """What the steps touch: their sources, the resources that they write, and the filters as predicates."""
        sources = {source.source for step in steps for source in step.inputs.sources}
        resources = {
            descriptor.resource
            for step in steps
            if not (descriptor := self._descriptors[str(step.tool)]).reads_only and descriptor.resource
        }
        filters = self._filling.values.get("filters") or []
        predicates = [f"{item['dimension']} = {item['value']}" for item in filters]
        return Scope(sources=sorted(sources), resources=sorted(resources), predicates=predicates)

    def _descriptor(self, name: str) -> Descriptor:
        found = self._descriptors.get(name)
        if found is None:
            raise PlanError("plan.tool_not_granted", f"{name} is not granted to this agent.", place=name)
        return found

    def _awaited(self, name: str, expansion: Expansion) -> list[str]:
        """The steps of ``after``: the same item's where both run over the same list, else every one."""
        template = next(step for step in self._filling.playbook.steps if step.id == name)
        if template.foreach is not None and template.foreach == expansion.template.foreach:
            return [self._filling.target(name, expansion)]
        return self._filling.step_ids(name)

    def _sources(self, template: StepTemplate) -> list[SourceInput]:
        """The sources that a step reads: those it names, or for a metric tool those of the metric."""
        semantics = self._package.semantics
        if semantics is None:
            return []
        names: Sequence[str] = template.sources or ()
        server = self._package.manifest.tools.get(template.tool.partition(".")[0])
        metric = self._filling.values.get("metric")
        if template.sources is None and isinstance(server, MetricTools) and isinstance(metric, str):
            names = semantics.sources_of(metric)
        return [SourceInput(source=name, semantic_version=semantics.version) for name in names]

    def _artifacts(self, arguments: Any) -> dict[str, str]:
        """Artifact name → step, of every step that the arguments refer to."""
        wanted = set(refs.steps_of(arguments))
        return {
            _artifact(expansion): expansion.step_id
            for expansion in self._filling.expansions()
            if expansion.step_id in wanted
        }

    def _verification(self, template: StepTemplate, expansion: Expansion) -> Verification:
        own, common = template.verification, self._filling.playbook.defaults.verification
        acceptance = own.acceptance if own.acceptance is not None else common.acceptance
        tolerance = own.tolerance if own.tolerance is not None else common.tolerance
        independent = own.independent if own.independent is not None else common.independent
        return Verification(
            acceptance=acceptance if acceptance is not None else Nothing(none=_NOT_SAID),
            tolerance=tolerance if tolerance is not None else Nothing(none=_NOT_SAID),
            independent=self._independent(independent, expansion),
        )

    def _independent(
        self, template: Recompute | ReadBackTemplate | Nothing | None, expansion: Expansion
    ) -> Recompute | ReadBack | Nothing:
        if template is None:
            return Nothing(none=_NOT_SAID)
        if not isinstance(template, ReadBackTemplate):
            return template
        return ReadBack(
            read_back=_ref(self._descriptor(template.read_back)),
            arguments=self._filling.filled(template.arguments, expansion),
            agree=template.agree,
        )


def _artifact(expansion: Expansion) -> str:
    name = expansion.template.output.artifact or expansion.template.id
    return name if expansion.item is None else f"{name}-{expansion.item}"


def _ref(descriptor: Descriptor) -> ToolRef:
    return ToolRef(server=descriptor.server, name=descriptor.name, descriptor=descriptor.digest())
