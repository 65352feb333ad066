"""The in-process driver: the pure machine from request to verdict, over a record in memory and answers that a test gives.

It does what the harness does, in the same order (decide, journal, perform), with a clock of its own. It can crash before
or after any transaction of the journal and go on from the record alone. Whenever it stops it replays the record and
demands exactly the run that it holds.

    driver = Driver(answers, descriptors, plan=plan)
    run = driver.submit()          # until it ends or waits
    run = driver.approve()
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from answers import Answers
from duly.protocol.authority.approval import Approval
from duly.protocol.authority.mandate import Mandate, MandatedTool
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.machine import effects, gates, stimuli
from duly.protocol.machine.decide import Decision, decide
from duly.protocol.machine.events import Event
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import Stimulus
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request
from duly.protocol.plan.scope import Scope
from duly.protocol.wire.errors import AuthorityError, DulyError
from memory_record import MemoryRecord

START_MS = 1_700_000_000_000
ORDERS_MAX = 20_000  # a run that wants more goes round in circles


class Crashed(Exception):
    """The process is gone; ``Driver.resume`` starts the next one."""


@dataclass
class FakeClock:
    """Wall and monotonic time in one; it moves only when somebody moves it."""

    seed: int = 0
    now_ms: int = START_MS
    drawn: int = 0

    def fresh(self) -> str:
        self.drawn += 1
        return hashlib.sha256(f"{self.seed}/{self.drawn}".encode()).hexdigest()[:32]

    def key(self, name: str) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{self.seed}/{name}".encode()).digest())


@dataclass
class Driver:
    """One run. ``settings`` are fields of the mandate (tier, gate, budget, gated_tools, ...)."""

    answers: Answers
    descriptors: Mapping[str, Descriptor]
    plan: Plan | None = None
    text: str = "Find out."
    settings: Mapping[str, Any] = field(default_factory=dict)
    agent_settings: Mapping[str, Any] = field(default_factory=dict)
    submitted: Mapping[str, Any] = field(
        default_factory=dict
    )  # fields of the submission: policy, kept, has_critic, ...
    approver_name: str = ""  # of the person's key in the key ring
    resumed: Mapping[str, Any] = field(default_factory=dict)  # what the next start finds changed
    seed: int = 0
    order_ms: int = 10  # how long each order takes
    crash_before: int = 0  # this many events are never reached: the transaction that would is lost
    crash_after: int = 0  # the process dies once this many events are durable, before any order
    record: MemoryRecord = field(default_factory=MemoryRecord)
    run: Run | None = None
    events: list[Event] = field(default_factory=list)
    performed: list[effects.Order] = field(default_factory=list)
    refusals: list[DulyError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = FakeClock(self.seed)
        self.person = self.clock.key("person")
        self.todo: deque[effects.Order] = deque()
        self.timers: list[effects.Wake] = []
        self.epoch = 1
        self.lost = False  # whether what came last was lost in a crash
        self._active_since_ms = START_MS

    # what people do

    def submit(self) -> Run:
        return self.say(self.submission)

    def say(self, make: Callable[[], Stimulus]) -> Run:
        """What a person says. Whoever hears from a crash that it was lost says it again."""
        try:
            self.give(make())
        except Crashed:
            self.resume()
            if self.lost:
                return self.say(make)
        return self.go_on()

    def submission(self) -> stimuli.Submitted:
        """The signed order, ready to be given."""
        request = Request(text=self.text)
        agent = self._agent()
        plan = None if self.plan is None else self.plan.content_digest()
        opened, envelope, signer = self._mandate(request, {"plan": plan, **self.settings})
        return stimuli.Submitted(
            **self.moment(),
            mandate=opened,
            mandate_envelope=envelope,
            submitter=signer,
            request=request,
            agent=agent,
            descriptors=self.descriptors,
            digests={"policy": "policy-1", "semantics": ""},
            capabilities=["compare", "count"],
            epoch=self.epoch,
            plan=self.plan,
            **self.submitted,
        )

    def amendment(self, text: str, **settings: Any) -> stimuli.Amended:
        """Another objective for the same run, signed anew; ``settings`` are fields of its mandate."""
        request = Request(text=text)
        opened, envelope, signer = self._mandate(request, {**self.settings, **settings})
        return stimuli.Amended(
            **self.moment(), request=request, mandate=opened, envelope=envelope, submitter=signer
        )

    def _agent(self) -> AgentSpec:
        return AgentSpec(
            name="tester",
            version="1",
            tools=sorted(self.descriptors),
            **{"planning": "always", **self.agent_settings},
        )

    def _mandate(self, request: Request, fields: Mapping[str, Any]) -> tuple[Mandate, bytes, str]:
        """The mandate as it came, its envelope, and who signed it."""
        agent = self._agent()
        mandate = Mandate(
            **{
                "run_id": "r1",
                "agent": agent.name,
                "agent_version": agent.version,
                "package": "f" * 64,
                "request": request.digest(),
                "tier": agent.tier,
                "planning": agent.planning,
                "gate": agent.gate,
                "schedule": agent.schedule,
                "tools": {
                    name: MandatedTool(descriptor=one.digest(), effect=one.effect)
                    for name, one in self.descriptors.items()
                },
                "scope": Scope(),
                "budget": {"steps": 50, "tool_calls": 100, "wall_seconds": 600},
                "from_run": self.submitted.get("from_run") or None,
                "issued_ms": self.clock.now_ms,
                "expires_ms": self.clock.now_ms + 10**9,
                "nonce": self.clock.fresh(),
                **fields,
            }
        )
        envelope = mandate.sign(self.person)
        opened, signer = Mandate.open(envelope, self._people())
        return opened, envelope, signer

    def approval(self, **changes: Any) -> Approval:
        """What an approver would sign at the open gate, with some fields changed."""
        assert self.run is not None
        view = gates.view(self.run)
        fields: dict[str, Any] = {
            "run_id": self.run.run_id,
            "gate": view.gate_id,
            "kind": view.kind,
            "plan": self.run.plan_digest,
            "step_id": view.step_id,
            "steps": dict(view.steps),
            "scope": view.scope,
            "budget": dict(self.run.mandate.budget),
            "policy": view.policy,
            "shown": view.shown,
            "expires_ms": self.clock.now_ms + 10**8,
            "nonce": self.clock.fresh(),
        }
        return Approval(**{**fields, **changes})

    def approve(self, **changes: Any) -> Run:
        return self.give_approval(self.approval(**changes).sign(self.person))

    def give_approval(self, envelope: bytes) -> Run:
        """An approval as it came: opened with the known keys first, as the front door does."""
        try:
            approval, signer = Approval.open(envelope, self._people())
        except AuthorityError as refused:
            error = refused
            return self.say(lambda: stimuli.AuthorityRefused(**self.moment(), error=error))
        return self.say(
            lambda: stimuli.Approved(
                **self.moment(),
                approval=approval,
                envelope=envelope,
                approver=signer,
                approver_name=self.approver_name,
            )
        )

    def reject(self, feedback: str | None = None) -> Run:
        assert self.run is not None and self.run.gate is not None
        gate = self.run.gate.gate_id
        return self.say(lambda: stimuli.Rejected(**self.moment(), gate=gate, feedback=feedback))

    def edit(self, plan: Plan) -> Run:
        return self.say(lambda: stimuli.Edited(**self.moment(), plan=plan))

    def guide(self, text: str) -> Run:
        return self.say(lambda: stimuli.Guided(**self.moment(), text=text))

    def amend(self, text: str, **settings: Any) -> Run:
        return self.say(lambda: self.amendment(text, **settings))

    def answer(self, text: str) -> Run:
        return self.say(lambda: stimuli.Answered(**self.moment(), text=text))

    def cancel(self) -> Run:
        return self.say(lambda: stimuli.CancelAsked(**self.moment()))

    def _people(self) -> dict[str, bytes]:
        public = public_bytes(self.person)
        return {key_id(public): public}

    # the loop

    def go_on(self) -> Run:
        """Performs orders until the run ends or waits for a person; crashes and starts anew where that was asked for."""
        for _ in range(ORDERS_MAX):
            try:
                if not self._one_order():
                    return self.checked()
            except Crashed:
                self.resume()
        raise AssertionError(f"no end after {ORDERS_MAX} orders:\n{self.story()}")

    def _one_order(self) -> bool:
        assert self.run is not None
        if self.todo:
            order = self.todo.popleft()
            self.performed.append(order)
            self.clock.now_ms += self.order_ms
            for answer in self.answers.perform(self, order):
                self.give(answer)
            return True
        if self.run.phase.ended or self.run.phase.waits or not self.timers:
            return False
        self.wake()
        return True

    def wake(self) -> Run:
        """Lets the earliest timer fire."""
        timer = min(self.timers, key=lambda one: one.at_ms)
        self.timers.remove(timer)
        self.clock.now_ms = max(self.clock.now_ms, timer.at_ms)
        self.give(stimuli.TimePassed(**self.moment()))
        assert self.run is not None
        return self.run

    def moment(self) -> dict[str, Any]:
        return {"now_ms": self.clock.now_ms, "fresh": self.clock.fresh()}

    def give(self, stimulus: Stimulus) -> Decision:
        """One stimulus through decide, journal and orders. A refusal is kept in ``refusals``."""
        run = self.run
        if run is not None and not run.phase.waits and not run.phase.ended:
            elapsed = self.clock.now_ms - self._active_since_ms
            stimulus = _with_elapsed(stimulus, elapsed)
        decision = decide(run, stimulus, self.record.seal)
        if decision.refusal is not None:
            self.refusals.append(decision.refusal)
        if decision.events:
            self._journal(decision)
        for order in decision.orders:
            if isinstance(order, effects.Wake):
                self.timers = [one for one in self.timers if one.key != order.key] + [order]
            else:
                self.todo.append(order)
        return decision

    def _journal(self, decision: Decision) -> None:
        """A transaction, with the crashes that were asked for just before and just after it."""
        assert decision.run is not None
        size = len(self.record.leaves) + len(decision.events)
        if self.crash_before and size >= self.crash_before:
            self.crash_before, self.lost = 0, True
            raise Crashed
        self.record.append(decision.run.run_id, decision.events, now_ms=self.clock.now_ms, epoch=self.epoch)
        self.events += decision.events
        self.run = decision.run
        self._active_since_ms = self.clock.now_ms
        if self.crash_after and size >= self.crash_after:
            self.crash_after, self.lost = 0, False
            raise Crashed

    def resume(self) -> None:
        """A new process: the state is what the record says, and orders are what is pending in it."""
        self.todo.clear()
        self.timers.clear()
        if not self.record.leaves:
            self.run = None  # nothing was acknowledged, so whoever gave the order gives it again
            return
        self.run = self.checked()
        self.epoch += 1
        self._active_since_ms = self.clock.now_ms
        if not self.run.phase.ended:
            try:
                self.give(stimuli.Resumed(**self.moment(), epoch=self.epoch, **self.resumed))
            except Crashed:
                self.resume()

    def checked(self) -> Run:
        """The run, which is exactly what replaying the record gives."""
        assert self.run is not None
        replayed = self.record.replayed(self.run.run_id)
        assert replayed == self.run, f"the record gives another run:\n{self.story()}"
        return self.run

    # what tests look at

    def kinds(self) -> list[str]:
        return [one.kind for one in self.events]

    def facts(self, kind: str) -> list[Mapping[str, Any]]:
        """The facts of every event of a kind."""
        return [one.facts for one in self.events if one.kind == kind]

    def dispatches(self) -> list[tuple[str, list[str]]]:
        """Mode and step ids of every dispatch, in order."""
        return [
            (order.mode, [call.step_id for call in order.calls])
            for order in self.performed
            if isinstance(order, effects.Dispatch)
        ]

    def story(self) -> str:
        """What happened, one line an event."""
        shown = ("step_id", "attempt", "wave", "code", "then", "outcome", "trigger", "end", "reason", "said")
        lines = []
        for index, one in enumerate(self.events):
            facts = " ".join(f"{name}={one.facts[name]}" for name in shown if one.facts.get(name) is not None)
            lines.append(f"{index:4} {one.kind:24} {facts} -> {one.facts['phase']}")
        return "\n".join(lines)


def _with_elapsed(stimulus: Stimulus, elapsed_ms: int) -> Stimulus:
    return replace(stimulus, elapsed_ms=elapsed_ms) if elapsed_ms else stimulus


def run_plan(
    plan: Plan,
    descriptors: Mapping[str, Descriptor],
    tools: Mapping[str, Callable[..., Any]],
    *,
    approve: bool = True,
    said: Sequence[str] = (),
    **more: Any,
) -> Driver:
    """A person's plan from submission to its end: gates are approved, questions answered with ``said`` in order."""
    driver = Driver(Answers(tools=tools), descriptors, plan=plan, **more)
    run = driver.submit()
    waiting = list(said)
    while run.phase.waits:
        if run.gate is not None and approve:
            run = driver.approve()
        elif run.asked is not None and waiting:
            run = driver.answer(waiting.pop(0))
        else:
            break
    return driver
