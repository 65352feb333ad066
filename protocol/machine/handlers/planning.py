"""Stimuli of planning: the submission, the binding, the cache's word, the draft."""

from __future__ import annotations

from collections.abc import Mapping

from ...plan.plan import Plan
from ...plan.request import Binding
from ...plan.route import choose
from ...wire import canon
from ...wire.errors import DulyError, Fault, PlanError, RunError
from .. import admission, ends
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
        },
        agent=mandate.agent,
        agent_version=mandate.agent_version,
        package=mandate.package,
        tier=mandate.tier,
        submitter=stimulus.submitter,
        has_model=stimulus.has_model,
        digests=dict(stimulus.digests),
        epoch=stimulus.epoch,
        at_ms=stimulus.now_ms,
    )


def bring_plan(run: Run, plan: Plan) -> list[Event]:
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
    return [chosen, *drafted_plan(run, brought, "")]


def bound(run: Run, stimulus: Bound) -> list[Event]:
    """The route is chosen; a parameter that does not bind asks before anything else."""
    if run.binding is not None:
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} is bound already.")
    binding = stimulus.binding
    agent = run.agent.model_copy(
        update={"planning": run.mandate.planning, "budget": dict(run.mandate.budget)}
    )
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
            look_up=route.route == "orchestrated" and not run.replans,
            reason=route.reason,
        )
    ]
    if route.route == "clarify" and binding.question is not None:
        events.append(ends.ask("bind", binding.question))
    elif route.route in ("none", "direct"):
        can = "; ".join(run.capabilities) or "nothing without a model"
        text = f"No playbook of this package matches the request, and no model is set. It can: {can}."
        events.append(ends.end(Phase.FAILED, "model.none", text, next_owner="person"))
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
            }
        )
        if admission.refused(run, plan) is None:
            return [event("plan.cache_hit", playbook=playbook), *drafted_plan(run, plan, playbook)]
        return [event("plan.cache_stale", reasons=["plan"])]
    if stimulus.outcome == "stale":
        return [event("plan.cache_stale", reasons=list(stimulus.reasons))]
    return [event("plan.cache_miss", tampered=stimulus.tampered)]


def _playbook(run: Run) -> str:
    return (run.binding or Binding()).playbook or ""


def drafted(run: Run, stimulus: Drafted) -> list[Event]:
    """A draft is validated here whoever made it; faults end the run with all of them named."""
    if stimulus.question is None and stimulus.plan is None:
        return _no_plan(run, stimulus.error or PlanError("plan.none", "The planner gave no plan."))
    if run.binding is None or run.cache == "asked":
        raise RunError("run.not_waiting_for_that", f"Run {run.run_id} did not ask for a plan.")
    if stimulus.question is not None:
        return [ends.ask("bind", stimulus.question)]
    assert stimulus.plan is not None
    return drafted_plan(run, stimulus.plan, stimulus.playbook or _playbook(run), stimulus.fingerprints)


def _no_plan(run: Run, error: DulyError) -> list[Event]:
    events = []
    if run.replans:
        events.append(event("replan.refused", trigger=run.replan_trigger, code=error.code))
        if run.replan_trigger == "gate_feedback" and error.code == "plan.no_alternative":
            text = "The plan was rejected, and there is no other way to plan this."
            return [*events, ends.end(Phase.FAILED, "gate.rejected", text, next_owner="person")]
    else:
        events.append(_refused(error.code, list(error.faults)))
    return [*events, ends.end(Phase.FAILED, error.code, str(error), next_owner="person")]


def drafted_plan(run: Run, plan: Plan, playbook: str, fingerprints: Mapping[str, str] = _NONE) -> list[Event]:
    """``plan.drafted``, or the refusal with every fault and the end of the run."""
    plan = plan.model_copy(update={"plan_id": f"p-{run.run_id}", "version": next_version(run)})
    refusal = admission.refused(run, plan)
    if refusal is not None:
        text = "The plan was refused: " + "; ".join(str(fault) for fault in refusal.faults[:50])
        said = (
            event("replan.refused", trigger=run.replan_trigger, code=refusal.code)
            if run.replans
            else _refused(refusal.code, list(refusal.faults))
        )
        return [said, ends.end(Phase.FAILED, refusal.code, text, next_owner="person")]
    return [
        event(
            "plan.drafted",
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
    ]


def _refused(code: str, faults: list[Fault]) -> Event:
    return event(
        "plan.refused",
        {"faults": canon.encode([fault.to_data() for fault in faults])},
        code=code,
        faults=len(faults),
    )
