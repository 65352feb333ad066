"""Where a run waits for a person, what exactly is shown there, and what an approval of it must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..authority.approval import Approval, ApprovedStep
from ..authority.grant import arguments_digest
from ..authority.rendering import GateFacts, render_plan, render_step, shown_digest
from ..authority.tiers import TIERS
from ..plan import refs
from ..plan.plan import Plan, Step
from ..plan.request import Binding
from ..wire import canon
from ..wire.errors import AuthorityError
from ..wire.ids import Digest
from .calls import resolved as resolved
from .events import Event, event
from .moment import Moment
from .run import Run


@dataclass(frozen=True, slots=True)
class GateView:
    """Everything that an approver's program needs: the text, its digest, and the fields of the approval."""

    gate_id: str
    kind: str
    step_id: str | None
    text: str
    shown: Digest
    steps: Mapping[str, ApprovedStep]
    arguments: Mapping[str, Any]
    scope: Digest
    policy: str


def gate_on(run: Run) -> bool:
    """Whether plans and writes wait for a person: by the tier, or since whoever signed the mandate may not approve."""
    return TIERS[run.mandate.tier].plan_gate or not may_approve(run, run.submitter, run.submitter_name)


def may_approve(run: Run, key: str, name: str) -> bool:
    """Whether a key, by id or by its name in the key ring, is among the approvers; where none are named, every key is."""
    approvers = run.policy.approvers
    return not approvers or key in approvers or (bool(name) and name in approvers)


def is_consequential(run: Run, step: Step) -> bool:
    """Whether a step does more than read, reads what is sensitive, or calls a tool that may be gated in every tier; asked
    of descriptor, mandate and policy, not of the plan alone. What a shadow run only writes down is not."""
    descriptor = run.descriptors.get(step.tool or "")
    if is_shadowed(run, step):
        return False
    sensitive = run.policy.sensitive_sources
    return (
        acts(run, step)
        or (descriptor is not None and descriptor.sensitive)
        or any(one.source in sensitive for one in step.inputs.sources)
    )


def is_shadowed(run: Run, step: Step) -> bool:
    """Whether a step is only written down: in a shadow run, whatever does more than read."""
    if not run.mandate.shadow or step.kind != "tool":
        return False
    descriptor = run.descriptors.get(step.tool or "")
    return descriptor is None or not descriptor.reads_only


def needs_plan_gate(run: Run, plan: Plan) -> bool:
    return bool(why_gated(run, plan))


def why_gated(run: Run, plan: Plan) -> str:
    """Why a plan waits for a person, empty where it does not. What a person edited is shown to a person again."""
    if plan.provenance.kind == "edited":
        return "edited"
    if not gate_on(run):
        return ""
    if run.mandate.gate == "always":
        return "always"
    if run.route == "direct":  # what writes has a gate of its own, with its arguments
        newest = plan.steps[-1]
        return "" if acts(run, newest) or not is_consequential(run, newest) else "sensitive"
    if run.settled_scope is not None and not plan.scope.within(run.settled_scope):
        return "wider_scope"
    if any(is_consequential(run, step) for step in plan.steps):
        return "consequential"
    if any(source in run.policy.sensitive_sources for source in plan.scope.sources):
        return "sensitive"
    over = (run.binding or Binding()).estimate_cost > run.policy.cost_line
    return "cost" if over else ""


def acts(run: Run, step: Step) -> bool:
    """Whether a step's dispatch may need an approval that covers it: it writes, or its tool is gated in every tier."""
    descriptor = run.descriptors.get(step.tool or "")
    if step.kind != "tool":
        return False
    return descriptor is None or not descriptor.reads_only or _may_be_gated(run, step.tool or "")


def _may_be_gated(run: Run, tool: str) -> bool:
    return tool in run.mandate.gated_tools or any(gate.tool == tool for gate in run.policy.gates)


def is_gated(run: Run, step: Step) -> bool:
    """Whether a call waits for a person in every tier: by mandate, by policy, or by what the policy's expressions said."""
    tool = step.tool or ""
    if tool in run.mandate.gated_tools or tool in run.policy.gated():
        return True
    return bool(run.policy.expressions(tool)) and run.steps[step.step_id].policy != "free"


def asks_policy(run: Run, step: Step) -> bool:
    """Whether expressions of the policy must be evaluated over this call first."""
    if (step.tool or "") in run.mandate.gated_tools or not run.policy.expressions(step.tool or ""):
        return False
    return not run.steps[step.step_id].policy


def needs_step_gate(run: Run, step: Step, arguments: Any, now_ms: int) -> bool:
    """Whether a person must see the resolved arguments of this step before it may run."""
    if not acts(run, step):
        return False
    writes = not run.reads_only(step.step_id)
    if not is_gated(run, step) and not (writes and gate_on(run)):
        return False
    return covering(run, step, arguments, now_ms) is None


def is_covered(run: Run, step: Step, arguments: Any, now_ms: int) -> bool:
    """Whether a write may run with these arguments: approved exactly so, or named by the mandate of a tier without gates."""
    tool = step.tool or ""
    contract = step.tool_contract
    if needs_step_gate(run, step, arguments, now_ms):
        return False
    return contract.tool is not None and run.mandate.names(tool, contract.tool.descriptor)


def plan_approval_holds(run: Run, now_ms: int) -> bool:
    """Whether a plan that needs an approval has one, under today's policy, that has not expired."""
    if run.plan is None or not needs_plan_gate(run, run.plan):
        return True
    return run.approved and any(
        given.approval.kind == "plan"
        and given.approval.plan == run.plan_digest
        and given.approval.policy == run.digests.get("policy", "")
        and now_ms <= given.approval.expires_ms
        for given in run.approvals
    )


def ask(run: Run, moment: Moment, kind: str, step_id: str | None, why: str, **more: Any) -> Event:
    """``gate.asked`` with an id that no other gate has."""
    parts = [run.run_id, run.plan_digest, kind, step_id or "", moment.fresh]
    gate_id = "g-" + canon.digest("gate", parts)[:16]
    return event(
        "gate.asked", gate=gate_id, gate_kind=kind, step_id=step_id, at_ms=moment.now_ms, why=why, **more
    )


def covering(run: Run, step: Step, arguments: Any, now_ms: int) -> bytes | None:
    """The envelope of an approval that covers exactly these resolved arguments under today's policy, or ``None``."""
    contract = step.tool_contract
    for given in reversed(run.approvals):
        if given.approval.policy != run.digests.get("policy", ""):
            continue
        try:
            given.approval.covers(
                run_id=run.run_id,
                plan=run.plan_digest,
                step_id=step.step_id,
                descriptor=contract.tool.descriptor if contract.tool else "",
                arguments=arguments_digest(arguments),
                template=arguments_digest(contract.arguments),
                now_ms=now_ms,
            )
        except AuthorityError:
            continue
        return given.envelope
    return None


def view(run: Run) -> GateView:
    """What waits at the run's gate. Raises ``AuthorityError`` ``gate.none`` where nothing does."""
    if run.gate is None or run.plan is None:
        if run.approvals or run.rejected_plans:
            raise AuthorityError(
                "gate.already_decided", f"The gate of run {run.run_id} was decided; it is {run.phase}."
            )
        raise AuthorityError("gate.none", f"Run {run.run_id} waits for no approval.")
    scope = canon.digest("scope", run.plan.scope.to_data())
    policy = run.digests.get("policy", "")
    facts = GateFacts(run.run_id, run.gate.gate_id, scope, dict(run.mandate.budget), policy)
    arguments: dict[str, Any] = {}
    if run.gate.kind == "plan":
        steps = {
            step.step_id: approved_template(step) for step in run.plan.steps if is_consequential(run, step)
        }
        text = render_plan(run.plan, run.descriptors, facts, steps, before=run.previous_plan)
    else:
        step = run.step(run.gate.step_id or "")
        arguments = {step.step_id: resolved(run, step)}
        steps = {step.step_id: _resolved_step(step, arguments[step.step_id])}
        text = render_step(
            run.plan, step.step_id, arguments[step.step_id], run.descriptors[step.tool or ""], facts
        )
    return GateView(
        run.gate.gate_id,
        run.gate.kind,
        run.gate.step_id,
        text,
        shown_digest(text),
        steps,
        arguments,
        scope,
        policy,
    )


def check_approval(run: Run, approval: Approval, now_ms: int, approver: str, name: str = "") -> None:
    """Raises ``AuthorityError`` with the code of what keeps an approval from opening the run's gate."""
    if run.gate is None or approval.gate != run.gate.gate_id:
        raise AuthorityError(
            "gate.already_decided", "This gate was decided already, or another one waits now."
        )
    waiting = view(run)
    problems = (
        (
            not may_approve(run, approver, name),
            "approval.not_an_approver",
            "The policy of this package names other approvers: " + ", ".join(run.policy.approvers[:10]) + ".",
        ),
        (approval.run_id != run.run_id, "approval.other_run", f"This approval is for run {approval.run_id}."),
        (
            approval.kind != waiting.kind,
            "approval.other_gate",
            f"This approval is for a {approval.kind} gate.",
        ),
        (now_ms > approval.expires_ms, "approval.expired", "The approval has expired."),
        (approval.plan != run.plan_digest, "approval.other_plan", "The approval is for other plan bytes."),
        (approval.step_id != waiting.step_id, "approval.other_step", "The approval is for another step."),
        (
            _tools(approval.steps) != _tools(waiting.steps),
            "approval.descriptor_changed",
            "The approval is for other tools, or for tools that are described differently now.",
        ),
        (approval.steps != waiting.steps, "approval.args_mismatch", "The approval is for other arguments."),
        (approval.scope != waiting.scope, "approval.scope_changed", "The scope is not the approved one."),
        (
            approval.budget != dict(run.mandate.budget),
            "approval.budget_changed",
            "The budget is not the approved one.",
        ),
        (approval.policy != waiting.policy, "approval.policy_changed", "The policy is not the approved one."),
        (
            approval.shown != waiting.shown,
            "approval.shown_mismatch",
            "Another text was shown than what will be executed.",
        ),
        (
            any(approval.nonce == given.approval.nonce for given in run.approvals),
            "approval.replayed",
            "This approval was used already.",
        ),
    )
    for wrong, code, message in problems:
        if wrong:
            raise AuthorityError(code, message, hint="Look at the gate again and approve what it shows now.")


def _tools(steps: Mapping[str, ApprovedStep]) -> dict[str, tuple[str, str]]:
    return {step_id: (step.tool, step.descriptor) for step_id, step in steps.items()}


def approved_template(step: Step) -> ApprovedStep:
    contract = step.tool_contract
    return ApprovedStep(
        tool=step.tool or "",
        descriptor=contract.tool.descriptor if contract.tool else "",
        arguments=arguments_digest(contract.arguments),
        template=contract.arguments is None or any(True for _ in refs.find(contract.arguments)),
    )


def _resolved_step(step: Step, arguments: Any) -> ApprovedStep:
    contract = step.tool_contract
    return ApprovedStep(
        tool=step.tool or "",
        descriptor=contract.tool.descriptor if contract.tool else "",
        arguments=arguments_digest(arguments),
        template=False,
    )
