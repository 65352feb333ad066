"""Has models asked: on which terms, with what, and how their word comes back as a stimulus.

The planner asks its model, and the verifier its critic; the harness itself never does. What they were asked and what they
answered comes back with every reply, failed ones too, so that the run's record and budget have it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from duly.protocol.authority.grant import arguments_digest
from duly.protocol.machine import direct, effects, stimuli
from duly.protocol.machine.calls import inputs_named
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome, Stimulus
from duly.protocol.plan import reads
from duly.protocol.plan.model_call import ModelRole, Used
from duly.protocol.plan.plan import Step
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError, ModelError, RunError, error_from_data
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, MODEL_NAMED_SECONDS_MAX
from duly.protocol.wire.model import Model

from ..caller import Caller
from ..model_messages import AskArguments, AskReason, AskTurn, ModelAnswered
from ..model_terms import ModelTerms, heard, told
from .again import AWAY, again
from .packages import Packages

Make = Callable[[int, str], Stimulus]
Recordings = Callable[[str], Sequence[Used]]
log = logging.getLogger("duly")


class ModelHost(Protocol):
    """What the harness wants of a model host: the name of its model, and the end of a run's calls. It never calls a
    model."""

    async def which(self, package: str) -> str: ...
    async def cancel(self, run_id: str, ended_until_ms: int = 0) -> int: ...


class Thinker:
    """``recordings`` gives the calls of models that an earlier run made, for a replay; ``hosts`` are the model hosts, which
    say what is set. A request is taken whether or not an actor is there to plan it, so no actor is asked for that."""

    def __init__(
        self,
        caller: Caller,
        packages: Packages,
        recordings: Recordings,
        hosts: Mapping[ModelRole, ModelHost],
    ) -> None:
        self._caller = caller
        self._packages = packages
        self._recordings = recordings
        self._hosts = hosts

    async def model_of(self, role: ModelRole, package: str) -> str:
        """The model that a role would ask for a package, empty for none. Nobody there to say is none, too."""
        try:
            return await asyncio.wait_for(self._hosts[role].which(package), MODEL_NAMED_SECONDS_MAX)
        except (DulyError, TimeoutError) as error:
            log.warning("the model host %s does not say which model it has: %s", role, error)
            return ""

    async def silence(self, run: Run) -> None:
        """Ends whatever a model still does for a run: it was cancelled, or another harness had asked for it. The hosts
        are told themselves, since an actor may be away; one that is not there works on nothing. Of a run that has ended
        they make no further call, whoever still tries one again; one that goes on asks anew."""
        until_ms = run.mandate.expires_ms if run.phase.ended else 0
        roles: list[ModelRole] = ["planner"] if run.has_model else []
        if run.has_critic:
            roles.append("critic")
        for role in roles:
            try:
                await asyncio.wait_for(
                    self._hosts[role].cancel(run.run_id, until_ms), MODEL_NAMED_SECONDS_MAX
                )
            except (DulyError, TimeoutError) as error:
                log.warning("the model host %s did not cancel run %s: %s", role, run.run_id, error)

    async def models_for(self, package: str, replay_of: str, *, critic: bool) -> tuple[bool, bool]:
        """Whether a run has a model and, where it wants one, a critic: set now, or in the record that is replayed.

        Raises ``RunError`` ``run.not_recorded`` for a replay of a run that asked no model, ``LogError`` for one whose record
        is not whole.
        """
        if not replay_of:
            has_model = bool(await self.model_of("planner", package))
            return has_model, critic and bool(await self.model_of("critic", package))
        purposes = {one.use.purpose for one in self._recordings(replay_of)}
        if not purposes:
            raise RunError(
                "run.not_recorded",
                f"Run {replay_of} asked no model, or there is no such run.",
                hint="Run it again without --replay.",
            )
        return True, critic and "critic" in purposes

    async def withheld(self, run: Run) -> set[str]:
        """The steps whose outputs no model may see."""
        if run.plan is None:
            return set()
        package = (await self._packages.get(run.mandate.package)).package
        return reads.sensitive_steps(package, run.plan, run.descriptors)

    def terms(self, run: Run, tokens_max: int, blobs: list[bytes], seed: str = "") -> ModelTerms:
        """The terms of one order. A replay's answers are appended to ``blobs``."""
        replay = None
        if run.replay_of:
            replay = told(self._recordings(run.replay_of), blobs)
        return ModelTerms(
            run_id=run.run_id,
            mandate=run.mandate_envelope,
            tokens_max=tokens_max,
            seed=int(arguments_digest([run.run_id, seed])[:8], 16),
            replay=replay,
        )

    async def fill(self, run: Run, order: effects.FillArguments) -> Make:
        """The open arguments of a step."""
        step = run.step(order.step_id)
        blobs = [canon.encode(dict(order.inputs))]
        body = AskArguments(
            package=run.mandate.package,
            request=run.request.to_data(),
            step=step.to_data(),
            descriptor=run.descriptors[step.tool or ""].to_data(),
            withheld=_named(step, await self.withheld(run)),
            terms=self.terms(run, order.tokens_max, blobs, str(order.key)),
        )
        value, error, uses = await self._asked(run, body, blobs)
        return lambda now, fresh: stimuli.ArgumentsFilled(
            now_ms=now, fresh=fresh, step_id=order.step_id, arguments=value, error=error, uses=uses
        )

    async def reason(self, run: Run, order: effects.Reason) -> Make:
        """The output of a reason step, as the outcome of a call that no host made."""
        step = run.step(order.step_id)
        inputs = dict(order.inputs)
        blobs = [canon.encode(inputs)]
        body = AskReason(
            package=run.mandate.package,
            step=step.to_data(),
            withheld=_named(step, await self.withheld(run)),
            terms=self.terms(run, order.tokens_max, blobs, str(order.key)),
        )
        value, error, uses = await self._asked(run, body, blobs)
        outcome = StepOutcome(
            step_id=order.step_id,
            attempt=order.attempt,
            wave=order.wave,
            outcome="ok" if error is None else "error",
            code=error.code if error else "",
            message=error.message if error else "",
            transient=error is not None and error.code in AWAY,
            output=None if error else canon.encode(value),
            arguments=arguments_digest(inputs),
            tokens=sum(one.use.tokens for one in uses),
            cost=sum(one.use.cost for one in uses),
            duration_us=sum(one.use.duration_ms for one in uses) * 1000,
        )
        return lambda now, fresh: stimuli.StepsReturned(
            now_ms=now, fresh=fresh, outcomes=[outcome], uses=uses
        )

    async def turn(self, run: Run, order: effects.TakeTurn) -> Make:
        """The next turn of a direct run."""
        descriptors = canon.encode({name: one.to_data() for name, one in run.descriptors.items()})
        secret = await self.withheld(run)
        turns = [_turn(one, one.step_id in secret) for one in direct.turns(run)]
        blobs = [descriptors, canon.encode(turns)]
        body = AskTurn(
            package=run.mandate.package,
            agent=run.agent.name,
            request=run.request.to_data(),
            last=order.last,
            terms=self.terms(run, order.tokens_max, blobs, str(order.key)),
        )
        value, error, uses = await self._asked(run, body, blobs)
        said = value if isinstance(value, dict) else {}
        tool, arguments = said.get("tool", ""), said.get("arguments", {})
        package = (await self._packages.get(run.mandate.package)).package
        sources = reads.inputs_of(package, tool, arguments)
        return lambda now, fresh: stimuli.TurnAnswered(
            now_ms=now,
            fresh=fresh,
            answer=said.get("answer"),
            tool=tool,
            arguments=arguments,
            why=said.get("why", ""),
            sources=sources,
            error=error,
            uses=uses,
        )

    async def _asked(
        self, run: Run, body: Model, blobs: list[bytes]
    ) -> tuple[Any, DulyError | None, list[Used]]:
        """The value of an answer, or what kept it from coming; and the calls that were made."""
        try:
            reply, back = await again(
                lambda: self._caller.ask("planner", body, ModelAnswered, blobs=blobs, run_id=run.run_id)
            )
        except DulyError as error:
            return None, error, []
        uses = heard(reply.uses, back)
        if reply.error is not None:
            return None, error_from_data(reply.error), uses
        if not back:
            return None, ModelError("model.bad_answer", "The planner brought no value."), uses
        return canon.decode(back[0], bytes_max=ARTIFACT_BYTES_MAX), None, uses


def _named(step: Step, steps: Collection[str]) -> list[str]:
    """The names of a step's inputs that come from some steps."""
    return sorted(name for name, source in inputs_named(step).items() if source in steps)


def _turn(turn: direct.TurnTaken, sensitive: bool) -> Mapping[str, Any]:
    output = None if turn.output is None else canon.decode(turn.output, bytes_max=ARTIFACT_BYTES_MAX)
    return {
        "tool": turn.tool,
        "arguments": turn.arguments or {},
        "outcome": turn.outcome,
        "output": output,
        "message": turn.message,
        "sensitive": sensitive,
    }
