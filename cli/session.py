"""The runtime from Python: the same front door, mandates and signatures as the command line's.

    with Runtime() as runtime:
        result = runtime.run("examples/flights", "How many flights departed from JFK in March?")
        print(result.phase, result.statements[0].text)

Every method has an async twin of the same name with an ``a`` before it (``arun``), which runs it in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request, new_request
from duly.protocol.wire.errors import LogError, RequestError
from duly.storage.fsck import Report as LogReport
from duly.storage.fsck import verify_journal
from duly.storage.home import VARIABLE, Home

from . import continuation, mandate, person
from . import follow as following
from .gate import WaitingGate
from .log_key import verifier_of
from .mandate import Order
from .outcome import Event as Event
from .outcome import Result as Result
from .outcome import Statement as Statement
from .package import open_package
from .records import Records, last_seq, run_recorded
from .run import submission
from .start import opened


class _Listener:
    """A screen that shows nothing and passes events on."""

    def __init__(self, on_event: Callable[[Event], None] | None) -> None:
        self._on_event = on_event

    def answer(self, message: Mapping[str, Any]) -> None:
        if self._on_event is not None and "event" in message:
            self._on_event(message["event"])

    def gate(self, gate: WaitingGate) -> None:
        return None

    def waits(self, gate: WaitingGate) -> None:
        return None

    def say(self, text: str) -> None:
        return None

    def idle(self) -> None:
        return None

    def result(self, result: Mapping[str, Any]) -> None:
        return None


class Runtime:
    """A connection to the runtime of a data directory, which is started where none runs.

    ``home`` is the data directory, by default ``$DULY_HOME`` or the platform's. Every method raises ``DulyError`` with
    its stable ``code``.
    """

    def __init__(self, home: str | Path | None = None) -> None:
        self._home = Home.resolve() if home is None else Home.resolve({VARIABLE: str(home)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        return None

    def run(
        self,
        package: str | Path | None = None,
        request: str | Request | None = None,
        *,
        agent: str | None = None,
        tier: str | None = None,
        planning: str | None = None,
        gate: str | None = None,
        schedule: str | None = None,
        budget: Mapping[str, int] | None = None,
        plan: Plan | None = None,
        shadow: bool = False,
        from_run: str | None = None,
        approve: bool = False,
        on_event: Callable[[Event], None] | None = None,
    ) -> Result:
        """Submits a request and follows it to its next stop. ``approve`` signs gates as the submitter (``--yes``).

        With ``from_run`` the request may be left out, and the package too: both are those of that run, and what of its
        results still holds is used again.
        """
        order = Order(agent, tier, planning, gate, schedule, dict(budget or {}), shadow, from_run)
        earlier = None if from_run is None else continuation.earlier_of(self._home, from_run)
        if earlier is not None:
            order, package = continuation.order_after(earlier, order), package or earlier.mandate.package
            request = earlier.request if request is None else request
        if package is None or request is None:
            raise RequestError("request.usage", "A run needs a package and a request, or from_run.")
        asked = new_request(request) if isinstance(request, str) else request
        with opened(self._home) as door:
            opened_package = open_package(door, self._home, str(package))
        if earlier is not None:
            continuation.check_same_package(self._home, earlier, opened_package)
        signed = mandate.draft(opened_package, asked, order, plan)
        follower = self._follower(signed.run_id, on_event, approve=approve)
        result = follower.request("submit", **submission(signed, follower.key(), asked, plan))
        return Result.of(follower.settle(result))

    def approve(
        self, run_id: str, *, with_references: bool = False, on_event: Callable[[Event], None] | None = None
    ) -> Result:
        """Signs what waits at the run's gate, and follows the run on. ``waiting`` gives the text that is signed."""
        follower = self._follower(run_id, on_event)
        follower.with_references = with_references
        return Result.of(follower.approve(follower.waiting_gate()))

    def reject(self, run_id: str, feedback: str | None = None) -> Result:
        """Says no at the run's gate."""
        follower = self._follower(run_id, None)
        waiting = follower.waiting_gate()
        return Result.of(follower.request("reject", run_id=run_id, gate=waiting.gate, feedback=feedback))

    def answer(self, run_id: str, text: str, *, on_event: Callable[[Event], None] | None = None) -> Result:
        """Answers the run's open question, and follows the run on."""
        return Result.of(self._follower(run_id, on_event).request("answer", run_id=run_id, text=text))

    def edit(self, run_id: str, plan: Plan, *, on_event: Callable[[Event], None] | None = None) -> Result:
        """Puts another plan in place of the one that waits; it waits for an approval in turn. ``waiting_plan`` gives the
        one to start from."""
        follower = self._follower(run_id, on_event)
        gate = follower.waiting_gate().gate
        return Result.of(follower.request("edit", run_id=run_id, gate=gate, plan=plan.to_data()))

    def guide(self, run_id: str, text: str, *, on_event: Callable[[Event], None] | None = None) -> Result:
        """Says what every later draft of the run must take into account."""
        said = new_request(text).text
        return Result.of(self._follower(run_id, on_event).request("guide", run_id=run_id, text=said))

    def amend(
        self, run_id: str, request: str | Request, *, on_event: Callable[[Event], None] | None = None
    ) -> Result:
        """Gives the run another request, under a new mandate that is signed here. A text keeps the input parts."""
        run = run_recorded(self._home, run_id)
        continuation.refuse_ended(run)
        asked = new_request(request, list(run.request.parts)) if isinstance(request, str) else request
        follower = self._follower(run.run_id, on_event)
        signed = mandate.amended(run.mandate, asked).sign(follower.key())
        return Result.of(
            follower.request("amend", run_id=run.run_id, mandate=signed, request=asked.to_data())
        )

    def resume(self, run_id: str, *, on_event: Callable[[Event], None] | None = None) -> Result:
        """Asks the runtime to go on with a run that has not ended, and follows it."""
        seen = last_seq(self._home, run_id)
        return Result.of(self._follower(run_id, on_event).request("resume", run_id=run_id, after=seen))

    def waiting_plan(self, run_id: str) -> Plan:
        """The plan at the run's gate."""
        return self._follower(run_id, None).waiting_gate().plan

    def cancel(self, run_id: str, reason: str = "a person") -> Result:
        """Ends a run."""
        return Result.of(self._follower(run_id, None).request("cancel", run_id=run_id, reason=reason))

    def waiting(self, run_id: str) -> str:
        """The text that an approval of the run's gate would sign."""
        return str(self._follower(run_id, None).waiting_gate().text)

    def follow(self, run_id: str, on_event: Callable[[Event], None] | None = None) -> Result:
        """Waits for the run's next stop; events from its beginning on go to ``on_event``."""
        return Result.of(self._follower(run_id, on_event).request("follow", run_id=run_id, after=-1))

    def events(self, run_id: str) -> Iterator[Event]:
        """The recorded events of a run, without a runtime."""
        from .audit import event_object

        with Records.open(self._home) as records:
            for entry in records.journal.read_run(run_id):
                yield event_object(entry.seq, entry.event)

    async def arun(
        self, package: str | Path | None = None, request: str | Request | None = None, **settings: Any
    ) -> Result:
        """``run`` without blocking the event loop; the same settings."""
        return await asyncio.to_thread(self.run, package, request, **settings)

    async def aapprove(self, run_id: str, **settings: Any) -> Result:
        """``approve`` without blocking the event loop."""
        return await asyncio.to_thread(self.approve, run_id, **settings)

    async def areject(self, run_id: str, feedback: str | None = None) -> Result:
        """``reject`` without blocking the event loop."""
        return await asyncio.to_thread(self.reject, run_id, feedback)

    async def aanswer(self, run_id: str, text: str, **settings: Any) -> Result:
        """``answer`` without blocking the event loop."""
        return await asyncio.to_thread(self.answer, run_id, text, **settings)

    async def aedit(self, run_id: str, plan: Plan, **settings: Any) -> Result:
        """``edit`` without blocking the event loop."""
        return await asyncio.to_thread(self.edit, run_id, plan, **settings)

    async def aguide(self, run_id: str, text: str, **settings: Any) -> Result:
        """``guide`` without blocking the event loop."""
        return await asyncio.to_thread(self.guide, run_id, text, **settings)

    async def aamend(self, run_id: str, request: str | Request, **settings: Any) -> Result:
        """``amend`` without blocking the event loop."""
        return await asyncio.to_thread(self.amend, run_id, request, **settings)

    async def aresume(self, run_id: str, **settings: Any) -> Result:
        """``resume`` without blocking the event loop."""
        return await asyncio.to_thread(self.resume, run_id, **settings)

    async def acancel(self, run_id: str, reason: str = "a person") -> Result:
        """``cancel`` without blocking the event loop."""
        return await asyncio.to_thread(self.cancel, run_id, reason)

    async def afollow(self, run_id: str, on_event: Callable[[Event], None] | None = None) -> Result:
        """``follow`` without blocking the event loop."""
        return await asyncio.to_thread(self.follow, run_id, on_event)

    def _follower(
        self, run_id: str, on_event: Callable[[Event], None] | None, *, approve: bool = False
    ) -> following.Follower:
        decide = following.always if approve else following.nobody
        return following.Follower(self._home, run_id, _Listener(on_event), person.key_of(self._home), decide)


def verify_log(home: str | Path | None = None) -> LogReport:
    """Verifies the log of a data directory with its public key: leaves, nodes, checkpoints, artifacts.

    ``report.ok`` says whether all of it holds; ``report.faults[0]`` names the first entry that does not. Raises
    ``LogError`` ``log.absent`` where there is no log.
    """
    place = Home.resolve() if home is None else Home.resolve({VARIABLE: str(home)})
    if not place.journal.is_dir():
        raise LogError("log.absent", "There is no log here to verify.", place=str(place.journal))
    artifacts = place.artifacts if place.artifacts.is_dir() else None
    return verify_journal(place.journal, [verifier_of(place)], artifacts)
