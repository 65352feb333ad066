"""Stimuli of planning: the submission, the binding, the cache's word, the draft."""

from __future__ import annotations

from collections.abc import Mapping

from ...plan.plan import Plan, Provenance
from ...plan.request import Binding
from ...plan.route import choose, nobody_plans
from ...wire import canon
from ...wire.errors import DulyError, Fault, PlanError, RunError
from ...wire.limits import (
    DRAFT_FAULTS_TOLD_MAX,
    DRAFTS_PER_PLAN_MAX,
    IMPORTED_PER_EVENT_MAX,
    IMPORTED_RESULTS_MAX,
)
from .. import admission, ends, metering, thinking
from ..applied.planning import OBJECTIVE_CHANGED
from ..budget import COUNTED
from ..events import Event, event
from ..pending import next_version
from ..phases import Phase
from ..run import Run
from ..stimuli import Bound, CacheReplied, Drafted, Submitted

_NONE: Mapping[str, str] = {}


def submitted(stimulus: Submitted) -> Event:
    """A run begins. Raises ``AuthorityError`` where the mandate does not say what was submitted."""
    admission.check_order(stimulus)
    mandate = stimulus.mandate
    return event(
        "run.submitted",
        {
            "mandate": stimulus.mandate_envelope,
            "request": canon.encode(stimulus.request.to_data()),
            "agent": canon.encode(stimulus.agent.to_data()),
            "descriptors": canon.encode({name: d.to_data() for name, d in stimulus.descriptors.items()}),
            "capabilities": canon.encode(list(stimulus.capabilities)),
            "policy": canon.encode(stimulus.policy.to_data()),
        },
        agent=mandate.agent,
        agent_version=mandate.agent_version,
        package=mandate.package,
        tier=mandate.tier,
        submitter=stimulus.submitter,
        submitter_name=stimulus.submitter_name,
        has_model=stimulus.has_model,
        has_critic=stimulus.has_critic,
        from_run=stimulus.from_run,
        **({"replay_of": stimulus.replay_of} if stimulus.replay_of else {}),
        digests=dict(stimulus.digests),
        epoch=stimulus.epoch,
        at_ms=stimulus.now_ms,
    )


def imported(stimulus: Submitted) -> list[Event]:
    """Results of an earlier run that this one may use again. Raises ``RunError`` ``run.too_many_results``."""
    if len(stimulus.kept) > IMPORTED_RESULTS_MAX:
        raise RunError(
            "run.too_many_results",
            f"Run {stimulus.from_run} has {len(stimulus.kept)} results; {IMPORTED_RESULTS_MAX} can be used again.",
        )
    events = []
    for start in range(0, len(stimulus.kept), IMPORTED_PER_EVENT_MAX):
        group = stimulus.kept[start : start + IMPORTED_PER_EVENT_MAX]
        attached = {
            "results": canon.encode(
                [{"key": one.key, "fingerprints": dict(one.fingerprints)} for one in group]
            )
        }
        for index, one in enumerate(group):
            attached[f"output.{index}"] = one.output
            attached[f"receipt.{index}"] = one.receipt
        events.append(event("results.imported", attached, from_run=stimulus.from_run, kept=len(group)))
    return events


def bring_plan(run: Run, plan: Plan, fingerprints: Mapping[str, str] = _NONE) -> list[Event]:
    """A plan that a person brings stands in the mandate and needs neither route nor cache; it is validated like any
    other."""
    chosen = event(
        "route.chosen",
        route="orchestrated",
        score=0,
        weights=[],
        playbook="",
        metric="",
        look_up=False,
        reason="person",
    )
    brought = plan.model_copy(
        update={"origin": "person"}
    )  # whatever its file says: it never gets into the cache
    return [chosen, *drafted_plan(run, brought, "", fingerprints)]


def bound(run: Run, stimulus: Bound) -> list[Event]:
    """The route is chosen; a parameter that does not bind asks before anything else."""
    if run.binding is not None:
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} is bound already.")
    binding = stimulus.binding
    failed = bool(set(run.replans) - {OBJECTIVE_CHANGED})
    # What had a plan that failed needs another plan: a model that answers by itself would pass over the failure.
    planning = "always" if failed else run.mandate.planning
    agent = run.agent.model_copy(update={"planning": planning, "budget": dict(run.mandate.budget)})
    route = choose(run.request, binding, agent, has_model=run.has_model)
    events = [
        event(
            "route.chosen",
            {"binding": canon.encode(binding.to_data())},
            route=route.route,
            score=route.score,
            weights=[item.name for item in route.weights if item.counted],
            playbook=binding.playbook or "",
            metric=binding.metric or "",
            # What failed is not looked up again: a replan needs another plan.
            look_up=route.route == "orchestrated" and not run.replay_of and not failed,
            reason=route.reason,
        )
    ]
    if route.route == "clarify" and binding.question is not None:
        events.append(ends.ask("bind", binding.question))
    elif route.route == "none":
        told = nobody_plans(run.capabilities)
        events.append(ends.end(Phase.FAILED, told.code, told.advice, next_owner="person"))
    return events


def cache_replied(run: Run, stimulus: CacheReplied) -> list[Event]:
    """A hit skips planning, never the gate; what is stale, or does not hold any more, is not served."""
    if run.cache != "asked":
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} did not ask the plan cache.")
    if stimulus.outcome == "hit" and stimulus.plan is not None:
        playbook = _playbook(run)
        plan = stimulus.plan.model_copy(
            update={
                "plan_id": f"p-{run.run_id}",
                "version": next_version(run),
                "objective": run.request.text,  # the same words, perhaps in other letters
                "origin": "cache",
                "provenance": Provenance(),
            }
        )
        if admission.refused(run, plan) is None:
            hit = event("plan.cache_hit", playbook=playbook)
            return [hit, *drafted_plan(run, plan, playbook, stimulus.fingerprints)]
        return [event("plan.cache_stale", reasons=["plan"])]
    if stimulus.outcome == "stale":
        return [event("plan.cache_stale", reasons=list(stimulus.reasons))]
    return [event("plan.cache_miss", tampered=stimulus.tampered)]


def _playbook(run: Run) -> str:
    return (run.binding or Binding()).playbook or ""


def drafted(run: Run, stimulus: Drafted) -> list[Event]:
    """A draft is validated here whoever made it. One that will not do ends the run with everything that is wrong with it,
    save where the plan before still holds."""
    used = thinking.answered(run, stimulus.uses)
    if stimulus.question is None and stimulus.plan is None:
        error = stimulus.error or PlanError("plan.none", "The planner gave no plan.")
        if run.has_model and not run.thinking and error.code in _NO_PLAYBOOK:
            return thinking.ask(run, "plan")  # what no playbook plans, a model may
        return [*used, *_no_plan(run, error)]
    if run.binding is None or run.cache == "asked":
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} did not ask for a plan.")
    if stimulus.question is not None:
        if _goes_on(run):
            return [*used, _kept_plan(run, "plan.asks")]
        return [*used, ends.ask("bind", stimulus.question)]
    assert stimulus.plan is not None
    if run.thinking:
        return [*used, *_of_a_model(run, stimulus)]
    return drafted_plan(run, stimulus.plan, stimulus.playbook or _playbook(run), stimulus.fingerprints)


_NO_PLAYBOOK = frozenset(("plan.no_playbook", "plan.no_alternative"))


def _of_a_model(run: Run, stimulus: Drafted) -> list[Event]:
    """A model's plan is validated like any other. One that may not be is told back, as often as a plan is drafted."""
    assert stimulus.plan is not None
    plan = stimulus.plan.model_copy(update={"plan_id": f"p-{run.run_id}", "version": next_version(run)})
    refusal = admission.refused(run, plan)
    after = thinking.after(run, stimulus.uses)
    if refusal is not None and run.drafts + 1 < DRAFTS_PER_PLAN_MAX and not thinking.lacking(after, "plan"):
        return [_refused(refusal.code, list(refusal.faults)), *thinking.ask(after, "plan")]
    return drafted_plan(run, plan, "", stimulus.fingerprints)


def _goes_on(run: Run) -> bool:
    """Whether the plan before still holds when no other one comes: nothing of it failed, and nobody rejected it."""
    return run.phase is Phase.REPLAN_REQUIRED and run.replan_reason in _STILL_GOOD


_STILL_GOOD = frozenset(("gate.guided", *(f"budget.{name}" for name in COUNTED)))


def _kept_plan(run: Run, code: str) -> Event:
    return event("replan.refused", trigger=run.replan_trigger, code=code, keep=True)


def _no_plan(run: Run, error: DulyError) -> list[Event]:
    """No plan came. What went wrong first is said first: why another plan was needed at all."""
    if not run.replans:
        said = _refused(error.code, list(error.faults))
        return [said, ends.end(Phase.FAILED, error.code, error.advice, next_owner="person")]
    if _goes_on(run):
        return [_kept_plan(run, error.code)]
    refused = event("replan.refused", trigger=run.replan_trigger, code=error.code)
    if run.replan_trigger == "gate_feedback" and error.code == "plan.no_alternative":
        text = "The plan was rejected, and there is no other way to plan this."
        return [refused, ends.end(Phase.FAILED, "gate.rejected", text, next_owner="person")]
    return [refused, ends.end(Phase.FAILED, error.code, _after(run, error.advice), next_owner="person")]


def _after(run: Run, text: str) -> str:
    return f"{run.replan_message} {text}" if run.replan_message else text


def drafted_plan(
    run: Run,
    plan: Plan,
    playbook: str,
    fingerprints: Mapping[str, str] = _NONE,
) -> list[Event]:
    """``plan.drafted``, or the refusal with every fault and what follows from it."""
    plan = plan.model_copy(update={"plan_id": f"p-{run.run_id}", "version": next_version(run)})
    refusal = admission.refused(run, plan)
    if refusal is None and run.replan_reason.startswith("budget.") and _goes_on(run):
        refusal = None if metering.fits(run, plan) else PlanError("replan.not_smaller", "It is no smaller.")
    if refusal is None:
        return [plan_event(plan, playbook, fingerprints)]
    if _goes_on(run):
        return [_kept_plan(run, refusal.code)]
    text = "The plan was refused: " + "; ".join(
        str(fault) for fault in refusal.faults[:DRAFT_FAULTS_TOLD_MAX]
    )
    if not run.replans:
        return [
            _refused(refusal.code, list(refusal.faults)),
            ends.end(Phase.FAILED, refusal.code, text, next_owner="person"),
        ]
    return [
        event("replan.refused", trigger=run.replan_trigger, code=refusal.code),
        ends.end(Phase.FAILED, refusal.code, _after(run, text), next_owner="person"),
    ]


def plan_event(
    plan: Plan,
    playbook: str,
    fingerprints: Mapping[str, str],
    *,
    edited: bool = False,
) -> Event:
    """What says that a plan is there: drafted, or edited by a person."""
    kind = "plan.edited" if edited else "plan.drafted"
    return event(
        kind,
        {"plan": plan.encoded()},
        plan_id=plan.plan_id,
        version=plan.version,
        digest=plan.content_digest(),
        origin=plan.origin,
        provenance=plan.provenance.kind,
        number=plan.provenance.number,
        steps=len(plan.steps),
        playbook=playbook,
        fingerprints=dict(fingerprints),
    )


def _refused(code: str, faults: list[Fault]) -> Event:
    return event(
        "plan.refused",
        {"faults": canon.encode([fault.to_data() for fault in faults])},
        code=code,
        faults=len(faults),
    )
