"""A gate on this side of the front door: the text is rendered again from the bytes, then shown, then signed.

The harness says what waits and how it reads. Nothing of that is believed: plan digest, argument digests, scope and the
text itself are computed here once more, and an approval is signed only over what was printed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.approval import Approval, ApprovedStep
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.authority.rendering import GateFacts, acts, render_plan, render_step, shown_digest
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from duly.protocol.wire.errors import AuthorityError
from duly.protocol.wire.limits import APPROVAL_TTL_SECONDS

_HINT = "Sign nothing. Stop the runtime with `duly down`, start it again and look at `duly inbox`."


@dataclass(frozen=True, slots=True)
class WaitingGate:
    """What waits for a person, checked: ``text`` was rendered here from ``plan`` and ``arguments``."""

    run_id: str
    gate: str
    kind: str
    step_id: str | None
    plan: Plan
    steps: Mapping[str, ApprovedStep]
    facts: GateFacts
    text: str
    descriptors: Mapping[str, Descriptor]

    @property
    def has_references(self) -> bool:
        """Whether some approved step's arguments are not known yet."""
        return any(step.template for step in self.steps.values())


def read(run_id: str, answer: Mapping[str, Any]) -> WaitingGate:
    """The gate of the harness's answer to ``gate``.

    Raises ``AuthorityError`` ``gate.bytes_mismatch`` or ``gate.text_mismatch`` where the answer contradicts itself:
    somebody would have the person sign something else than what is shown.
    """
    plan = Plan.from_data(
        answer["plan"], error=AuthorityError, code="gate.malformed", what="The plan of this gate"
    )
    before = answer.get("before")
    earlier = (
        None
        if before is None
        else Plan.from_data(
            before, error=AuthorityError, code="gate.malformed", what="The plan before this one"
        )
    )
    descriptors = {
        name: Descriptor.from_data(data, error=AuthorityError, code="gate.malformed", what="A descriptor")
        for name, data in answer["descriptors"].items()
    }
    steps = {
        name: ApprovedStep.from_data(
            data, error=AuthorityError, code="gate.malformed", what="A step of this gate"
        )
        for name, data in answer["steps"].items()
    }
    facts = GateFacts(
        run_id, answer["gate"], answer["scope_digest"], dict(answer["budget"]), answer["policy_digest"]
    )
    _check_bytes(answer, plan, steps, descriptors)
    if answer["kind"] == "plan":
        text = render_plan(plan, descriptors, facts, steps, before=earlier)
    else:
        tool = plan.step(answer["step_id"]).tool or ""
        if tool not in descriptors:
            raise AuthorityError("gate.malformed", f"The gate does not describe the tool {tool}.", hint=_HINT)
        text = render_step(
            plan, answer["step_id"], answer["arguments"][answer["step_id"]], descriptors[tool], facts
        )
    if text != answer["text"] or shown_digest(text) != answer["shown"]:
        raise AuthorityError(
            "gate.text_mismatch", "The text that would be signed is not what these bytes read as.", hint=_HINT
        )
    return WaitingGate(
        run_id, answer["gate"], answer["kind"], answer["step_id"], plan, steps, facts, text, descriptors
    )


def approval(gate: WaitingGate, *, with_references: bool, now_ms: int | None = None) -> Approval:
    """The approval of exactly what ``gate.text`` shows."""
    now = int(time.time() * 1000) if now_ms is None else now_ms
    return Approval(
        run_id=gate.run_id,
        gate=gate.gate,
        kind="plan" if gate.kind == "plan" else "step",
        plan=gate.plan.content_digest(),
        step_id=gate.step_id,
        steps=dict(gate.steps),
        with_references=with_references,
        scope=gate.facts.scope,
        budget=dict(gate.facts.budget),
        policy=gate.facts.policy,
        shown=shown_digest(gate.text),
        expires_ms=now + APPROVAL_TTL_SECONDS * 1000,
        nonce=secrets.token_hex(16),
    )


def signed(gate: WaitingGate, key: Ed25519PrivateKey, *, with_references: bool) -> bytes:
    """The signed approval, as it goes to the harness."""
    return approval(gate, with_references=with_references).sign(key)


def _check_bytes(
    answer: Mapping[str, Any],
    plan: Plan,
    steps: Mapping[str, ApprovedStep],
    descriptors: Mapping[str, Descriptor],
) -> None:
    """Every digest of the answer against the bytes that it is about."""
    wrong = []
    if answer["plan_digest"] != plan.content_digest():
        wrong.append("the plan's digest")
    if answer["scope_digest"] != canon.digest("scope", plan.scope.to_data()):
        wrong.append("the scope's digest")
    if answer["kind"] not in ("plan", "step") or (
        answer["kind"] == "step" and set(steps) != {answer["step_id"]}
    ):
        wrong.append("the kind of the gate")
    known = {step.step_id: step for step in plan.steps}
    if answer["kind"] == "plan":
        # A step that writes and is left out would run under an approval that never named it.
        wrong += [
            f"step {one.step_id}, which acts and is not named"
            for one in plan.steps
            if acts(one, descriptors.get(one.tool or "")) and one.step_id not in steps
        ]
    for name, approved in steps.items():
        step = known.get(name)
        if step is None or step.tool_contract.tool is None:
            wrong.append(f"step {name}")
            continue
        final = answer["kind"] == "step"
        arguments = answer["arguments"].get(name) if final else step.tool_contract.arguments
        if approved.arguments != arguments_digest(arguments):
            wrong.append(f"the arguments of step {name}")
        if approved.tool != step.tool or approved.descriptor != step.tool_contract.tool.descriptor:
            wrong.append(f"the tool of step {name}")
    if wrong:
        raise AuthorityError(
            "gate.bytes_mismatch", f"The gate contradicts its own bytes: {', '.join(wrong)}.", hint=_HINT
        )
