"""The runtime from Python: the same front door, mandates and signatures as the command line's.

    with Runtime() as runtime:
        result = runtime.run("examples/flights", "How many flights departed from JFK in March?")
        print(result.phase, result.statements[0].text)

Every method has an async twin of the same name with an ``a`` before it (``arun``), which runs it in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request, new_request
from duly.protocol.wire.errors import LogError
from duly.storage.fsck import Report as LogReport
from duly.storage.fsck import verify_journal
from duly.storage.home import VARIABLE, Home

from . import follow as following
from . import mandate, person
from .gate import WaitingGate
from .log_key import verifier_of
from .mandate import Order
from .package import open_package
from .records import Records
from .start import opened

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a report; ``values`` maps names to ``(value, unit)``."""

    kind: str
    text: str
    level: str | None
    values: Mapping[str, tuple[Any, str]]
    query: str | None


@dataclass(frozen=True, slots=True)
class Result:
    """How a run stopped. ``data`` is the whole object as ``--json`` prints it."""

    run_id: str
    phase: str
    verdict: str
    reason: str
    next_owner: str
    statements: Sequence[Statement]
    needs: Mapping[str, Any] | None
    data: Mapping[str, Any] = field(repr=False)

    @property
    def completed(self) -> bool:
        return self.phase == "COMPLETED"

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        report = data.get("report") or {}
        return cls(
            run_id=data["run_id"],
            phase=data["phase"],
            verdict=data["verdict"],
            reason=data["reason"],
            next_owner=data["next_owner"],
            statements=[_statement(one) for one in report.get("statements", ())],
            needs=data.get("needs"),
            data=data,
        )


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
        package: str | Path,
        request: str | Request,
        *,
        agent: str | None = None,
        tier: str | None = None,
        planning: str | None = None,
        gate: str | None = None,
        schedule: str | None = None,
        budget: Mapping[str, int] | None = None,
        plan: Plan | None = None,
        approve: bool = False,
        on_event: Callable[[Event], None] | None = None,
    ) -> Result:
        """Submits a request and follows it to its next stop. ``approve`` signs gates as the submitter (``--yes``)."""
        asked = new_request(request) if isinstance(request, str) else request
        with opened(self._home) as door:
            package_open = open_package(door, self._home, str(package))
        order = Order(agent, tier, planning, gate, schedule, dict(budget or {}))
        signed = mandate.draft(package_open, asked, order, plan)
        follower = self._follower(signed.run_id, on_event, approve=approve)
        result = follower.request(
            "submit",
            mandate=signed.sign(follower.key()),
            request=asked.to_data(),
            plan=None if plan is None else plan.to_data(),
        )
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

    async def arun(self, package: str | Path, request: str | Request, **settings: Any) -> Result:
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


def _statement(data: Mapping[str, Any]) -> Statement:
    values = {name: (one["value"], one["unit"]) for name, one in data["values"].items()}
    return Statement(data["kind"], data["text"], data["level"], values, data["query"])
