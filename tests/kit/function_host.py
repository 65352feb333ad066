"""A host of the tests that runs functions in this process, with a ledger, receipts and a memory like a real one's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.actors.harness.clock import SystemClock
from duly.actors.harness.packages import FINGERPRINT, SURVEY
from duly.hosts.client import ResultGroup
from duly.hosts.ledger import Ledger
from duly.protocol.authority.grant import Grant
from duly.protocol.authority.receipt import Receipt, output_digest
from duly.protocol.authority.settlement import Settlement
from duly.protocol.authority.signing import peek_payload
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.wire import canon
from duly.protocol.wire.errors import AuthorityError, DulyError, RuntimeFault
from duly.protocol.wire.tagged import from_tagged, to_tagged
from plans import table, tool

NOW = SystemClock().now_ms
LOOK = tool("look", concurrent=True)
SEND = tool("send", "write", idempotency="none")
SEEN = tool("seen")
BUILTIN = {
    name: Descriptor(server="duly", name=name.partition(".")[2], effect="read")
    for name in (SURVEY, FINGERPRINT)
}
ALL = table(LOOK, SEND, SEEN)


@dataclass
class FunctionHost:
    """A host of one class that runs functions, with a ledger, receipts and a memory like the real one's."""

    name: str
    key: Ed25519PrivateKey
    functions: Mapping[str, Callable[..., Any]]
    chance: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    done: dict[str, ResultGroup] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)  # grants that were used and whose end is to come
    forgets: bool = False  # it dies after the effect, with the only word of it
    silent: bool = False  # it cannot be asked what became of anything
    asked: int = 0
    frozen: asyncio.Event | None = None  # the first dispatch stands still at its door until this is set
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    work: set[asyncio.Future[None]] = field(default_factory=set)  # what is under way, held from the collector

    async def describe(self, package: str) -> list[Descriptor]:
        return [*ALL.values(), *BUILTIN.values()]

    async def cancel(self, run_id: str, *, force: bool = False) -> int:
        return 0

    async def hello(self) -> dict[str, Any]:
        return {"host": self.name}

    async def run(
        self, grants: bytes, arguments: Sequence[bytes], **warrant: Any
    ) -> AsyncIterator[ResultGroup]:
        opened = _grants(grants)
        if self.frozen is not None and not self.arrived.is_set():
            self.arrived.set()
            await self.frozen.wait()
        told: asyncio.Queue[ResultGroup | Exception] = asyncio.Queue()
        work = asyncio.ensure_future(self._work(opened, arguments, told))
        self.work.add(work)
        work.add_done_callback(self.work.discard)
        for _ in opened:
            one = await told.get()
            if isinstance(one, Exception):
                raise one
            yield one

    async def _work(
        self,
        opened: Sequence[Grant],
        arguments: Sequence[bytes],
        told: asyncio.Queue[ResultGroup | Exception],
    ) -> None:
        """Does what was asked, whatever becomes of who asked: a host is a process of its own."""
        refusals = self.ledger.use([(one.nonce, one.expires_ms) for one in opened], NOW())
        self.running |= {one.nonce for one in opened}
        for grant, data, refusal in zip(opened, arguments, refusals, strict=True):
            await wait(self.chance)
            if grant.epoch < self.ledger.epoch:
                refusal = AuthorityError("grant.stale_epoch", "Another harness has taken over.")
            self.ledger.raise_epoch(grant.epoch)
            try:
                group = self._ran(grant, data, refusal)
            except Exception as bug:  # of a test's own function
                told.put_nowait(bug)
                return
            if self.forgets and grant.effect != "read":
                self.running -= {one.nonce for one in opened}
                told.put_nowait(RuntimeFault("runtime.host_lost", "The host went away."))
                return
            self.done[grant.nonce] = group
            self.running.discard(grant.nonce)
            await wait(self.chance)
            told.put_nowait(group)

    def _ran(self, grant: Grant, data: bytes, refusal: DulyError | None) -> ResultGroup:
        output, errors = b"", {}
        outcome, code = "ok", ""
        if refusal is None:
            value = self.functions[grant.tool](**from_tagged(canon.decode(data)))
            output = canon.encode(value if grant.tool.startswith("duly.") else to_tagged(value))
        else:
            outcome, code, errors = "error", refusal.code, {grant.nonce: refusal.to_data()}
        now = NOW()
        receipt = Receipt(
            run_id=grant.run_id,
            step_id=grant.step_id,
            attempt=grant.attempt,
            grant=grant.nonce,
            host=self.name,
            epoch=grant.epoch,
            outcome=outcome,
            code=code,
            arguments=grant.arguments,
            output=output_digest(output) if outcome == "ok" else "",
            started_ms=now,
            ended_ms=now,
            duration_us=1,
        )
        signed = Receipt.sign_all([receipt], self.key)
        return ResultGroup(signed, [grant.nonce], {grant.nonce: output} if outcome == "ok" else {}, errors)

    async def settle(self, statement: bytes) -> tuple[dict[str, str], list[ResultGroup]]:
        self.asked += 1
        if self.silent:
            raise RuntimeFault("runtime.wrong_reply", "The host says nothing that makes sense.")
        wanted = Settlement.peek(statement)
        if wanted.epoch < self.ledger.epoch:
            raise AuthorityError("grant.stale_epoch", "Another harness has taken over.")
        fates = {}
        for nonce in wanted.nonces:
            void = self.ledger.settle(nonce, wanted.granted_ms, NOW() + 10**9) == "void"
            while nonce in self.running:
                await asyncio.sleep(0)  # as a host does: what still runs is waited for
            fates[nonce] = "void" if void else "done" if nonce in self.done else "unknown"
        return fates, [self.done[nonce] for nonce, fate in fates.items() if fate == "done"]


def _grants(envelope: bytes) -> list[Grant]:
    return [Grant.model_validate(one) for one in peek_payload(envelope, "grant")["all"]]


async def wait(chance: random.Random) -> None:
    """Lets the others have their turn, a few times or not at all."""
    for _ in range(chance.randrange(4)):
        await asyncio.sleep(0)
