"""The real harness (loop, dispatcher, settler, desk) in one process: memory stores, services without Ray, a host of functions.

Everything between a person's request and the host's socket is the product's own code, so races are real ones: several
requests at once on one event loop, in an order that a seed decides.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duly.actors.audit_journal.service import journal_service
from duly.actors.caller import Caller
from duly.actors.executor.service import ExecutorService
from duly.actors.harness.clock import SystemClock
from duly.actors.harness.core import HarnessCore
from duly.actors.harness.desk import Desk
from duly.actors.harness.dispatcher import Dispatcher
from duly.actors.harness.followers import Followers
from duly.actors.harness.grants import HostKeys, ReceiptReader, Signer
from duly.actors.harness.one_read import OneRead
from duly.actors.harness.packages import FINGERPRINT, SURVEY, Packages
from duly.actors.harness.people import People
from duly.actors.harness.performer import Performer
from duly.actors.harness.preview import Preview
from duly.actors.harness.questions import Questions
from duly.actors.harness.record import JournalRecord
from duly.actors.harness.recorder import Recorder
from duly.actors.harness.settler import Settler, effects_under_way
from duly.actors.harness.spread import Spread
from duly.actors.harness.submission import Submission
from duly.actors.harness.thinker import Thinker
from duly.actors.harness.verification import Verification
from duly.actors.messages import EpochTaken, TakeEpoch
from duly.actors.planner.actor import planner_service
from duly.actors.planner.service import PlannerService
from duly.actors.service import Parcel, Service
from duly.actors.verifier.service import VerifierService
from duly.cli import gate
from duly.cli.mandate import Opened as OpenedPackage
from duly.cli.mandate import Order, draft
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import Resumed
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import new_request
from duly.protocol.wire.errors import DulyError
from duly.storage.home import Home
from duly.storage.journal_queue import JournalQueue
from duly.storage.keys import KeyRing
from duly.storage.memory import MemoryArtifacts
from duly.storage.memory_journal import MemoryJournal
from duly.storage.packages import PackageStore
from function_host import LOOK, SEEN, SEND, FunctionHost, wait
from model_uses import NoModel
from plans import plan, step

NODE = "n1"
MANIFEST = b"""
[package]
name = "racing"
version = "1"
data = "racing"

[[agents.list]]
name = "clerk"
version = "1"
tools = ["t.look", "t.send", "t.seen"]

[tools.t]
kind = "python"
functions = ["look", "send", "seen"]
"""


class InProcess:
    """The transport: each role's service is called in this process, after a chance delay."""

    def __init__(self, services: Mapping[str, Service], chance: random.Random) -> None:
        self._services = services
        self._chance = chance

    async def send(
        self, role: str, index: int, envelopes: list[bytes], blobs: list[bytes], node: str = ""
    ) -> Parcel:
        await wait(self._chance)
        parcel = await self._services[role].handle(envelopes, blobs)
        await wait(self._chance)
        return parcel

    def count(self, role: str, node: str = "") -> int:
        return 1

    def nodes(self) -> list[str]:
        return [NODE]


class World:
    """The stores, the host and the person of one data directory. ``harness`` opens an incarnation of the harness."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder).prepare()
        self.ring = KeyRing(self.home.keys)
        self.person = self.ring.private("person")
        self.journal = MemoryJournal()
        self.queue = JournalQueue(self.journal)
        self.artifacts = MemoryArtifacts()
        self.sent: list[str] = []
        self.store = PackageStore(self.home.packages)
        self.package = self.store.put({"agent.toml": MANIFEST, "tools.py": b""})
        host_key = self.ring.private("host")
        (self.home.keys / "hosts").mkdir()
        named = self.home.keys / "hosts" / "h.pub"
        named.write_bytes((self.home.keys / "public" / "host.pub").read_bytes())
        self.chance = random.Random(0)
        functions: dict[str, Callable[..., Any]] = {
            "t.look": lambda thing: {"key": thing},
            "t.send": lambda thing: self.sent.append(thing) or {"key": thing},
            "t.seen": lambda thing: {"key": thing if thing in self.sent else None},
            SURVEY: lambda package: Catalogue().to_data(),
            FINGERPRINT: lambda package: {},
        }
        self.hosts = {
            name: FunctionHost(name, host_key, functions, self.chance) for name in ("read", "write", "verify")
        }

    def close(self) -> None:
        self.queue.close()

    def plan(self, thing: str) -> Plan:
        """Two reads, then a write of a thing that is read back."""
        return plan(
            [
                step("a", LOOK, {"thing": "x"}),
                step("b", LOOK, {"thing": "y"}),
                step("w", SEND, {"thing": thing}, needs=["a", "b"], reader=SEEN, agree={"/key": "/thing"}),
            ]
        )

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        one = Harness(self)
        try:
            await one.start()
            yield one
        finally:
            await one.close()


class Harness:
    """One incarnation of the harness over a world's stores."""

    def __init__(self, world: World) -> None:
        self.world = world
        clock = SystemClock()
        signer_key, chance = world.ring.private("harness"), world.chance
        public = public_bytes(signer_key)
        hosts: Any = {name: world.hosts[name] for name in ("read", "write", "verify")}
        services = {
            "planner": planner_service(PlannerService(world.store.get), NoModel()),
            "audit_journal": journal_service(world.queue),
            "executor": ExecutorService(NODE, hosts, lambda: {key_id(public): public}, world.store).service(),
            "verifier": VerifierService(world.store.get, hosts["verify"]).service(),
        }
        transport: Any = InProcess(services, chance)
        self.caller = Caller(transport, clock.fresh)
        self.signer = Signer(signer_key, clock)
        reader = ReceiptReader(HostKeys(world.home.keys / "hosts"))
        reads = OneRead(self.caller, self.signer, reader, NODE)
        spread = Spread(self.caller, reads, world.store.get, NODE)
        self.packages = Packages(world.store, self.caller, reads, spread, NODE)
        self.settler = Settler(self.caller, self.signer, reader, clock, NODE)
        followers = Followers()
        thinker = Thinker(
            self.caller, self.packages, lambda run_id: [], {"planner": NoModel(), "critic": NoModel()}
        )
        self.performer = Performer(
            caller=self.caller,
            clock=clock,
            signer=self.signer,
            packages=self.packages,
            dispatcher=Dispatcher(self.caller, self.signer, reader, clock, NODE, self.settler, spread),
            verification=Verification(self.caller, self.signer, self.packages, thinker),
            questions=Questions(reads, self.packages),
            thinker=thinker,
        )
        self.gave_up: list[DulyError] = []
        self.recorder = Recorder(self.caller, world.artifacts)
        self.core = HarnessCore(
            recorder=self.recorder,
            clock=clock,
            perform=self.performer.perform,
            publish=followers.publish,
            give_up=self.gave_up.append,
        )
        self.performer.post = self.core.post
        self.record = JournalRecord(world.journal, world.artifacts)
        people = People(world.home)
        self.desk = Desk(
            core=self.core,
            followers=followers,
            packages=self.packages,
            submission=Submission(self.packages, people, lambda run_id: [], thinker),
            preview=Preview(self.caller, self.packages, people, thinker),
            thinker=thinker,
            record=self.record,
            caller=self.caller,
            clock=clock,
            people=people,
            about=self._about,
            again=self._again,
            stop=lambda: None,
        )
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes an epoch and lets every unfinished run go on, as the product's own start does."""
        taken, _ = await self.caller.ask("audit_journal", TakeEpoch(), EpochTaken)
        self.core.epoch = self.signer.epoch = self.caller.epoch = taken.epoch
        self._work = asyncio.create_task(self.core.work())
        for run_id in self.record.unfinished():
            run = self.core.runs[run_id] = self.record.load(run_id)
            await self.resume(run)

    async def resume(self, run: Run) -> None:
        settled = await self.settler.settle_run(run) if effects_under_way(run) else []
        await self.core.post(
            run.run_id,
            lambda now, fresh: Resumed(now_ms=now, fresh=fresh, epoch=self.core.epoch, settled=settled),
        )

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await self.performer.close()

    async def _about(self) -> dict[str, Any]:
        return {}

    async def _again(self, run: Run) -> None:
        return None

    # what people do

    async def order(self, thing: str, tier: str = "assisted") -> dict[str, Any]:
        """The fields of a submission of the plan that sends a thing."""
        opened = await self.packages.get(self.world.package)
        known = OpenedPackage(
            opened.digest,
            "racing",
            "1",
            tuple(opened.package.agent(one.name) for one in opened.package.manifest.agents),
            "clerk",
            opened.descriptors,
            opened.scope(),
        )
        request, brought = new_request("Find out."), self.world.plan(thing)
        mandate = draft(known, request, Order(tier=tier), brought)
        return {
            "run_id": mandate.run_id,
            "mandate": mandate.sign(self.world.person),
            "request": request.to_data(),
            "plan": brought.to_data(),
        }

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """The last answer to a request. Raises the error that it is."""
        last: dict[str, Any] = {}
        async for answer in self.desk.serve(op, fields):
            last = dict(answer)
        return last

    async def told(self, op: str, **fields: Any) -> str:
        """The phase in which a request's answer ends, or the code of its refusal. It comes after a chance delay."""
        await wait(self.world.chance)
        try:
            answer = await self.ask(op, **fields)
        except DulyError as error:
            return error.code
        return str(answer.get("result", {}).get("phase", "accepted"))

    async def approval(self, run_id: str) -> bytes:
        """What a person signs at the open gate."""
        waiting = gate.read(run_id, await self.ask("gate", run_id=run_id))
        return gate.signed(waiting, self.world.person, with_references=False)

    def phase(self, run_id: str) -> str:
        """Where a run is, by its record alone."""
        return str(self.record.load(run_id).phase)
