"""The story of a run: what happened, in order, one sentence an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ..machine.events import Event
from ..machine.run import Run

Facts = Mapping[str, Any]


class Told(Protocol):
    """An event of the record."""

    @property
    def seq(self) -> int: ...
    @property
    def time_ms(self) -> int: ...
    @property
    def event(self) -> Event: ...


def story(run: Run, record: Iterable[Told]) -> list[str]:
    """One sentence for each event that a person would want to know of."""
    return [text for told in record if (text := sentence(told.event))]


def sentence(event: Event) -> str:
    """What one event says to a person, empty where that is nothing."""
    tell = _SENTENCES.get(event.kind)
    return tell(event.facts) if tell is not None else ""


def step_story(record: Iterable[Told], step_id: str) -> list[Told]:
    """The events of one step."""
    return [told for told in record if told.event.facts.get("step_id") == step_id]


_SENTENCES: dict[str, Callable[[Facts], str]] = {
    "run.submitted": lambda f: (
        f"The request was taken for {f['agent']} {f['agent_version']} in tier {f['tier']}."
    ),
    "route.chosen": lambda f: f"Route {f['route']} (score {f['score']}): {f['reason']}.",
    "plan.cache_hit": lambda f: "The plan cache had a plan for this request.",
    "plan.cache_stale": lambda f: f"The cached plan is stale: {', '.join(f['reasons'])} changed.",
    "plan.drafted": lambda f: (
        f"Plan version {f['version']} with {f['steps']} steps was drafted ({f['origin']})."
    ),
    "plan.edited": lambda f: f"A person edited the plan: version {f['version']} with {f['steps']} steps.",
    "guidance.given": lambda f: "A person said what later plans must take into account.",
    "objective.amended": lambda f: "A person amended the request, under a new mandate.",
    "results.imported": lambda f: f"Results of run {f.get('from_run', '')} may be used again.",
    "plan.refused": lambda f: f"A plan was refused with {f['faults']} faults [{f['code']}].",
    "plan.extended": lambda f: f"The model asked for one more call: step {f['step_id']}.",
    "model.called": lambda f: (
        f"The model {f['model']} was asked ({f['purpose']}): "
        + (f"[{f['code']}]." if f["code"] else f"{f['tokens_in'] + f['tokens_out']} tokens.")
    ),
    "step.arguments_filled": lambda f: f"A model filled the arguments of step {f['step_id']}.",
    "direct.call_refused": lambda f: f"A call that the model wanted was refused with {f['faults']} faults.",
    "direct.answered": lambda f: "The model answered by itself; nobody checked it.",
    "gate.asked": lambda f: (
        f"The {f['gate_kind']} gate asked for an approval"
        + (f" of step {f['step_id']}." if f.get("step_id") else ".")
    ),
    "plan.approved": lambda f: f"The plan was approved by key {f['approver']}.",
    "step.approved": lambda f: f"Step {f['step_id']} was approved by key {f['approver']}.",
    "plan.rejected": lambda f: f"The {f['gate_kind']} was rejected.",
    "authority.refused": lambda f: f"An approval was refused [{f['code']}].",
    "input.asked": lambda f: f"A person was asked about {f['parameter']}.",
    "input.given": lambda f: f"The person answered about {f['parameter']}.",
    "step.started": lambda f: (
        f"Step {f['step_id']} started (attempt {f['attempt']}, wave {f['wave']}, {f['mode']})."
    ),
    "step.succeeded": lambda f: (
        f"Step {f['step_id']} had happened, says its probe."
        if f.get("probed")
        else f"Step {f['step_id']} succeeded in {f['duration_us'] / 1000:.1f} ms on {f['node']}."
    ),
    "step.reused": lambda f: f"Step {f['step_id']} reused a result of an earlier plan.",
    "step.failed": lambda f: f"Step {f['step_id']} failed [{f['code']}], then: {f['then']}.",
    "step.skipped": lambda f: f"Step {f['step_id']} was skipped [{f['code']}].",
    "step.checked": lambda f: f"The checks of step {f['step_id']}: {f['outcome']}.",
    "step.outcome_unknown": lambda f: f"Nobody can say whether step {f['step_id']} had its effect.",
    "step.outcome_stated": lambda f: f"A person said of step {f['step_id']}: {f['said']}.",
    "step.probed": lambda f: f"The probe of step {f['step_id']} said: {f['outcome'].replace('_', ' ')}.",
    "policy.judged": lambda f: (
        f"The policy {'wants a person to see' if f['gated'] else 'lets pass'} step {f['step_id']}."
    ),
    "step.late_result": lambda f: f"A late result of step {f['step_id']} was recorded and not applied.",
    "step.shadowed": lambda f: f"Step {f['step_id']} would have run; in a shadow run nothing is changed.",
    "run.stalled": lambda f: f"Nothing can go on with this run now [{f.get('code', '')}].",
    "replan.triggered": lambda f: f"Another plan is needed: {f['trigger']} [{f['code']}].",
    "replan.refused": lambda f: f"Another plan was refused [{f['code']}].",
    "budget.warned": lambda f: f"{f['percent']} % of the budget of {f['name']} is used.",
    "budget.exhausted": lambda f: f"The budget of {f['limit']} {f['name']} is spent.",
    "verification.started": lambda f: "All steps are done; the verifier was asked.",
    "verdict.reached": lambda f: (
        f"Verdict {f['outcome']}: {f['passed']} passed, {f['failed']} failed, {f['not_run']} not run."
    ),
    "run.resumed": lambda f: f"A new harness took over under epoch {f['epoch']}.",
    "run.cancelled": lambda f: "The run was cancelled.",
    "run.ended": lambda f: f"The run ended {f['end']} [{f['reason']}].",
}
