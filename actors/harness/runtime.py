"""The harness put together: loop, performer, front door, recovery. The transport is given; nothing here knows Ray."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from duly.hosts.admission import EpochStatement
from duly.hosts.client import HostClient
from duly.hosts.models.client import ModelHostClient
from duly.protocol.log.checkpoint import VerifierKey
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import KeptResult, Resumed, TimePassed
from duly.protocol.plan.model_call import ModelRole, Used
from duly.protocol.wire.errors import DulyError, RunError
from duly.storage.artifacts import ArtifactStore
from duly.storage.journal_reader import JournalReader
from duly.storage.keys import KeyRing
from duly.storage.packages import PackageStore

from ..caller import Caller, Transport
from ..messages import EpochTaken, TakeEpoch
from ..runtime.settings import HARNESS_KEY, LOG_KEY, ORIGIN, Settings
from . import processes
from .again import again
from .clock import SystemClock
from .core import HarnessCore
from .desk import Desk
from .dispatcher import Dispatcher
from .earlier import kept_results, recorded_calls
from .followers import Followers
from .front_door import FrontDoor
from .grants import HostKeys, ReceiptReader, Signer
from .one_read import OneRead
from .packages import Packages
from .people import People
from .performer import Performer
from .preview import Preview
from .questions import Questions
from .record import JournalRecord
from .recorder import Recorder
from .settler import Settler, effects_under_way
from .spread import Spread
from .submission import Submission
from .thinker import Thinker
from .verification import Verification

log = logging.getLogger("duly")
TICK_SECONDS = 1.0
EPOCH_TAKEN_SECONDS_MAX = 5.0  # a host that lives answers in milliseconds, unless an effect is under way


class HarnessRuntime:
    """One incarnation of the harness."""

    def __init__(
        self, settings: Settings, transport: Transport, actors: Callable[[], Awaitable[list[dict[str, Any]]]]
    ) -> None:
        place = settings.place
        self._settings = settings
        self._actors = actors
        self._clock = clock = SystemClock()
        self._keys = KeyRing(place.keys)
        self._people = People(place)
        self._caller = Caller(transport, clock.fresh)
        self._signer = Signer(self._keys.private(HARNESS_KEY), clock)
        self._artifacts = ArtifactStore.open(place.artifacts, random_bytes=clock.random_bytes)
        self._recorder = Recorder(self._caller, self._artifacts)
        reader = ReceiptReader(HostKeys(place.keys / "hosts"))
        reads = OneRead(self._caller, self._signer, reader, settings.node)
        store = PackageStore(place.packages)
        spread = Spread(self._caller, reads, store.get, settings.node)
        self._packages = Packages(store, self._caller, reads, spread, settings.node)
        self._settler = Settler(self._caller, self._signer, reader, clock, settings.node)
        self._followers = Followers()
        models: dict[ModelRole, ModelHostClient] = {
            role: ModelHostClient(settings.host_socket(f"model-{role}")) for role in get_args(ModelRole)
        }
        thinker = Thinker(self._caller, self._packages, self._recordings, models)
        self._thinker = thinker
        self._performer = Performer(
            caller=self._caller,
            clock=clock,
            signer=self._signer,
            packages=self._packages,
            dispatcher=Dispatcher(
                self._caller,
                self._signer,
                reader,
                clock,
                settings.node,
                self._settler,
                spread,
            ),
            verification=Verification(self._caller, self._signer, self._packages, thinker),
            questions=Questions(reads, self._packages),
            thinker=thinker,
        )
        self.core = HarnessCore(
            recorder=self._recorder,
            clock=clock,
            perform=self._performer.perform,
            publish=self._followers.publish,
            give_up=_give_up,
        )
        self._performer.post = self.core.post
        self._hosts = {name: HostClient(settings.host_socket(name)) for name in ("read", "write", "verify")}
        self._started_ms = clock.now_ms()
        self._tasks: list[asyncio.Task[None]] = []
        self._door: FrontDoor | None = None
        self._record: JournalRecord | None = None

    async def start(self) -> None:
        """Takes an epoch, recovers every unfinished run, and only then opens the front door."""
        taken, _ = await again(lambda: self._caller.ask("audit_journal", TakeEpoch(), EpochTaken))
        self.core.epoch = self._signer.epoch = self._caller.epoch = taken.epoch
        await self._announce(taken.epoch)
        verifier = VerifierKey.of(ORIGIN, self._keys.private(LOG_KEY))
        record = JournalRecord(JournalReader.open(self._settings.place.journal, [verifier]), self._artifacts)
        self._performer.verdict_seq = record.verdict_seq
        self._record = record
        self._tasks.append(asyncio.create_task(self.core.work()))
        await self._recover(record)
        self._door = FrontDoor(self._desk(record))
        await self._door.open(self._settings.host_socket("front"))
        self._tasks.append(asyncio.create_task(self._tick()))
        log.info("the front door is open, epoch %d", taken.epoch)

    async def _announce(self, epoch: int) -> None:
        """Tells the hosts of this node. A write host takes the epoch at once and answers when the effects of older ones have
        ended; nobody waits for that. One that is down learns it from the first grant, or when it is asked about effects."""
        telling = [asyncio.create_task(self._tell(name, epoch)) for name in self._hosts]
        _, later = await asyncio.wait(telling, timeout=EPOCH_TAKEN_SECONDS_MAX)
        self._tasks += later

    async def _tell(self, name: str, epoch: int) -> None:
        statement = EpochStatement(epoch=epoch, host=name).sign(self._signer.private)
        try:
            await self._hosts[name].take_epoch(statement)
        except DulyError as error:
            log.warning("host %s did not take epoch %d: %s", name, epoch, error)

    async def _recover(self, record: JournalRecord) -> None:
        """Lets every unfinished run go on. One with an effect under way waits until its end is known, and nobody waits for
        that: such an effect may take its whole deadline."""
        waiting: list[Run] = []
        for run_id in record.unfinished():
            try:
                self.core.runs[run_id] = record.load(run_id)
            except DulyError as error:
                # Fails closed: a run that cannot be read is not run. `duly show` says the same.
                log.error("run %s cannot be recovered: %s", run_id, error)
                continue
            run = self.core.runs[run_id]
            if effects_under_way(run):
                self._tasks.append(asyncio.create_task(self._resume_late(run)))
            else:
                waiting.append(run)
        await asyncio.gather(*(self._resume(run) for run in waiting))

    async def _resume_late(self, run: Run) -> None:
        try:
            await self._resume(run)
        except DulyError as error:  # a person cancelled it in the meantime, or this harness ends
            log.warning("run %s does not go on: %s", run.run_id, error)

    async def _resume(self, run: Run) -> None:
        """Lets a run go on under this epoch, with what is no longer as it was when it was submitted, and with what became of
        its effects that were under way."""
        changed: list[str] = []
        digests: dict[str, str] = {}
        stalled = ""
        settled = await self._settler.settle_run(run)
        await self._thinker.silence(run)  # what the harness before had asked for is asked for again
        try:
            opened = await self._packages.get(run.mandate.package)
            digests = opened.digests()
            granted = opened.granted(run.agent)
            changed += [name for name, digest in run.digests.items() if digests.get(name) != digest]
            changed += [name for name, one in run.descriptors.items() if granted.get(name) != one]
        except DulyError as error:
            log.error("run %s cannot go on now: %s", run.run_id, error)
            stalled = error.code
        try:
            await self.core.post(
                run.run_id,
                lambda now, fresh: Resumed(
                    now_ms=now,
                    fresh=fresh,
                    epoch=self.core.epoch,
                    changed=changed,
                    digests=digests,
                    settled=settled,
                    stalled=stalled,
                ),
            )
        except RunError as error:
            if error.code == "run.already_resumed":
                _give_up(error)  # a younger harness has it: this one was frozen while it started
            raise

    def _desk(self, record: JournalRecord) -> Desk:
        return Desk(
            core=self.core,
            followers=self._followers,
            packages=self._packages,
            submission=Submission(self._packages, self._people, self._earlier(record), self._thinker),
            preview=Preview(self._caller, self._packages, self._people, self._thinker),
            thinker=self._thinker,
            record=record,
            caller=self._caller,
            clock=self._clock,
            people=self._people,
            about=self.about,
            again=self._try_again,
            stop=self.stop,
        )

    def _earlier(self, record: JournalRecord) -> Callable[[str], list[KeptResult]]:
        return lambda run_id: kept_results(record.load(run_id), self._artifacts)

    def _recordings(self, run_id: str) -> list[Used]:
        """The calls of models that an earlier run made."""
        assert self._record is not None
        return recorded_calls(self._record.history(run_id), self._artifacts)

    async def _try_again(self, run: Run) -> None:
        """A run that nothing could execute when this harness started is looked at once more."""
        if run.reason == "run.no_executor":
            await self._resume(run)

    async def about(self) -> dict[str, Any]:
        """Everything that ``duly status`` shows."""
        lines = [processes.line("supervisor", self._settings.supervisor)]
        lines += await processes.hosts(self._hosts)
        lines += await processes.model_hosts(
            {role: self._settings.host_socket(f"model-{role}") for role in ("planner", "critic")}
        )
        lines += [processes.line(one["role"], one["pid"], name=one["name"]) for one in await self._actors()]
        lines.append(processes.line("Harness", os.getpid(), name="harness"))
        lines += processes.others(self._settings.supervisor, {one["pid"] for one in lines})
        active = [
            run_id for run_id, run in self.core.runs.items() if not run.phase.ended and not run.phase.waits
        ]
        return {
            "pid": os.getpid(),
            "epoch": self.core.epoch,
            "home": self._settings.home,
            "started_ms": self._started_ms,
            "node": self._settings.node,
            "active_runs": len(active),
            "failure": self.core.failure.to_data() if self.core.failure else None,
            "processes": lines,
        }

    def stop(self) -> None:
        """Ends the runtime by its supervisor, which ends everything below it."""
        log.info("stopping")
        os.kill(self._settings.supervisor, signal.SIGTERM)

    async def _tick(self) -> None:
        """Lets wall-clock budgets run out, and stops an idle runtime."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            active = [run for run in self.core.runs.values() if not run.phase.ended and not run.phase.waits]
            for run in active:
                if self.core.is_out_of_time(run):
                    self.core.post(run.run_id, lambda now, fresh: TimePassed(now_ms=now, fresh=fresh))
            door, idle = self._door, self._settings.idle_seconds
            if (
                idle
                and door is not None
                and not active
                and not door.busy
                and loop.time() - door.last_used > idle
            ):
                self.stop()
                return


def _give_up(error: DulyError) -> None:
    """Nobody knows whether the journal has the last events: end here, and let the next incarnation read it."""
    log.error("this harness ends: %s", error)
    os._exit(70)
