"""One granted read outside of a plan's levels: a survey, a fingerprint, a probe, a policy's conditions."""

from __future__ import annotations

from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.wire.errors import DulyError, RuntimeFault, ToolError, error_from_data

from ..caller import Caller
from ..messages import CallsRan, RunCalls
from .again import again
from .grants import ReceiptReader, Signer, Wanted


class OneRead:
    """Grants a read for the read host of a node, the harness's own where none is named, each try anew."""

    def __init__(self, caller: Caller, signer: Signer, reader: ReceiptReader, node: str) -> None:
        self._caller = caller
        self._signer = signer
        self._reader = reader
        self._node = node

    async def run(
        self,
        wanted: Wanted,
        *,
        run_id: str,
        package: str,
        plan: str = "",
        rows_max: int = 0,
        node: str = "",
    ) -> StepOutcome:
        """The outcome, which is ``ok``. Raises the error that the call ended with, or ``RuntimeFault``."""

        async def ask() -> StepOutcome:
            granted = self._signer.grant(run_id, package, plan, "read", [wanted], rows_max=rows_max)
            body = RunCalls(
                mode="serial", host="read", grants=granted.envelope, mandate=b"", calls=granted.calls
            )
            ran, blobs = await self._caller.ask(
                "executor", body, CallsRan, blobs=granted.arguments, node=node or self._node, run_id=run_id
            )
            outcome = self._reader.outcomes(granted, ran, blobs, 0)[0]
            if outcome.outcome != "ok" or outcome.output is None:
                raise _error(outcome, ran)
            return outcome

        return await again(ask)


def _error(outcome: StepOutcome, ran: CallsRan) -> DulyError:
    if outcome.outcome in ("lost", "not_started"):
        return RuntimeFault("runtime.host_lost", f"The host brought no result: {outcome.code}.")
    error = next((result.error for result in ran.results if result.error), None)
    if error is not None:
        return error_from_data(error)
    return ToolError(outcome.code or "tool.failed", outcome.message or "The read failed.")
