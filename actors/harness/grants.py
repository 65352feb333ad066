"""Signing what may run, and checking what a host says that it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.grant import Grant, HostClass, arguments_bytes, arguments_digest_of
from duly.protocol.authority.receipt import Receipt
from duly.protocol.authority.settlement import effect_nonce
from duly.protocol.authority.signing import key_id
from duly.protocol.machine.effects import Call, Dispatch
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.plan.descriptor import Effect
from duly.protocol.wire.errors import AuthorityError, DulyError, error_from_data
from duly.protocol.wire.limits import GRANT_TTL_SECONDS
from duly.storage.keys import read_public_file

from ..messages import CallsRan, GrantedCall
from .clock import Clock


class HostKeys:
    """The public keys of the hosts of this installation, read again when an unknown one signs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keys: dict[str, bytes] = {}

    def current(self) -> Mapping[str, bytes]:
        found = {}
        for path in sorted(self._folder.glob("*.pub")):
            public = read_public_file(path)
            found[key_id(public)] = public
        self._keys |= found
        return self._keys


@dataclass(frozen=True, slots=True)
class Granted:
    """A signed batch: the envelope, the argument bytes in order, and each grant by its nonce."""

    envelope: bytes
    grants: dict[str, Grant]
    arguments: list[bytes]
    calls: list[GrantedCall]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One call to be granted."""

    step_id: str
    attempt: int
    tool: str
    descriptor: str
    effect: Effect
    arguments: Any
    timeout_seconds: int
    template: bool = False
    template_digest: str = ""
    idempotency_key: str = ""
    rows_max: int = 0

    @classmethod
    def of(cls, call: Call) -> Wanted:
        return cls(
            call.step_id,
            call.attempt,
            call.tool,
            call.descriptor,
            call.effect,
            call.arguments,
            call.timeout_seconds,
            call.template,
            call.template_digest,
            call.idempotency_key,
            call.rows_max,
        )


class Signer:
    """Signs grants with the harness's key under the current epoch."""

    def __init__(self, private: Ed25519PrivateKey, clock: Clock) -> None:
        self._private = private
        self._clock = clock
        self.epoch = 0

    @property
    def private(self) -> Ed25519PrivateKey:
        return self._private

    def grant(
        self,
        run_id: str,
        package: str,
        plan: str,
        host: HostClass,
        wanted: Sequence[Wanted],
        *,
        rows_max: int,
        wave: int = 0,
    ) -> Granted:
        """One envelope over a grant for each wanted call. ``wave`` numbers the dispatch of an effect."""
        grants, arguments, calls = self._made(
            run_id, package, plan, host, wanted, rows_max=rows_max, wave=wave, epoch=self.epoch
        )
        return Granted(Grant.sign_all(list(grants.values()), self._private), grants, arguments, calls)

    def recall(self, run: Run, order: Dispatch) -> Granted:
        """The grants of a dispatch of effects as another harness made them under the run's epoch, to ask about them and
        to read their receipts by. Nothing is signed: they cannot be used."""
        grants, arguments, calls = self._made(
            run.run_id,
            run.mandate.package,
            order.plan_digest,
            "write",
            [Wanted.of(call) for call in order.calls],
            rows_max=0,
            wave=order.wave,
            epoch=run.epoch,
        )
        return Granted(b"", grants, arguments, calls)

    def _made(
        self,
        run_id: str,
        package: str,
        plan: str,
        host: HostClass,
        wanted: Sequence[Wanted],
        *,
        rows_max: int,
        wave: int,
        epoch: int,
    ) -> tuple[dict[str, Grant], list[bytes], list[GrantedCall]]:
        now = self._clock.now_ms()
        grants: dict[str, Grant] = {}
        arguments: list[bytes] = []
        calls: list[GrantedCall] = []
        for index, one in enumerate(wanted):
            data = arguments_bytes(one.arguments)
            grant = Grant(
                run_id=run_id,
                step_id=one.step_id,
                attempt=one.attempt,
                tool=one.tool,
                descriptor=one.descriptor,
                effect=one.effect,
                package=package,
                plan=plan,
                arguments=arguments_digest_of(data),
                template=one.template,
                host=host,
                epoch=epoch,
                issued_ms=now,
                expires_ms=now + GRANT_TTL_SECONDS * 1000,
                deadline_ms=one.timeout_seconds * 1000,
                rows_max=one.rows_max or rows_max,
                idempotency_key=one.idempotency_key,
                nonce=self._nonce(run_id, one, wave, epoch),
            )
            grants[grant.nonce] = grant
            arguments.append(data)
            calls.append(
                GrantedCall(nonce=grant.nonce, blob=index, template=one.template_digest or grant.arguments)
            )
        return grants, arguments, calls

    def _nonce(self, run_id: str, one: Wanted, wave: int, epoch: int) -> str:
        """An effect's nonce can be told from the record, so that its fate can be asked for after a crash."""
        if one.effect == "read":
            return self._clock.fresh()
        return effect_nonce(run_id=run_id, step_id=one.step_id, attempt=one.attempt, wave=wave, epoch=epoch)


class ReceiptReader:
    """Turns what an executor brought back into outcomes; only what a known host signed counts as a result."""

    def __init__(self, keys: HostKeys) -> None:
        self._keys = keys

    def outcomes(
        self, granted: Granted, ran: CallsRan, blobs: Sequence[bytes], wave: int
    ) -> list[StepOutcome]:
        receipts: dict[str, tuple[Receipt, bytes]] = {}
        for envelope in ran.receipts:
            documents, _ = Receipt.open_all(envelope, self._keys.current())
            receipts |= {receipt.grant: (receipt, envelope) for receipt in documents}
        results = {result.nonce: result for result in ran.results}
        found = []
        for nonce, grant in granted.grants.items():
            result = results.get(nonce)
            if result is None:
                found.append(lost(grant, wave, "The executor brought no result."))
                continue
            error = error_from_data(result.error) if result.error else None
            output = blobs[result.blob] if result.blob is not None else None
            found.append(self._one(grant, receipts.get(nonce), output, error, wave, ran.node))
        return found

    def _one(
        self,
        grant: Grant,
        signed: tuple[Receipt, bytes] | None,
        output: bytes | None,
        error: DulyError | None,
        wave: int,
        node: str,
    ) -> StepOutcome:
        code = error.code if error else ""
        if signed is None:
            if code in ("tool.not_started", "runtime.host_unreachable", "runtime.disk_full"):
                return _plain(grant, wave, "not_started", code, error)
            # Refused before anything ran: authority does not get better by trying again.
            return _plain(grant, wave, "error", code or "receipt.missing", error)
        receipt, envelope = signed
        try:
            receipt.check(grant, output, receipt.arguments if grant.template else grant.arguments)
        except AuthorityError as refused:
            return _plain(grant, wave, "error", refused.code, refused)
        kind = receipt.outcome
        code = code or receipt.code
        if code in ("tool.not_started", "tool.cancelled"):
            return _plain(grant, wave, "not_started", code, error)
        if code == "tool.worker_lost":
            return _plain(grant, wave, "lost", code, error)
        return StepOutcome(
            step_id=grant.step_id,
            attempt=grant.attempt,
            wave=wave,
            outcome=kind,
            code=code,
            message=error.message if error else "",
            transient=receipt.transient,
            output=output if kind == "ok" else None,
            receipt=envelope,
            arguments=receipt.arguments,
            host=receipt.host,
            node=node,
            started_ms=receipt.started_ms,
            ended_ms=receipt.ended_ms,
            duration_us=receipt.duration_us,
            rows=receipt.rows_scanned,
            truncated=receipt.truncated,
            fingerprints=dict(receipt.fingerprints),
        )


def lost(grant: Grant, wave: int, message: str) -> StepOutcome:
    """The outcome of a call of which nobody brought word."""
    return StepOutcome(
        step_id=grant.step_id,
        attempt=grant.attempt,
        wave=wave,
        outcome="lost",
        code="tool.lost",
        message=message,
    )


def _plain(grant: Grant, wave: int, outcome: Any, code: str, error: DulyError | None) -> StepOutcome:
    return StepOutcome(
        step_id=grant.step_id,
        attempt=grant.attempt,
        wave=wave,
        outcome=outcome,
        code=code,
        message=error.message if error else "",
    )
