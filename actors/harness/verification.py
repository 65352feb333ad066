"""The harness's side of verification: it carries outputs to the verifier and signs the reads that it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.authority.grant import arguments_bytes
from duly.protocol.machine import effects, gates, stimuli
from duly.protocol.machine.run import DONE, GONE, Run
from duly.protocol.machine.stimuli import Stimulus
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError, PlanError
from duly.protocol.wire.limits import VERIFICATIONS_KEPT_MAX

from ..caller import Caller
from ..messages import AskJudgement, AskReads, GrantedRead, JudgementGiven, ReadsNamed, StepOutput
from ..model_terms import heard
from .again import again
from .grants import Granted, Signer, Wanted
from .packages import Packages
from .thinker import Thinker

Make = Callable[[int, str], Stimulus]


@dataclass(frozen=True, slots=True)
class _Carried:
    """What was sent to the verifier about these outputs of this plan."""

    plan: Plan | None
    outputs: Mapping[str, bytes]
    steps: list[StepOutput]
    blobs: list[bytes]


class Verification:
    def __init__(self, caller: Caller, signer: Signer, packages: Packages, thinker: Thinker) -> None:
        self._caller = caller
        self._signer = signer
        self._packages = packages
        self._thinker = thinker
        self._carried: dict[str, _Carried] = {}

    async def prepare(self, run: Run) -> Make:
        """Which reads the verifier wants for its judgement."""

        async def ask() -> Make:
            reads = await self._wanted(run, None)
            return lambda now, fresh: stimuli.ReadsWanted(now_ms=now, fresh=fresh, reads=reads)

        return await self._again(ask)

    async def prepare_checks(self, run: Run, order: effects.PrepareChecks) -> Make:
        """Which reads it wants to check some steps, before something that writes depends on them."""

        async def ask() -> Make:
            reads = await self._wanted(run, list(order.step_ids))
            return lambda now, fresh: stimuli.ReadsWanted(
                now_ms=now, fresh=fresh, reads=reads, purpose="checks"
            )

        return await self._again(ask, lambda error: _unchecked(order.step_ids, error))

    async def _wanted(self, run: Run, only: list[str] | None) -> list[dict[str, Any]]:
        steps, blobs = self._outputs(run)
        body = AskReads(package=run.mandate.package, steps=steps, only=only, stated=sorted(stated(run)))
        reply, _ = await self._caller.ask("verifier", body, ReadsNamed, blobs=blobs, run_id=run.run_id)
        return reply.reads

    async def judge(self, run: Run, order: effects.Judge) -> Make:
        """The judgement, its reads granted one by one for the verifier's own host."""

        async def ask() -> Make:
            tokens_max = order.tokens_max if order.critic else None
            reply, back = await self._judgement(run, order.reads, None, order.rows_max, tokens_max)
            uses = heard(reply.uses, back)
            return lambda now, fresh: stimuli.Judged(
                now_ms=now,
                fresh=fresh,
                outcome=reply.outcome,
                reason=reply.reason,
                checks=reply.checks,
                rows=reply.rows,
                uses=uses,
            )

        return await self._again(ask)

    async def check(self, run: Run, order: effects.CheckSteps) -> Make:
        """Schema, rules and recomputation of some steps, before something that writes depends on them."""

        async def ask() -> Make:
            reply, _ = await self._judgement(run, order.reads, list(order.step_ids), order.rows_max)
            return lambda now, fresh: stimuli.ChecksReturned(
                now_ms=now, fresh=fresh, checks=reply.checks, rows=reply.rows
            )

        return await self._again(ask, lambda error: _unchecked(order.step_ids, error))

    async def _judgement(
        self,
        run: Run,
        reads: Sequence[dict[str, Any]],
        only: list[str] | None,
        rows_max: int,
        critic_tokens: int | None = None,
    ) -> tuple[JudgementGiven, list[bytes]]:
        """The verifier's answer and its blobs; with ``critic_tokens`` the critic is asked, for at most so many."""
        steps, blobs = self._outputs(run)
        granted = await self._grant(run, reads, rows_max) if reads else None
        named = []
        if granted is not None:
            start = len(blobs)
            blobs += granted.arguments
            named = [
                GrantedRead(read_id=str(read["read_id"]), nonce=call.nonce, blob=start + call.blob)
                for read, call in zip(reads, granted.calls, strict=True)
            ]
        terms = None
        if critic_tokens is not None:
            terms = self._thinker.terms(run, critic_tokens, blobs, "critic")
        body = AskJudgement(
            package=run.mandate.package,
            steps=steps,
            only=only,
            missing=[name for name, state in run.steps.items() if state.status in GONE],
            stated=sorted(stated(run)),
            grants=granted.envelope if granted else None,
            reads=named,
            withheld=sorted(await self._thinker.withheld(run)) if terms else [],
            terms=terms,
        )
        return await self._caller.ask("verifier", body, JudgementGiven, blobs=blobs, run_id=run.run_id)

    async def _grant(self, run: Run, reads: Sequence[dict[str, Any]], rows_max: int) -> Granted:
        descriptors = (await self._packages.get(run.mandate.package)).descriptors
        wanted = [
            Wanted(
                step_id=f"verify-{index}",
                attempt=1,
                tool=str(read["tool"]),
                descriptor=descriptors[str(read["tool"])].digest(),
                effect="read",
                arguments=read["arguments"],
                timeout_seconds=descriptors[str(read["tool"])].timeout_seconds,
            )
            for index, read in enumerate(reads)
        ]
        return self._signer.grant(
            run.run_id, run.mandate.package, run.plan_digest, "verify", wanted, rows_max=rows_max
        )

    def _outputs(self, run: Run) -> tuple[list[StepOutput], list[bytes]]:
        """Plan, descriptors, and every finished step's output and resolved arguments.

        A run is verified in two messages with the same material: it is kept from the first to the second.
        """
        known = self._carried.pop(run.run_id, None)
        if known is not None and known.outputs is run.outputs and known.plan is run.plan:
            return known.steps, known.blobs
        steps, blobs = self._material(run)
        if run.verification == "prepare":
            self._carried[run.run_id] = _Carried(run.plan, run.outputs, steps, [*blobs])
            while len(self._carried) > VERIFICATIONS_KEPT_MAX:
                del self._carried[next(iter(self._carried))]
        return steps, blobs

    def _material(self, run: Run) -> tuple[list[StepOutput], list[bytes]]:
        assert run.plan is not None
        descriptors = canon.encode({name: d.to_data() for name, d in run.descriptors.items()})
        blobs = [run.plan.encoded(), descriptors]
        steps = []
        for step in map(
            run.step, [one.step_id for one in run.plan.steps]
        ):  # with arguments that a model filled
            if run.steps[step.step_id].status not in DONE:
                continue
            try:
                arguments = arguments_bytes(gates.resolved(run, step))
            except PlanError:
                arguments = arguments_bytes(None)
            steps.append(StepOutput(step_id=step.step_id, output=len(blobs), arguments=len(blobs) + 1))
            blobs += [run.outputs[step.step_id], arguments]
        return steps, blobs

    async def _again(
        self, ask: Callable[[], Awaitable[Make]], give_up: Callable[[DulyError], Make] | None = None
    ) -> Make:
        try:
            return await again(ask)
        except DulyError as error:
            failed = error
        if give_up is not None:
            return give_up(failed)
        return lambda now, fresh: stimuli.VerifierLost(now_ms=now, fresh=fresh, error=failed)


def stated(run: Run) -> set[str]:
    """The steps of which only a person's word says that they happened: what stands for their output is none."""
    return {name for name, state in run.steps.items() if state.status in DONE and state.then == "stated"}


def _unchecked(step_ids: Sequence[str], error: DulyError) -> Make:
    """Nobody could check these steps: what writes must not build on them."""
    checks = [
        {
            "check_id": f"verifier:{name}",
            "kind": "rule",
            "step_id": name,
            "outcome": "not_run",
            "reason": error.message,
            "mandatory": True,
        }
        for name in step_ids
    ]
    return lambda now, fresh: stimuli.ChecksReturned(now_ms=now, fresh=fresh, checks=checks)
