"""The approval: what an approver signs. Exactly these plan bytes, or exactly these step arguments."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ..wire.errors import AuthorityError
from ..wire.model import Model
from .document import Document


class ApprovedStep(Model):
    """One consequential step of an approved plan: digest of its argument bytes, or of its argument template.

    ``template`` is true where arguments hold references; such a step still gets a gate with the resolved bytes, unless
    the approval says ``with_references``.
    """

    tool: str
    descriptor: str
    arguments: str
    template: bool


class Approval(Document):
    """Signed by a person. ``plan`` is a content digest, ``shown`` the digest of the very text that was shown."""

    payload_type: ClassVar[str] = "approval"

    v: int = 1
    run_id: str
    gate: str
    kind: Literal["plan", "step"]
    plan: str
    step_id: str | None = None
    steps: dict[str, ApprovedStep] = Field(default_factory=dict)
    with_references: bool = False
    scope: str
    budget: dict[str, int]
    policy: str
    shown: str
    expires_ms: int
    nonce: str

    def covers(
        self,
        *,
        run_id: str,
        plan: str,
        step_id: str,
        descriptor: str,
        arguments: str,
        template: str,
        now_ms: int,
    ) -> None:
        """Raises ``AuthorityError`` with the code of what keeps this approval from covering a dispatch.

        ``arguments`` is the digest of the resolved argument bytes, ``template`` of the arguments as they stand in the
        plan; both are the same where there are no references.
        """
        if self.run_id != run_id:
            raise AuthorityError("approval.other_run", f"This approval is for run {self.run_id}.")
        if now_ms > self.expires_ms:
            raise AuthorityError("approval.expired", "The approval has expired.")
        if self.plan != plan:
            raise AuthorityError("approval.other_plan", "The approval is for other plan bytes.")
        step = self.steps.get(step_id)
        if step is None or (self.kind == "step" and self.step_id != step_id):
            raise AuthorityError("approval.other_step", f"The approval does not name step {step_id}.")
        if step.descriptor != descriptor:
            raise AuthorityError("approval.descriptor_changed", f"{step.tool} is described differently now.")
        if step.template:
            if not self.with_references or step.arguments != template:
                raise AuthorityError(
                    "approval.args_open",
                    f"The arguments of step {step_id} were not resolved when it was approved.",
                )
        elif step.arguments != arguments:
            raise AuthorityError(
                "approval.args_mismatch", f"The arguments of step {step_id} are not the approved ones."
            )
