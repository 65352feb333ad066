"""A harness without Ray: the pure machine over real stores, with scripted planner, tools and verifier.

It journals like the real one, so that reading commands and a fake front door see real records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.actors.runtime.settings import LOG_KEY, ORIGIN
from duly.cli.layout import utc
from duly.hosts.secrets import write_public_key
from duly.protocol.authority.approval import Approval
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.authority.mandate import Mandate
from duly.protocol.authority.receipt import Receipt, output_digest
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.machine import gates
from duly.protocol.machine.decide import decide
from duly.protocol.machine.effects import (
    Bind,
    CheckSteps,
    Dispatch,
    Draft,
    Judge,
    LookUpPlan,
    PrepareChecks,
    PrepareVerification,
)
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import (
    Amended,
    Answered,
    Approved,
    Bound,
    CacheReplied,
    CancelAsked,
    ChecksReturned,
    Drafted,
    Edited,
    Guided,
    Judged,
    ReadsWanted,
    Rejected,
    StepOutcome,
    StepsReturned,
    Stimulus,
    Submitted,
)
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.policy import Policy
from duly.protocol.plan.request import Binding, Question, Request
from duly.protocol.plan.scope import Scope
from duly.protocol.wire import canon
from duly.protocol.wire.ids import salted_digest
from duly.storage.artifacts import ArtifactStore
from duly.storage.home import Home
from duly.storage.journal import Journal
from duly.storage.keys import KeyRing

READ = Descriptor(
    server="sales", name="largest", effect="read", resource="duckdb:sales", description="Ranks."
)
WRITE = Descriptor(
    server="tickets",
    name="open",
    effect="write",
    resource="sqlite:tickets",
    description="Opens a ticket.",
    idempotency="key",
)
AGENT = AgentSpec(
    name="clerk", version="1", mission="Sells.", tools=[READ.full_name, WRITE.full_name], planning="always"
)
SCOPE = Scope(sources=["sales"], resources=["duckdb:sales", "sqlite:tickets"])
QUESTION = Question(
    parameter="month", text="Which month of 2013 do you mean?", choices=["May 2013", "June 2013"]
)
REPORT = {
    "kind": "report",
    "status": "complete",
    "reason": None,
    "statements": [
        {
            "kind": "observation",
            "template": "{name} sold most: {amount}.",
            "text": "B6 sold most: 9,512 units.",
            "level": "observation",
            "values": {
                "name": {"value": "B6", "unit": "text", "source": "s1#/name"},
                "amount": {"value": 9512, "unit": "units", "source": "s1#/amount"},
            },
            "artifacts": ["s1"],
            "query": "SELECT name, sum(amount) FROM sales GROUP BY name",
        }
    ],
    "choices": [],
}


def step(step_id: str, tool: Descriptor, arguments: Any, **more: Any) -> dict[str, Any]:
    """A step with every field, as plain data."""
    found = {"server": READ.server, "name": READ.name, "descriptor": READ.digest()}
    read_back = {"read_back": found, "arguments": {"by": "name"}, "agree": {"/name": "/name"}}
    return {
        "step_id": step_id,
        "objective": f"What {step_id} is for",
        "inputs": {},
        "tool_contract": {
            "tool": {"server": tool.server, "name": tool.name, "descriptor": tool.digest()},
            "arguments": arguments,
            "effect": tool.effect,
            "timeout_seconds": 30,
            "idempotency": tool.idempotency,
        },
        "output_contract": {"json_schema": {"type": "object"}, "artifact": step_id},
        "verification": {
            "acceptance": {"none": "nothing to accept"},
            "tolerance": {"none": "exact"},
            "independent": {"none": "an example"} if tool is READ else read_back,
        },
        "on_failure": [{"do": "escalate"}],
        **more,
    }


def reading_plan(objective: str) -> Plan:
    """Two reads at once, no gate."""
    steps = [step("s1", READ, {"by": "name"}), step("s2", READ, {"by": "day"})]
    return _plan(objective, steps, report_step="s1")


def writing_plan(objective: str) -> Plan:
    """A read and a write whose argument comes from it: a plan gate, then a step gate."""
    steps = [
        step("s1", READ, {"by": "name"}),
        step("s2", WRITE, {"name": {"$ref": "s1#/name"}, "note": "sold most"}, depends_on=["s1"]),
    ]
    return _plan(objective, steps, report_step="s1")


def _plan(objective: str, steps: list[dict[str, Any]], **more: Any) -> Plan:
    scope = {"sources": ["sales"], "resources": ["duckdb:sales", "sqlite:tickets"]}
    return Plan.model_validate(
        {"plan_id": "p1", "objective": objective, "steps": steps, "scope": scope, **more}
    )


@dataclass
class ScriptedHarness:
    """Runs of one home. ``publish`` gets every recorded event as the front door sends it."""

    home: Home
    plan: Callable[[str], Plan] = reading_plan
    ask: bool = False
    policy: Policy = field(default_factory=Policy)
    publish: Callable[[dict[str, Any]], None] = lambda event: None
    runs: dict[str, Run] = field(default_factory=dict)
    effects: list[Any] = field(default_factory=list)
    now_ms: int = 1_700_000_000_000

    def __post_init__(self) -> None:
        self.home.prepare()
        ring = KeyRing(self.home.keys)
        self.journal = Journal.open(self.home.journal, ring.private(LOG_KEY), ORIGIN)
        self.artifacts = ArtifactStore.open(self.home.artifacts)
        self.host = Ed25519PrivateKey.generate()
        write_public_key(self.home.keys / "hosts/read.pub", public_bytes(self.host))

    def close(self) -> None:
        self.journal.close()
        self.artifacts.close()

    def submit(self, envelope: bytes, request: Request, plan: Plan | None = None) -> Run:
        mandate = Mandate.peek(envelope)
        descriptors = {one.full_name: one for one in (READ, WRITE)}
        return self._give(
            mandate.run_id,
            Submitted(
                **self._moment(),
                mandate=mandate,
                mandate_envelope=envelope,
                submitter="k1",
                request=request,
                agent=AGENT,
                descriptors=descriptors,
                digests={"policy": ""},
                capabilities=["rank sales"],
                policy=self.policy,
                from_run=mandate.from_run or "",
                plan=plan,
            ),
        )

    def approve(self, run_id: str, envelope: bytes) -> Run:
        ring = KeyRing(self.home.keys)
        public = ring.public("person")
        approval, signer = Approval.open(envelope, {key_id(public): public})
        return self._give(
            run_id, Approved(**self._moment(), approval=approval, envelope=envelope, approver=signer)
        )

    def reject(self, run_id: str, gate: str, feedback: str | None) -> Run:
        return self._give(run_id, Rejected(**self._moment(), gate=gate, feedback=feedback))

    def answer(self, run_id: str, text: str) -> Run:
        self.ask = False
        return self._give(run_id, Answered(**self._moment(), text=text))

    def edit(self, run_id: str, gate: str, plan: Plan) -> Run:
        return self._give(run_id, Edited(**self._moment(), gate=gate, plan=plan))

    def guide(self, run_id: str, text: str) -> Run:
        return self._give(run_id, Guided(**self._moment(), text=text))

    def amend(self, run_id: str, envelope: bytes, request: Request) -> Run:
        mandate = Mandate.peek(envelope)
        return self._give(
            run_id,
            Amended(**self._moment(), request=request, mandate=mandate, envelope=envelope, submitter="k1"),
        )

    def cancel(self, run_id: str) -> Run:
        return self._give(run_id, CancelAsked(**self._moment()))

    def gate(self, run_id: str) -> dict[str, Any]:
        """The answer to ``gate``."""
        run = self.runs[run_id]
        view = gates.view(run)
        assert run.plan is not None
        return {
            "gate": view.gate_id,
            "kind": view.kind,
            "step_id": view.step_id,
            "plan": run.plan.to_data(),
            "plan_digest": run.plan_digest,
            "before": None if run.previous_plan is None else run.previous_plan.to_data(),
            "steps": {name: one.to_data() for name, one in view.steps.items()},
            "arguments": dict(view.arguments),
            "descriptors": {name: one.to_data() for name, one in run.descriptors.items()},
            "scope_digest": view.scope,
            "budget": dict(run.mandate.budget),
            "policy_digest": view.policy,
            "text": view.text,
            "shown": view.shown,
        }

    def _moment(self) -> dict[str, Any]:
        self.now_ms += 10
        return {"now_ms": self.now_ms, "fresh": f"{self.now_ms:032x}"}

    def _give(self, run_id: str, stimulus: Stimulus) -> Run:
        salt = self.artifacts.salt_for(run_id)
        decision = decide(self.runs.get(run_id), stimulus, lambda data: salted_digest(salt, data))
        if decision.events:
            self._record(run_id, decision.events)
        if decision.run is not None:
            self.runs[run_id] = decision.run
        if decision.refusal is not None:
            raise decision.refusal
        for order in decision.orders:
            answer = self._performed(run_id, order)
            if answer is not None:
                self._give(run_id, answer)
        return self.runs[run_id]

    def _record(self, run_id: str, events: Any) -> None:
        attached = {(n, name): data for n, one in enumerate(events) for name, data in one.attached.items()}
        self.artifacts.put_many(run_id, attached)
        leaves = [
            {
                "v": 1,
                "time_ms": self.now_ms,
                "run_id": run_id,
                "kind": one.kind,
                "epoch": 0,
                "cause": "",
                "facts": canon.decode(canon.encode(dict(one.facts))),
                "artifacts": dict(one.artifacts),
            }
            for one in events
        ]
        for seq, leaf in zip(self.journal.append(leaves), leaves, strict=True):
            self.publish(_published(seq, leaf))

    def _performed(self, run_id: str, order: Any) -> Stimulus | None:
        moment = self._moment()
        match order:
            case Bind():
                question = QUESTION if self.ask else None
                return Bound(**moment, binding=Binding(playbook="ranking", question=question))
            case LookUpPlan():
                return CacheReplied(**moment, outcome="miss")
            case Draft():
                return Drafted(**moment, plan=self.plan(self.runs[run_id].request.text))
            case Dispatch():
                outcomes = [self._ran(run_id, call, order.wave, n) for n, call in enumerate(order.calls)]
                return StepsReturned(**moment, outcomes=outcomes)
            case CheckSteps():
                checks = [_check(name) for name in order.step_ids]
                return ChecksReturned(**moment, checks=checks)
            case PrepareVerification():
                return ReadsWanted(**moment, reads=[])
            case PrepareChecks():
                return ReadsWanted(**moment, reads=[], purpose="checks")
            case Judge():
                return Judged(
                    **moment,
                    outcome="pass",
                    reason="",
                    checks=[_check(name) for name in self.runs[run_id].steps],
                )
        return None

    def _ran(self, run_id: str, call: Any, wave: int, number: int) -> StepOutcome:
        output = {"report": REPORT, "name": "B6", "amount": 9512}
        if call.tool == WRITE.full_name:
            self.effects.append(call.arguments)
            output = {"written": 1}
        return StepOutcome(
            step_id=call.step_id,
            attempt=call.attempt,
            wave=wave,
            outcome="ok",
            output=canon.encode(output),
            receipt=self._receipt(run_id, call, output, number),
            arguments=arguments_digest(call.arguments),
            host="read",
            node="n1",
            started_ms=self.now_ms + number * 10,
            ended_ms=self.now_ms + 100,
            duration_us=100_000,
            rows=7,
        )

    def _receipt(self, run_id: str, call: Any, output: Any, number: int) -> bytes:
        """What a host of this home would sign."""
        receipt = Receipt(
            run_id=run_id,
            step_id=call.step_id,
            attempt=call.attempt,
            grant=f"{number:032x}",
            host="read",
            epoch=1,
            outcome="ok",
            arguments=arguments_digest(call.arguments),
            output=output_digest(canon.encode(output)),
            fingerprints={"sales": "f" * 64},
            rows_scanned=7,
            started_ms=self.now_ms + number * 10,
            ended_ms=self.now_ms + 100,
            duration_us=100_000,
        )
        return Receipt.sign_all([receipt], self.host)


def _check(step_id: str) -> dict[str, Any]:
    return {
        "check_id": f"schema:{step_id}",
        "kind": "schema",
        "step_id": step_id,
        "outcome": "pass",
        "reason": "",
    }


def _published(seq: int, leaf: dict[str, Any]) -> dict[str, Any]:
    """An event as the front door sends it."""
    kept = {name: leaf[name] for name in ("run_id", "kind", "epoch", "cause", "facts")}
    return {**kept, "seq": seq, "time": utc(leaf["time_ms"]), "phase": leaf["facts"]["phase"]}
