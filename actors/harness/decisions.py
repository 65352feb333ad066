"""What a person decides about a run: approve, reject, edit, guide, amend, answer, cancel; and what follows from it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from duly.protocol.authority.approval import Approval
from duly.protocol.machine import stimuli
from duly.protocol.machine.run import Run
from duly.protocol.plan.request import new_request
from duly.protocol.plan.validate import parse_plan
from duly.protocol.wire.errors import AuthorityError, RunError
from duly.storage.recovery import Recorded

from .clock import Clock
from .core import HarnessCore
from .fields import Fields, run_named
from .people import People
from .submission import Submission

Answer = Mapping[str, Any]
Follow = Callable[[str, int, Callable[[], Awaitable[None]] | None], AsyncIterator[Answer]]


class Decisions:
    """The front door's requests that carry a person's decision. Each streams the run on to its next stop."""

    def __init__(
        self,
        core: HarnessCore,
        submission: Submission,
        history: Callable[[str], Iterable[Recorded]],
        people: People,
        clock: Clock,
        followed: Follow,
        run: Callable[[str], Run],
    ) -> None:
        self._core = core
        self._submission = submission
        self._history = history
        self._people = people
        self._clock = clock
        self._followed = followed
        self._run = run

    def ops(self) -> dict[str, Callable[[Fields], AsyncIterator[Answer]]]:
        """The requests by name."""
        return {
            "approve": self._approve,
            "reject": self._reject,
            "edit": self._edit,
            "guide": self._guide,
            "amend": self._amend,
            "answer": self._answer,
            "cancel": self._cancel,
        }

    async def _approve(self, fields: Fields) -> AsyncIterator[Answer]:
        run_id = run_named(fields)
        envelope = fields.get("approval")
        if type(envelope) is not bytes:
            raise AuthorityError("approval.malformed", "An approval is a signed document.")
        self._run(run_id)
        try:
            approval, approver = Approval.open(envelope, self._people.keys())
        except AuthorityError as error:
            refused = error
            await self._core.post(
                run_id,
                lambda now, fresh: stimuli.AuthorityRefused(now_ms=now, fresh=fresh, error=refused),
                person=True,
            )
            raise
        name = self._people.name(approver)
        async for answer in self._decided(
            run_id,
            fields,
            lambda now, fresh: stimuli.Approved(
                now_ms=now,
                fresh=fresh,
                approval=approval,
                envelope=envelope,
                approver=approver,
                approver_name=name,
            ),
        ):
            yield answer

    async def _reject(self, fields: Fields) -> AsyncIterator[Answer]:
        gate, feedback = str(fields.get("gate", "")), fields.get("feedback")
        async for answer in self._decided(
            run_named(fields),
            fields,
            lambda now, fresh: stimuli.Rejected(
                now_ms=now, fresh=fresh, gate=gate, feedback=feedback if type(feedback) is str else None
            ),
        ):
            yield answer

    async def _edit(self, fields: Fields) -> AsyncIterator[Answer]:
        plan, gate = parse_plan(fields.get("plan")), str(fields.get("gate", ""))
        async for answer in self._decided(
            run_named(fields),
            fields,
            lambda now, fresh: stimuli.Edited(now_ms=now, fresh=fresh, plan=plan, gate=gate),
        ):
            yield answer

    async def _guide(self, fields: Fields) -> AsyncIterator[Answer]:
        text = new_request(str(fields.get("text", ""))).text
        async for answer in self._decided(
            run_named(fields), fields, lambda now, fresh: stimuli.Guided(now_ms=now, fresh=fresh, text=text)
        ):
            yield answer

    async def _amend(self, fields: Fields) -> AsyncIterator[Answer]:
        run_id = run_named(fields)
        amended = await self._submission.amend(fields, self._run(run_id), self._clock.now_ms())
        async for answer in self._decided(run_id, fields, amended):
            yield answer

    async def _answer(self, fields: Fields) -> AsyncIterator[Answer]:
        text = new_request(str(fields.get("text", ""))).text
        async for answer in self._decided(
            run_named(fields), fields, lambda now, fresh: stimuli.Answered(now_ms=now, fresh=fresh, text=text)
        ):
            yield answer

    async def _cancel(self, fields: Fields) -> AsyncIterator[Answer]:
        reason = str(fields.get("reason", "a person"))[:500]
        async for answer in self._decided(
            run_named(fields),
            fields,
            lambda now, fresh: stimuli.CancelAsked(now_ms=now, fresh=fresh, reason=reason),
        ):
            yield answer

    async def _decided(
        self, run_id: str, fields: Fields, make: Callable[[int, str], stimuli.Stimulus]
    ) -> AsyncIterator[Answer]:
        """A person's decision, and what follows from it up to the next stop."""
        run = self._run(run_id)
        if run_id not in self._core.runs:
            raise RunError("run.ended", f"Run {run_id} has ended: {run.phase}.")
        if fields.get("detach"):
            await self._core.post(run_id, make, person=True)
            yield {"accepted": True, "last": True}
            return
        seen = max((record.seq for record in self._history(run_id)), default=-1)

        async def begin() -> None:
            await self._core.post(run_id, make, person=True)

        async for answer in self._followed(run_id, seen, begin):
            yield answer
