"""Stimuli of planning: the submission, the binding, the cache's word, the draft."""

from __future__ import annotations

from collections.abc import Mapping

from ...plan import refs, validate
from ...plan.plan import Plan, Step
from ...plan.request import Binding
from ...plan.route import choose
from ...wire import canon
from ...wire.errors import DulyError, Fault, PlanError
from .. import ends
from ..advance import step_key
from ..events import Event, event
from ..phases import Phase
from ..run import Run
from ..stimuli import Bound, CacheReplied, Drafted, Submitted

_NONE: Mapping[str, str] = {}


def submitted(run: None, stimulus: Submitted) -> list[Event]:
    """A run begins. The plan that a person brought stands in the mandate and needs neither route nor cache."""
    mandate = stimulus.mandate
    first = event(
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
    return [first]


def bring_plan(run: Run, plan: Plan) -> list[Event]:
    """A plan that a person brings: validated like any other, planned by nobody."""
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
    return [chosen, *drafted_plan(run, plan, "")]


def bound(run: Run, stimulus: Bound) -> list[Event]:
    """The route is chosen; a parameter that does not bind asks before anything else."""
    binding = stimulus.binding
    route = choose(
        run.request, binding, run.agent.model_copy(update=_overrides(run)), has_model=run.has_model
    )
    events = [
        event(
            "route.chosen",
            {"binding": canon.encode(binding.to_data())},
            route=route.route,
            score=route.score,
            weights=[item.name for item in route.weights if item.counted],
            playbook=binding.playbook or "",
            metric=binding.metric or "",
            look_up=route.route == "orchestrated",
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


def _overrides(run: Run) -> dict[str, object]:
    return {"planning": run.mandate.planning, "budget": dict(run.mandate.budget)}


def cache_replied(run: Run, stimulus: CacheReplied) -> list[Event]:
    """A hit skips planning, never the gate; what is stale is shown as such and not served."""
    if stimulus.outcome == "hit" and stimulus.plan is not None:
        plan = stimulus.plan.model_copy(
            update={"plan_id": f"p-{run.run_id}", "version": 1, "origin": "cache"}
        )
        if not validate.faults_of(plan, run.descriptors) and plan.content_digest() not in run.rejected_plans:
            return [
                event("plan.cache_hit", playbook=_playbook(run)),
                *drafted_plan(run, plan, _playbook(run)),
            ]
        return [event("plan.cache_stale", reasons=["plan"])]
    if stimulus.outcome == "stale":
        return [event("plan.cache_stale", reasons=stimulus.reasons)]
    return [event("plan.cache_miss", tampered=stimulus.tampered)]


def _playbook(run: Run) -> str:
    return (run.binding or Binding()).playbook or ""


def drafted(run: Run, stimulus: Drafted) -> list[Event]:
    """A draft is validated here whoever made it; faults end the run with all of them named."""
    if stimulus.question is not None:
        return [ends.ask("bind", stimulus.question)]
    if stimulus.plan is None:
        return _no_plan(run, stimulus.error or PlanError("plan.none", "The planner gave no plan."))
    return drafted_plan(run, stimulus.plan, stimulus.playbook or _playbook(run), stimulus.fingerprints)


def _no_plan(run: Run, error: DulyError) -> list[Event]:
    events = []
    if run.phase is Phase.REPLAN_REQUIRED:
        events.append(event("replan.refused", trigger=run.replan_trigger, code=error.code))
        if run.replan_trigger == "gate_feedback" and error.code == "plan.no_alternative":
            text = "The plan was rejected, and there is no other way to plan this."
            return [*events, ends.end(Phase.FAILED, "gate.rejected", text, next_owner="person")]
    else:
        events.append(_refused(error.code, list(error.faults)))
    return [*events, ends.end(Phase.FAILED, error.code, str(error), next_owner="person")]


def drafted_plan(run: Run, plan: Plan, playbook: str, fingerprints: Mapping[str, str] = _NONE) -> list[Event]:
    """``plan.drafted``, or the refusal with every fault and the end of the run."""
    faults = validate.faults_of(plan, run.descriptors, run.mandate.scope)
    code = "plan.refused"
    if not faults:
        code, faults = _moves_refused(run, plan)
    if faults:
        text = "The plan was refused: " + "; ".join(str(fault) for fault in faults[:50])
        refusal = (
            event("replan.refused", trigger=run.replan_trigger, code=code)
            if run.phase is Phase.REPLAN_REQUIRED
            else _refused(code, faults)
        )
        return [refusal, ends.end(Phase.FAILED, code, text, next_owner="person")]
    return [
        event(
            "plan.drafted",
            {"plan": canon.encode(plan.to_data())},
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


def _moves_refused(run: Run, plan: Plan) -> tuple[str, list[Fault]]:
    """The moves that a replan may not make: a rejected plan again, a failed call again, a wider scope."""
    if plan.content_digest() in run.rejected_plans:
        return "plan.already_rejected", [Fault("", "plan.already_rejected", "this plan was rejected before.")]
    if run.phase is not Phase.REPLAN_REQUIRED:
        return "plan.refused", []
    if plan.objective != run.request.text:
        return "replan.objective", [
            Fault("objective", "replan.objective", "only a person amends the objective.")
        ]
    repeats = [
        Fault(f"steps/{index}", "replan.identical", f"{step.step_id} repeats a call that failed.")
        for index, step in enumerate(plan.steps)
        if _literal_key(step) in run.failed_keys
    ]
    return "replan.identical", repeats


def _literal_key(step: Step) -> str:
    arguments = step.tool_contract.arguments
    if step.kind != "tool" or arguments is None or any(True for _ in refs.find(arguments)):
        return ""
    return step_key(step, arguments)
