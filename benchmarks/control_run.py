"""A run on disk without a runtime: the pure machine over reads that answer at once, every decision journaled as the harness
does it (artifacts first, then the group of events). It is interrupted as often as a measurement needs, and stops before
its verdict: an unfinished run, as a restart finds it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from measured_package import OBJECTIVE

from duly.protocol.authority.grant import arguments_digest
from duly.protocol.authority.mandate import Mandate, MandatedTool
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.decide import Decision, decide
from duly.protocol.machine.events import Event
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome, Stimulus
from duly.protocol.plan import refs
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request
from duly.protocol.plan.scope import Scope
from duly.protocol.wire import canon
from duly.protocol.wire.ids import salted_digest
from duly.protocol.wire.tagged import to_tagged
from duly.storage.artifacts import ArtifactStore
from duly.storage.journal import Journal

BEGAN_MS = 1_790_000_000_000
RECEIPT = bytes(range(256)) * 4  # a signed group of receipts has some hundreds of bytes
BUDGET = {"steps": 1_000_000, "tool_calls": 1_000_000, "wall_seconds": 100_000}

Record = Callable[[Run, list[Event]], None]


def tools(*names: str) -> dict[str, Descriptor]:
    """Reads of the server ``nothing``, as the benchmark's package describes them."""
    return {
        f"nothing.{name}": Descriptor(server="nothing", name=name, effect="read", concurrent=True)
        for name in names
    }


@dataclass
class MachineRun:
    """``go`` drives one run of reads to just before its verdict, or to its end with ``verdict``.

    ``restarts``: so many times a new harness takes over while calls are under way, and their results are lost.
    """

    run_id: str
    plan: Plan
    descriptors: Mapping[str, Descriptor]
    record: Record
    seal: Callable[[bytes], str]
    epoch: Callable[[], int] = lambda: 1
    restarts: int = 0
    verdict: bool = False
    run: Run | None = None
    decisions: int = 0
    todo: deque[effects.Order] = field(default_factory=deque)

    def go(self) -> Run:
        self._give(self._submission())
        while self.todo:
            order = self.todo.popleft()
            if isinstance(order, effects.Dispatch):
                self._give(self._restart() if self.restarts else self._returned(order))
            elif isinstance(order, effects.PrepareVerification):
                self._give(stimuli.ReadsWanted(**self._moment(), order=order.key, reads=[]))
            elif isinstance(order, effects.Judge) and self.verdict:
                self._give(self._judged(order))
        assert self.run is not None
        return self.run

    def _give(self, stimulus: Stimulus) -> None:
        decision: Decision = decide(self.run, stimulus, self.seal)
        if decision.refusal is not None:
            raise decision.refusal
        assert decision.run is not None
        self.decisions += 1
        self.run = decision.run
        self.record(decision.run, list(decision.events))
        self.todo.extend(order for order in decision.orders if not isinstance(order, effects.Wake))

    def _moment(self) -> dict[str, Any]:
        fresh = hashlib.sha256(f"{self.run_id}/{self.decisions}".encode()).hexdigest()[:32]
        return {"now_ms": BEGAN_MS + self.decisions, "fresh": fresh}

    def _submission(self) -> stimuli.Submitted:
        person = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a person").digest())
        request = Request(text=OBJECTIVE)
        agent = AgentSpec(name="runner", version="1", tools=sorted(self.descriptors))
        mandate = Mandate(
            run_id=self.run_id,
            agent=agent.name,
            agent_version=agent.version,
            package="f" * 64,
            request=request.digest(),
            tier="assisted",
            planning="auto",
            gate="consequential",
            schedule="levels",
            tools={
                name: MandatedTool(descriptor=one.digest(), effect=one.effect)
                for name, one in self.descriptors.items()
            },
            scope=Scope(),
            budget=BUDGET,
            plan=self.plan.content_digest(),
            issued_ms=BEGAN_MS - 1,
            expires_ms=BEGAN_MS + 10**9,
            nonce="0" * 32,
        )
        envelope = mandate.sign(person)
        public = public_bytes(person)
        opened, signer = Mandate.open(envelope, {key_id(public): public})
        return stimuli.Submitted(
            **self._moment(),
            mandate=opened,
            mandate_envelope=envelope,
            submitter=signer,
            request=request,
            agent=agent,
            descriptors=self.descriptors,
            digests={},
            capabilities=[],
            epoch=self.epoch(),
            plan=self.plan,
        )

    def _restart(self) -> stimuli.Resumed:
        self.restarts -= 1
        self.todo.clear()
        return stimuli.Resumed(**self._moment(), epoch=self.epoch())

    def _returned(self, order: effects.Dispatch) -> stimuli.StepsReturned:
        outputs: dict[str, Any] = {}
        found = []
        for number, call in enumerate(order.calls):
            arguments = refs.resolve(call.arguments, outputs) if call.template else call.arguments
            outputs[call.step_id] = to_tagged({"value": number + 1, "waited": 0})
            found.append(
                StepOutcome(
                    step_id=call.step_id,
                    attempt=call.attempt,
                    wave=order.wave,
                    outcome="ok",
                    output=canon.encode(outputs[call.step_id]),
                    receipt=RECEIPT,
                    arguments=arguments_digest(arguments),
                    host="read",
                    node="n1",
                    started_ms=BEGAN_MS,
                    ended_ms=BEGAN_MS + 1,
                    duration_us=900,
                )
            )
        return stimuli.StepsReturned(**self._moment(), order=order.key, outcomes=found)

    def _judged(self, order: effects.Judge) -> stimuli.Judged:
        checks = [
            {
                "check_id": f"schema:{step.step_id}:contract",
                "kind": "schema",
                "step_id": step.step_id,
                "outcome": "pass",
                "reason": "",
                "mandatory": True,
            }
            for step in self.plan.steps
        ]
        return stimuli.Judged(**self._moment(), order=order.key, outcome="pass", reason="", checks=checks)


class DiskRecord:
    """A journal and artifacts in a folder, written as the harness writes them; counts what it writes."""

    def __init__(self, folder: Path, key: Ed25519PrivateKey) -> None:
        self.journal = Journal.open(folder / "journal", key, "duly.bench/log")
        self.artifacts = ArtifactStore.open(folder / "artifacts")
        self.epoch = self.journal.take_epoch()
        self.leaf_bytes = 0

    def next_epoch(self) -> int:
        self.epoch = self.journal.take_epoch()
        return self.epoch

    def seal(self, run_id: str) -> Callable[[bytes], str]:
        salt = self.artifacts.salt_for(run_id)
        return lambda data: salted_digest(salt, data)

    def record(self, run: Run, events: list[Event]) -> None:
        values = list({data: None for one in events for data in one.attached.values()})
        for first in range(0, len(values), 4_000):
            self.artifacts.put_many(run.run_id, dict(enumerate(values[first : first + 4_000])))
        leaves = [self._leaf(run.run_id, one) for one in events]
        for first in range(0, len(leaves), 4_000):
            self.journal.append(leaves[first : first + 4_000])

    def _leaf(self, run_id: str, one: Event) -> bytes:
        data = canon.encode(
            {
                "v": 1,
                "time_ms": BEGAN_MS,
                "run_id": run_id,
                "kind": one.kind,
                "epoch": self.epoch,
                "cause": "m-0123456789abcdef",
                "facts": dict(one.facts),
                "artifacts": dict(one.artifacts),
            }
        )
        self.leaf_bytes += len(data)
        return data

    def close(self) -> None:
        self.journal.close()
        self.artifacts.close()
