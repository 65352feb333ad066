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
from ..wire import canon
from ..wire.errors import AuthorityError
from ..wire.ids import Digest
from .calls import resolved as resolved
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
    return TIERS[run.mandate.tier].plan_gate


def is_consequential(run: Run, step: Step) -> bool:
    """Whether a step does more than read, reads what is sensitive, or calls a tool that is gated in every tier; asked of
    descriptor and mandate, not of the plan."""
    descriptor = run.descriptors.get(step.tool or "")
    return acts(run, step) or (descriptor is not None and descriptor.sensitive)


def needs_plan_gate(run: Run, plan: Plan) -> bool:
    if not gate_on(run):
        return False
    return run.mandate.gate == "always" or any(is_consequential(run, step) for step in plan.steps)


def acts(run: Run, step: Step) -> bool:
    """Whether a step's dispatch needs an approval that covers it: it writes, or its tool is gated in every tier."""
    descriptor = run.descriptors.get(step.tool or "")
    if step.kind != "tool":
        return False
    return descriptor is None or not descriptor.reads_only or (step.tool or "") in run.mandate.gated_tools


def needs_step_gate(run: Run, step: Step, arguments: Any, now_ms: int) -> bool:
    """Whether a person must see the resolved arguments of this step before it may run."""
    if not acts(run, step):
        return False
    if not gate_on(run) and (step.tool or "") not in run.mandate.gated_tools:
        return False
    return covering(run, step, arguments, now_ms) is None


def covering(run: Run, step: Step, arguments: Any, now_ms: int) -> bytes | None:
    """The envelope of an approval that covers exactly these resolved arguments, or ``None``."""
    contract = step.tool_contract
    for given in reversed(run.approvals):
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


def check_approval(run: Run, approval: Approval, now_ms: int) -> None:
    """Raises ``AuthorityError`` with the code of what keeps an approval from opening the run's gate."""
    if run.gate is None or approval.gate != run.gate.gate_id:
        raise AuthorityError(
            "gate.already_decided", "This gate was decided already, or another one waits now."
        )
    waiting = view(run)
    problems = (
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
