"""A tool host without its socket: what it does for each operation. ``server`` puts it on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.grant import Grant
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.plan import refs
from duly.protocol.wire import canon
from duly.protocol.wire.errors import AuthorityError, DulyError, ToolError, WireError
from duly.protocol.wire.limits import (
    ARTIFACT_BYTES_MAX,
    DISPATCHES_PER_HOST_MAX,
    NONCE_KEPT_SECONDS,
    RUNS_GIVEN_UP_KEPT,
    STOP_GRACE_SECONDS,
)

from . import secrets
from .admission import Admission, Trust, Warrant
from .config import HostConfig
from .dispatch import Call, Dispatch
from .fates import Fates
from .framing import Message
from .known_tools import KnownTools
from .ledger import DurableLedger, Ledger
from .pool import WorkerPool
from .receipts import ReceiptGroup, Send

DRAIN_SECONDS_MAX = STOP_GRACE_SECONDS - 1  # before the supervisor loses its patience


class Host:
    """One class of host: its keys, its ledger, its workers, the dispatches under way."""

    def __init__(self, config: HostConfig) -> None:
        self._config = config
        self._key = Ed25519PrivateKey.from_private_bytes(config.private_key)
        self.key_id = key_id(public_bytes(self._key))
        state = Path(config.state)
        self._writes = writes = config.host_class == "write"
        self._ledger = DurableLedger(state / "used_grants", _now_ms()) if writes else Ledger()
        self._admission = Admission(
            config.host_class,
            Trust.of(config.harness_keys, lambda: secrets.read_public_keys(config.people_places)),
            self._ledger,
        )
        shutil.rmtree(config.scratch, ignore_errors=True)  # what a host that was killed has left
        self._pool = WorkerPool(Path(config.scratch) / str(os.getpid()), config.home)
        self._known = KnownTools(
            self._pool,
            Path(config.packages),
            Path(config.home),
            config.secrets,
            preload=() if writes else ("duckdb",),
        )
        self._dispatches: dict[Dispatch, tuple[int, asyncio.Event]] = {}
        self._fates = Fates()
        self._given_up: dict[str, None] = {}  # runs that have ended, the oldest first

    async def start(self) -> None:
        """Warms what is always needed: each run begins with reads. The zygotes of the other classes start when called
        for, which keeps 25 MB each out of an idle runtime."""
        if self._config.host_class == "read":
            await self._pool.start()

    async def close(self) -> None:
        await self._pool.close()
        self._ledger.close()

    async def drain(self) -> None:
        """Lets the effects that are under way come to their end, as long as a polite stop may take."""
        ends = [ended.wait() for _, ended in self._dispatches.values()] if self._writes else []
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*ends), DRAIN_SECONDS_MAX)

    def hello(self) -> Message:
        """Who this is."""
        return {
            "host": self._config.name,
            "class": self._config.host_class,
            "keyid": self.key_id,
            "epoch": self._ledger.epoch,
            "pid": os.getpid(),
        }

    async def take_epoch(self, statement: bytes) -> Message:
        """A new harness takes over. Answers when no effect of an older epoch is under way any more.

        Once the higher epoch is in the ledger no grant of an older one starts; what had started has a deadline.
        """
        epoch = self._admission.open_epoch(statement)
        if epoch < self._ledger.epoch:
            raise AuthorityError(
                "grant.stale_epoch",
                f"Epoch {epoch} is over; {self._ledger.epoch} has taken over.",
                place=str(epoch),
            )
        self._ledger.raise_epoch(epoch)
        if self._writes:
            for older, ended in list(self._dispatches.values()):
                if older < epoch:
                    await ended.wait()
        return {"epoch": self._ledger.epoch}

    async def describe(self, package: str) -> list[dict[str, Any]]:
        """The descriptors of every tool of a package snapshot."""
        return [tool.descriptor.to_data() for tool in (await self._known.of(package)).values()]

    async def admit(self, message: Message, arguments: list[bytes]) -> tuple[list[Call], Warrant]:
        """The calls of a dispatch, each judged; those that may run have used up their grants.

        Raises where the dispatch as a whole is not what the harness signed.
        """
        grants = self._admission.open_grants(_bytes(message, "grants"))
        if len(grants) != len(arguments):
            raise AuthorityError(
                "grant.args_mismatch", f"{len(grants)} grants came with {len(arguments)} argument blobs."
            )
        if len(self._dispatches) >= DISPATCHES_PER_HOST_MAX:
            raise ToolError("tool.host_busy", "This host has too many dispatches under way.")
        calls = [await self._judged(grant, data) for grant, data in zip(grants, arguments, strict=True)]
        for call in calls:
            if call.grant.run_id in self._given_up:
                call.refusal = call.refusal or _too_late(call.grant)
        good = [call for call in calls if call.refusal is None]
        uses = self._ledger.use([(call.grant.nonce, call.grant.expires_ms) for call in good], _now_ms())
        for call, refusal in zip(good, uses, strict=True):
            call.refusal = refusal
        for epoch in {call.grant.epoch for call in good if call.refusal is None}:
            self._ledger.raise_epoch(epoch)
        return calls, _warrant(message)

    async def run(
        self,
        message: Message,
        arguments: list[bytes],
        send: Send,
        begun: Callable[[Dispatch], None],
    ) -> None:
        """One dispatch from grants to receipts. ``begun`` gets it once it is admitted, to cancel it by."""
        mode = message.get("mode")
        if mode not in ("serial", "concurrent"):
            raise WireError("wire.bad_body", "`mode` is serial or concurrent.")
        calls, warrant = await self.admit(message, arguments)
        nonces = [call.grant.nonce for call in calls] if self._writes else []

        def sent(results: Message, blobs: list[bytes]) -> None:
            if self._writes:
                self._fates.keep(results, blobs)
            send(results, blobs)

        receipts = ReceiptGroup(self._config.name, self._key, message["id"], sent)
        dispatch = Dispatch(
            calls, warrant, admission=self._admission, known=self._known, pool=self._pool, receipts=receipts
        )
        ended = asyncio.Event()
        self._dispatches[dispatch] = (min((call.grant.epoch for call in calls), default=0), ended)
        self._fates.began(nonces, ended)
        begun(dispatch)
        try:
            await dispatch.run(serial=mode == "serial")
        finally:
            self._fates.ended(nonces)
            del self._dispatches[dispatch]
            ended.set()

    async def settle(self, statement: bytes, send: Send) -> dict[str, str]:
        """What became of grants: ``void`` (never used, and never will be), ``done`` (its results are sent again), or
        ``unknown`` (used, or too old to tell, and nobody remembers how it ended). Waits for effects that still run."""
        wanted = self._admission.open_settlement(statement)
        fates: dict[str, str] = {}
        expires_ms = _now_ms() + NONCE_KEPT_SECONDS * 1_000
        for nonce in wanted.nonces:
            if self._ledger.settle(nonce, wanted.granted_ms, expires_ms) == "void":
                fates[nonce] = "void"
                continue
            kept = await self._fates.of(nonce)
            if kept is not None:
                send(*kept)
            fates[nonce] = "done" if kept is not None else "unknown"
        return fates

    def cancel(self, run_id: str, *, force: bool) -> int:
        """Ends what runs for a run; gives how many dispatches that concerned.

        ``force``: the run has ended. Its effects are ended too, and what is still on its way here does not start.
        """
        if force:
            self._given_up[run_id] = None
            while len(self._given_up) > RUNS_GIVEN_UP_KEPT:
                del self._given_up[next(iter(self._given_up))]
        found = [dispatch for dispatch in self._dispatches if run_id in dispatch.run_ids]
        for dispatch in found:
            dispatch.cancel(force=force)
        return len(found)

    async def _judged(self, grant: Grant, arguments: bytes) -> Call:
        call = Call(grant, arguments, None)
        try:
            tools = await self._known.of(grant.package)
            call.tool = tools.get(grant.tool)
            if call.tool is None:
                raise ToolError("tool.unknown", f"The package has no tool {grant.tool}.")
            self._admission.judge(grant, arguments, call.tool, _now_ms())
            if grant.template:
                call.needs = tuple(refs.steps_of(canon.decode(arguments, bytes_max=ARTIFACT_BYTES_MAX)))
        except DulyError as problem:
            call.refusal = problem
        return call


def _too_late(grant: Grant) -> AuthorityError:
    return AuthorityError("grant.run_ended", f"Run {grant.run_id} has ended; nothing starts for it any more.")


def _warrant(message: Message) -> Warrant:
    mandate = message.get("mandate")
    approvals = message.get("approvals") or []
    templates = message.get("templates") or {}
    if (
        not (mandate is None or type(mandate) is bytes)
        or type(approvals) is not list
        or type(templates) is not dict
    ):
        raise WireError(
            "wire.bad_body", "`mandate` is bytes, `approvals` a list of bytes, `templates` a map."
        )
    if any(type(one) is not bytes for one in approvals):
        raise WireError("wire.bad_body", "`approvals` is a list of bytes.")
    return Warrant(mandate, approvals, templates)


def _bytes(message: Message, name: str) -> bytes:
    value = message.get(name)
    if type(value) is not bytes:
        raise WireError("wire.bad_body", f"`{name}` is bytes.")
    return value


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
