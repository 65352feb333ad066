"""The submission, the route, the cache's word, the plan, and its replacement."""

from __future__ import annotations

from dataclasses import replace

from ...authority.mandate import Mandate
from ...plan.agent import AgentSpec
from ...plan.descriptor import Descriptor
from ...plan.plan import Plan
from ...plan.policy import Policy
from ...plan.request import Binding, Request
from ...plan.scope import Scope
from ...wire.limits import DRAFT_FAULTS_TOLD_MAX
from ..budget import Budget
from ..events import Event
from ..phases import Phase
from ..run import DONE, GONE, Kept, Run, StepState
from .attached import value_of

OBJECTIVE_CHANGED = "objective_changed"


def submitted(event: Event) -> Run:
    envelope = event.attached["mandate"]
    mandate = Mandate.peek(envelope)
    descriptors = value_of(event, "descriptors")
    return Run(
        run_id=mandate.run_id,
        mandate=mandate,
        mandate_envelope=envelope,
        submitter=event.facts["submitter"],
        request=Request.model_validate(value_of(event, "request")),
        agent=AgentSpec.model_validate(value_of(event, "agent")),
        descriptors={name: Descriptor.model_validate(data) for name, data in descriptors.items()},
        digests=event.facts["digests"],
        capabilities=tuple(value_of(event, "capabilities")),
        has_model=event.facts["has_model"],
        has_critic=event.facts["has_critic"],
        policy=Policy.model_validate(value_of(event, "policy")),
        submitter_name=event.facts["submitter_name"],
        from_run=event.facts["from_run"],
        replay_of=event.facts.get("replay_of", ""),
        epoch=event.facts["epoch"],
        submitted_ms=event.facts["at_ms"],
        budget=Budget(limits=dict(mandate.budget)),
    )


def results_imported(run: Run, event: Event) -> Run:
    """Results of an earlier run, for reuse like those of an earlier plan."""
    kept = dict(run.kept)
    for index, one in enumerate(value_of(event, "results")):
        kept[one["key"]] = Kept(
            event.attached[f"output.{index}"],
            event.artifacts.get(f"output.{index}", ""),
            event.artifacts.get(f"receipt.{index}", ""),
            one["fingerprints"],
            imported=True,
        )
    return replace(run, kept=kept)


def route_chosen(run: Run, event: Event) -> Run:
    binding = Binding.model_validate(value_of(event, "binding")) if "binding" in event.attached else Binding()
    return replace(
        run,
        binding=binding,
        route=event.facts["route"],
        score=event.facts["score"],
        cache="asked" if event.facts["look_up"] else "",
    )


def cache_replied(run: Run, event: Event) -> Run:
    return replace(run, cache=event.kind.removeprefix("plan.cache_"))


def plan_drafted(run: Run, event: Event) -> Run:
    """A new plan. One that a person edited at its gate replaces it in the same way."""
    plan = Plan.decoded(event.attached["plan"])
    playbook = event.facts.get("playbook") or ""
    known = not playbook or playbook in run.used_playbooks
    return replace(
        run,
        phase=Phase.READY,
        gate=None,
        next_owner="duly",
        reason="",
        plan=plan,
        plan_digest=event.facts["digest"],
        plan_artifact=event.artifacts.get("plan", ""),
        previous_plan=run.plan,
        steps={step.step_id: StepState() for step in plan.steps},
        outputs={},
        filled={},
        approved=False,
        draft_faults=(),
        used_playbooks=run.used_playbooks if known else (*run.used_playbooks, playbook),
        sources=event.facts["fingerprints"],
        verification="",
        checking=False,
        checks=(),
        verdict="none",
        cache="" if run.cache == "asked" else run.cache,
    )


def plan_refused(run: Run, event: Event) -> Run:
    faults = value_of(event, "faults")
    said = tuple(f"{one['path']}: {one['message']}" for one in faults[:DRAFT_FAULTS_TOLD_MAX])
    return replace(run, drafts=run.drafts + 1, draft_faults=said)


def replan_triggered(run: Run, event: Event) -> Run:
    """Good results are kept for the next plan; calls that failed are remembered, so that none is simply repeated."""
    facts = event.facts
    kept = dict(run.kept)
    failed = set(run.failed_keys)
    for step_id, state in run.steps.items():
        if not state.key:
            continue
        if state.checked == "fail" or state.status in GONE:
            failed.add(state.key)
            kept.pop(state.key, None)
        elif state.status in DONE:
            kept[state.key] = Kept(run.outputs[step_id], state.output, state.receipt, state.fingerprints)
    trigger = facts["trigger"]
    changed = trigger == OBJECTIVE_CHANGED
    plans = run.failed_plans if changed or not run.plan_digest else run.failed_plans | {run.plan_digest}
    run = replace(
        run,
        phase=Phase.REPLAN_REQUIRED,
        replans={**run.replans, trigger: run.replans.get(trigger, 0) + 1},
        replan_trigger=trigger,
        replan_reason=facts["code"],
        replan_message=value_of(event, "message") if "message" in event.attached else "",
        kept=kept,
        failed_keys=frozenset(failed),
        failed_plans=plans,
        settled_scope=run.settled_scope or _ran_with(run, trigger),
        gate=None,
        asked=None,
        next_owner="duly",
        reason="",
        verification="",
        checking=False,
        reads=(),
        drafts=0,
        draft_faults=(),
    )
    return _from_the_beginning(run) if changed else run


def _ran_with(run: Run, trigger: str) -> Scope | None:
    """The scope of a plan that needed no approval; one that a person sent back allows nothing."""
    return None if trigger in ("gate_feedback", OBJECTIVE_CHANGED) or run.plan is None else run.plan.scope


def _from_the_beginning(run: Run) -> Run:
    """Another objective: bound, routed and planned anew. Results are kept, and so is the plan, for the difference."""
    return replace(
        run,
        phase=Phase.PLANNING,
        binding=None,
        answers={},
        answered=0,
        route="",
        cache="",
        used_playbooks=(),
        settled_scope=None,
        steps={name: StepState() for name in run.steps},
        outputs={},
        filled={},
        approved=False,
    )


def replan_refused(run: Run, event: Event) -> Run:
    """Where the plan before still holds, the run goes on with it."""
    if not event.facts.get("keep"):
        return run
    return replace(run, phase=Phase.RUNNING, replan_reason="", replan_message="", reason="")
