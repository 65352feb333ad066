"""Performs orders: asks the right actor, and brings its answer back as a stimulus.

Nothing here decides. An order whose actor went away is asked again a bounded number of times where asking is harmless
(planning, cache, verification); a dispatch is never repeated here: its calls come back as lost, and the machine judges.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from duly.protocol.authority.plan_entry import PlanEntry
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.corrections import corrections
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import Stimulus
from duly.protocol.plan.cache_entry import facts_of
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, Question
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError, error_from_data
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX

from ..caller import Caller
from ..messages import (
    AskBinding,
    AskDraft,
    BindingFound,
    CancelRun,
    Done,
    LookedUp,
    LookUp,
    PlanDrafted,
    StoreEntry,
)
from ..model_terms import heard
from .again import again, once
from .clock import Clock
from .dispatcher import Dispatcher
from .grants import Signer
from .packages import Packages
from .questions import Questions
from .thinker import Thinker
from .verification import Verification

Make = Callable[[int, str], Stimulus]
Post = Callable[[str, Make], object]
log = logging.getLogger("duly")


class Performer:
    def __init__(
        self,
        *,
        caller: Caller,
        clock: Clock,
        signer: Signer,
        packages: Packages,
        dispatcher: Dispatcher,
        verification: Verification,
        questions: Questions,
        thinker: Thinker,
    ) -> None:
        self._caller = caller
        self._clock = clock
        self._signer = signer
        self._packages = packages
        self._dispatcher = dispatcher
        self._verification = verification
        self._questions = questions
        self._thinker = thinker
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[tuple[str, ...], asyncio.TimerHandle] = {}
        self.post: Post = lambda run_id, make: None
        self.verdict_seq: Callable[[str], int] = lambda run_id: 0

    def perform(self, run: Run, order: effects.Order) -> None:
        """Starts an order; its answer arrives in the mailbox."""
        if isinstance(order, effects.Wake):
            self._wake(run, order)
            return
        task = asyncio.get_running_loop().create_task(self._perform(run, order))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _perform(self, run: Run, order: effects.Order) -> None:
        try:
            await once(lambda: self._one(run, order))
        except DulyError as error:
            # Only orders that nobody waits for end here: the others bring their errors back as stimuli.
            log.error("an order of run %s came to nothing: %s", run.run_id, error)

    async def _one(self, run: Run, order: effects.Order) -> None:
        match order:
            case effects.Bind():
                await self._answer(run, order, self._bind(run, order))
            case effects.LookUpPlan():
                await self._answer(run, order, self._look_up(run, order))
            case effects.Draft():
                await self._answer(run, order, self._draft(run, order))
            case effects.FillArguments():
                await self._answer(run, order, self._thinker.fill(run, order))
            case effects.Reason():
                await self._answer(run, order, self._thinker.reason(run, order))
            case effects.TakeTurn():
                await self._answer(run, order, self._thinker.turn(run, order))
            case effects.Dispatch():
                await self._dispatcher.run(run, order, self.post)
            case effects.Probe():
                await self._answer(run, order, self._questions.probe(run, order))
            case effects.JudgePolicy():
                await self._answer(run, order, self._questions.policy(run, order))
            case effects.PrepareChecks():
                await self._answer(run, order, self._verification.prepare_checks(run, order))
            case effects.CheckSteps():
                await self._answer(run, order, self._verification.check(run, order))
            case effects.PrepareVerification():
                await self._answer(run, order, self._verification.prepare(run))
            case effects.Judge():
                await self._answer(run, order, self._verification.judge(run, order))
            case effects.StorePlan():
                await self._store(run, order)
            case effects.CancelCalls():
                await self._cancel(run)
            case _:
                raise TypeError(order)

    async def _answer(self, run: Run, order: effects.Order, making: Coroutine[Any, Any, Make]) -> None:
        """Posts an answer under the key of its order, so that one to an older question is told apart."""
        make, key = await making, order.key
        self.post(run.run_id, lambda now, fresh: replace(make(now, fresh), order=key))

    async def _bind(self, run: Run, order: effects.Bind) -> Make:
        async def ask() -> Make:
            opened = await self._packages.get(run.mandate.package)
            body = AskBinding(
                package=run.mandate.package,
                agent=run.agent.name,
                request=run.request.to_data(),
                answers=dict(order.answers),
            )
            found, _ = await self._caller.ask(
                "planner", body, BindingFound, blobs=[opened.catalogue], run_id=run.run_id
            )
            binding = Binding.model_validate(found.binding)
            return lambda now, fresh: stimuli.Bound(now_ms=now, fresh=fresh, binding=binding)

        return await self._again(ask, _no_plan)

    async def _draft(self, run: Run, order: effects.Draft) -> Make:
        async def ask() -> Make:
            opened = await self._packages.get(run.mandate.package)
            marks = dict(opened.fingerprints)
            descriptors = canon.encode({name: d.to_data() for name, d in run.descriptors.items()})
            given = [opened.catalogue, descriptors]
            guidance, terms = list(order.guidance), None
            if order.model:
                guidance += corrections(run, await self._thinker.withheld(run))
                terms = self._thinker.terms(run, order.tokens_max, given, str(order.key))
            body = AskDraft(
                package=run.mandate.package,
                agent=run.agent.name,
                request=run.request.to_data(),
                binding=order.binding.to_data(),
                mode=order.mode,
                plan_id=order.plan_id,
                version=order.version,
                replan=order.replan,
                reason=order.reason,
                exclude=list(order.exclude),
                guidance=guidance,
                left=dict(order.left),
                scope=run.mandate.scope.to_data(),
                terms=terms,
            )
            reply, blobs = await self._caller.ask(
                "planner", body, PlanDrafted, blobs=given, run_id=run.run_id
            )
            return _drafted(reply, blobs, marks)

        return await self._again(ask, _no_plan)

    async def _look_up(self, run: Run, order: effects.LookUpPlan) -> Make:
        def miss(error: DulyError) -> Make:
            return lambda now, fresh: stimuli.CacheReplied(now_ms=now, fresh=fresh, outcome="miss")

        async def ask() -> Make:
            facts = {"request": run.request.to_data(), "digests": await self._facts(run, order.binding)}
            marks = dict((await self._packages.get(run.mandate.package)).fingerprints)
            reply, blobs = await self._caller.ask(
                "plan_cache", LookUp(key=order.cache_key, facts=facts), LookedUp, run_id=run.run_id
            )
            plan = Plan.model_validate(canon.decode(blobs[0])) if blobs else None
            return lambda now, fresh: stimuli.CacheReplied(
                now_ms=now,
                fresh=fresh,
                outcome=reply.outcome,
                plan=plan,
                reasons=reply.reasons,
                tampered=reply.tampered,
                fingerprints=marks,
            )

        return await self._again(ask, miss)

    async def _facts(self, run: Run, binding: Binding) -> dict[str, str]:
        opened = await self._packages.get(run.mandate.package)
        playbook = opened.package.playbook_digest(binding.playbook) if binding.playbook else ""
        descriptors = canon.digest("descriptors", {n: d.digest() for n, d in run.descriptors.items()})
        return facts_of(opened.digests(), descriptors, playbook, binding)

    async def _store(self, run: Run, order: effects.StorePlan) -> None:
        """Keeps the plan of a run that passed. A cache that cannot be written costs a draft later, never a run."""
        entry = PlanEntry(
            key=order.cache_key,
            plan=canon.encode(order.plan.to_data()),
            plan_digest=order.plan.content_digest(),
            request=canon.encode(run.request.to_data()),
            facts=await self._facts(run, order.binding),
            run_id=run.run_id,
            verdict_seq=self.verdict_seq(run.run_id),
            created_ms=self._clock.now_ms(),
        )
        body = StoreEntry(key=order.cache_key, entry=entry.sign(self._signer.private))
        await self._caller.ask("plan_cache", body, Done, run_id=run.run_id)

    async def _cancel(self, run: Run) -> None:
        """Tells every executor, and the model hosts; one that is away runs nothing that it could end."""
        body = CancelRun(run_id=run.run_id, ended=run.phase.ended)
        told = (
            self._caller.ask("executor", body, Done, index=index, run_id=run.run_id)
            for index in range(self._caller.count("executor"))
        )
        for problem in await asyncio.gather(*told, return_exceptions=True):
            if isinstance(problem, BaseException):
                log.warning("an executor did not cancel run %s: %s", run.run_id, problem)
        await self._thinker.silence(run)

    def _wake(self, run: Run, order: effects.Wake) -> None:
        """Sets a timer; one of the same key is set anew. A timer that nobody needs any more changes nothing."""
        run_id = run.run_id  # the timer of a run that has ended must not keep it in memory
        key = (run_id, *order.key)
        before = self._timers.pop(key, None)
        if before is not None:
            before.cancel()
        wait = max(0, order.at_ms - self._clock.now_ms()) / 1000

        def ring() -> None:
            self._timers.pop(key, None)
            self.post(run_id, lambda now, fresh: stimuli.TimePassed(now_ms=now, fresh=fresh))

        self._timers[key] = asyncio.get_running_loop().call_later(wait, ring)

    async def _again(self, ask: Callable[[], Awaitable[Make]], give_up: Callable[[DulyError], Make]) -> Make:
        try:
            return await again(ask)
        except DulyError as error:
            return give_up(error)


def _no_plan(error: DulyError) -> Make:
    return lambda now, fresh: stimuli.Drafted(now_ms=now, fresh=fresh, error=error)


def _drafted(reply: PlanDrafted, blobs: list[bytes], marks: dict[str, str]) -> Make:
    plan = (
        Plan.model_validate(canon.decode(blobs[0], bytes_max=ARTIFACT_BYTES_MAX)) if reply.has_plan else None
    )
    return lambda now, fresh: stimuli.Drafted(
        now_ms=now,
        fresh=fresh,
        plan=plan,
        playbook=reply.playbook,
        fingerprints=marks,
        question=Question.model_validate(reply.question) if reply.question else None,
        error=error_from_data(reply.error) if reply.error else None,
        uses=heard(reply.uses, blobs),
    )
