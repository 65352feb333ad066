"""What a host checks before it runs anything: grants, and for effects the mandate and approval behind them.

The host repeats what harness and executor have checked, because both live in Ray, where any code can act as either. Its
own ground is: public keys that the supervisor gave it, its own description of the package's tools, and its ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from duly.protocol.authority.approval import Approval
from duly.protocol.authority.document import Document
from duly.protocol.authority.grant import Grant, HostClass
from duly.protocol.authority.mandate import Mandate
from duly.protocol.authority.settlement import Settlement
from duly.protocol.authority.signing import key_id
from duly.protocol.authority.tiers import TIERS
from duly.protocol.wire.errors import AuthorityError, DulyError

from .known_tools import KnownTool
from .ledger import Ledger

CLOCK_SKEW_MS = 60_000
HOST_CLASSES: tuple[HostClass, ...] = get_args(HostClass)


class EpochStatement(Document):
    """Signed by the harness when it starts: from now on grants of a lower epoch are void at this host."""

    payload_type = "epoch"

    epoch: int
    host: str


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom a host believes: the harness by these public keys, people by those that ``people`` gives now."""

    harness: Mapping[str, bytes]
    people: Callable[[], Sequence[bytes]]

    @classmethod
    def of(cls, harness: Sequence[bytes], people: Callable[[], Sequence[bytes]]) -> Trust:
        return cls(by_id(harness), people)


def by_id(keys: Sequence[bytes]) -> dict[str, bytes]:
    """Raw public keys by their ids."""
    return {key_id(raw): raw for raw in keys}


@dataclass(slots=True)
class Warrant:
    """What came with a dispatch to justify effects: mandate, approvals, digests of argument templates by nonce."""

    mandate: bytes | None = None
    approvals: Sequence[bytes] = ()
    templates: Mapping[str, str] = field(default_factory=dict)


class Admission:
    """The judgement of one host. Every method raises ``AuthorityError`` with the code of what is not right."""

    def __init__(self, host: HostClass, trust: Trust, ledger: Ledger) -> None:
        self._host = host
        self._trust = trust
        self._ledger = ledger

    def open_grants(self, envelope: bytes) -> list[Grant]:
        """The grants of an envelope that the harness signed."""
        grants, _ = Grant.open_all(envelope, self._trust.harness)
        return grants

    def open_epoch(self, envelope: bytes) -> int:
        """The epoch that the harness takes over with, for this host."""
        statement, _ = EpochStatement.open(envelope, self._trust.harness)
        if statement.host != self._host:
            raise AuthorityError("grant.other_host", f"This statement is for a {statement.host} host.")
        return statement.epoch

    def open_settlement(self, envelope: bytes) -> Settlement:
        """The harness's question about grants. An old harness may not ask: it would void what its successor granted."""
        settlement, _ = Settlement.open(envelope, self._trust.harness)
        if settlement.host != self._host:
            raise AuthorityError("grant.other_host", f"This settlement is for a {settlement.host} host.")
        if settlement.epoch < self._ledger.epoch:
            raise AuthorityError("grant.stale_epoch", f"Epoch {settlement.epoch} is over.")
        return settlement

    def judge(self, grant: Grant, arguments: bytes, tool: KnownTool, now_ms: int) -> None:
        """Everything about a grant but its nonce."""
        grant.check(
            host=self._host,
            arguments=arguments,
            epoch_seen=self._ledger.epoch,
            now_ms=now_ms,
            skew_ms=CLOCK_SKEW_MS,
        )
        descriptor = tool.descriptor
        if tool.digest != grant.descriptor:
            raise AuthorityError(
                "grant.descriptor_changed",
                f"{grant.tool} is described differently here than when it was granted.",
            )
        if descriptor.effect != grant.effect:
            raise AuthorityError("grant.effect_mismatch", f"{grant.tool} is a {descriptor.effect}.")
        if (descriptor.effect == "read") != (self._host != "write"):
            raise AuthorityError(
                "grant.effect_not_here",
                f"A {self._host} host does not run a tool with effect {descriptor.effect}.",
            )
        if grant.deadline_ms < 1 or grant.deadline_ms > descriptor.timeout_seconds * 1_000:
            raise AuthorityError(
                "grant.bad_deadline",
                f"The deadline of {grant.deadline_ms} ms exceeds the {descriptor.timeout_seconds} s of {grant.tool}.",
            )

    def recheck(self, grant: Grant, now_ms: int) -> None:
        """The part that time may have changed while an effect waited for its turn."""
        if grant.epoch < self._ledger.epoch:
            raise AuthorityError(
                "grant.stale_epoch",
                f"This grant is of epoch {grant.epoch}; {self._ledger.epoch} has taken over.",
            )
        if now_ms > grant.expires_ms:
            raise AuthorityError("grant.expired", "This grant has expired while it waited.")

    def justify(
        self, grant: Grant, tool: KnownTool, arguments: str, template: str, warrant: Warrant, now_ms: int
    ) -> None:
        """Whether a person allowed this effect: by the mandate where its tier has no gate, else by an approval too.

        ``arguments`` is the digest of the resolved argument bytes, ``template`` of those that stand in the plan.
        """
        if warrant.mandate is None:
            raise AuthorityError(
                "mandate.missing", f"{grant.tool} has an effect, and no mandate came with its grant."
            )
        people = by_id(self._trust.people())
        mandate, _ = Mandate.open(warrant.mandate, people)
        mandate.check(run_id=grant.run_id, now_ms=now_ms)
        if mandate.issued_ms - CLOCK_SKEW_MS > now_ms:
            raise AuthorityError("mandate.from_the_future", "The mandate was issued in the future.")
        if mandate.package != grant.package:
            raise AuthorityError(
                "mandate.other_package", "The mandate is for another snapshot of the package."
            )
        if not mandate.names(grant.tool, tool.digest):
            raise AuthorityError(
                "mandate.tool_not_named", f"The mandate does not name {grant.tool} as it is now."
            )
        if mandate.shadow:
            raise AuthorityError("mandate.shadow", "A shadow run has no effects.")
        if not TIERS[mandate.tier].plan_gate and grant.tool not in mandate.gated_tools:
            return
        self._approved(grant, tool, arguments, template, warrant.approvals, people, now_ms)

    @staticmethod
    def _approved(
        grant: Grant,
        tool: KnownTool,
        arguments: str,
        template: str,
        approvals: Sequence[bytes],
        people: Mapping[str, bytes],
        now_ms: int,
    ) -> None:
        refusal: DulyError = AuthorityError(
            "approval.missing", f"Nobody has approved step {grant.step_id} with these arguments."
        )
        for envelope in approvals:
            try:
                approval, _ = Approval.open(envelope, people)
                approval.covers(
                    run_id=grant.run_id,
                    plan=grant.plan,
                    step_id=grant.step_id,
                    descriptor=tool.digest,
                    arguments=arguments,
                    template=template,
                    now_ms=now_ms,
                )
            except AuthorityError as why:
                refusal = why  # another approval may cover it; the last reason is told if none does
                continue
            return
        raise refusal
