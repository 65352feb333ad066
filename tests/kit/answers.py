"""What the world answers to the machine's orders in tests: planner, cache, hosts, verifier; each part can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.protocol.authority.grant import arguments_digest
from duly.protocol.judgement.checks import Check, check_output, check_read_back
from duly.protocol.judgement.verdict import judge
from duly.protocol.machine import effects, gates, stimuli
from duly.protocol.machine.effects import Call
from duly.protocol.machine.run import DONE, Run
from duly.protocol.machine.stimuli import StepOutcome, Stimulus
from duly.protocol.plan import refs
from duly.protocol.plan.plan import Plan, ReadBack, SourceInput
from duly.protocol.plan.request import Binding, Question
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError, PlanError
from duly.protocol.wire.tagged import from_tagged, to_tagged
from model_uses import used

if TYPE_CHECKING:
    from driver import Driver


class CallFailure(Exception):
    """What a tool raises to make its call come back in another way than with an output.

    ``outcome``: ``error``, ``unknown``, ``not_started``, ``lost``.
    """

    def __init__(self, code: str, *, outcome: Any = "error", transient: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.outcome = outcome
        self.transient = transient


Tool = Callable[..., Any]


@dataclass
class Answers:
    """``tools`` maps full tool names to functions of keyword arguments that give plain values.

    ``bind`` and ``draft`` stand for the planner; ``draft`` gives a plan, a question, or an error. ``cached`` is what the
    plan cache has. ``judge`` changes the checks before they are judged, ``probe`` says whether a write happened, ``policy``
    whether a call is gated, ``fill``, ``reason`` and ``turn`` what a model says, ``critic`` the outcome of its check. ``fingerprints`` are the sources' marks.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    bind: Callable[[Run, effects.Bind], Binding] = lambda run, order: Binding(playbook="p")
    draft: Callable[[Run, effects.Draft], Plan | Question | DulyError] = lambda run, order: PlanError(
        "plan.no_alternative", "There is no other way."
    )
    cached: Callable[[Run], dict[str, Any]] = lambda run: {"outcome": "miss"}
    judge: Callable[[Run, list[Check]], list[Check]] = lambda run, checks: checks
    probe: Callable[[Run, effects.Probe], tuple[str, Any]] = lambda run, order: ("unknown", None)
    fill: Callable[[Run, effects.FillArguments], dict[str, Any] | DulyError] = lambda run, order: {}
    reason: Callable[[Run, effects.Reason], Any] = lambda run, order: {"said": sorted(order.inputs)}
    turn: Callable[[Run, effects.TakeTurn], str | tuple[str, dict[str, Any]] | DulyError] = (
        lambda run, order: "That is all."
    )
    policy: Callable[[Run, effects.JudgePolicy], bool] = lambda run, order: True
    critic: Callable[[Run], str] = lambda run: "pass"
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    one_by_one: bool = False  # every call of a concurrent level comes back in a message of its own
    called: list[tuple[str, str, Any]] = field(default_factory=list)  # step, tool, arguments
    stored: list[effects.StorePlan] = field(default_factory=list)
    cancelled: int = 0

    def perform(self, driver: Driver, order: effects.Order) -> Iterator[Stimulus]:
        """The answers to an order, in the order in which they arrive. The run is asked when the answer is made."""
        run = driver.run
        assert run is not None

        def stimulus(kind: type[Any], **fields: Any) -> Stimulus:
            made: Stimulus = kind(**driver.moment(), order=order.key, **fields)
            return made

        match order:
            case effects.Bind():
                yield stimulus(stimuli.Bound, binding=self.bind(run, order))
            case effects.LookUpPlan():
                yield stimulus(stimuli.CacheReplied, **self.cached(run))
            case effects.Draft():
                drafted = _draft(self.draft(run, order))
                uses = [used(50)] if order.model else []
                yield stimulus(stimuli.Drafted, **drafted, uses=uses, fingerprints=self.fingerprints)
            case effects.Dispatch():
                outcomes = self.dispatch(driver, order)
                for group in ([one] for one in outcomes) if self.one_by_one else [outcomes]:
                    yield stimulus(stimuli.StepsReturned, outcomes=group)
            case effects.FillArguments():
                filled = self.fill(run, order)
                given = {"error": filled} if isinstance(filled, DulyError) else {"arguments": filled}
                uses = [used(20, purpose="arguments")]
                yield stimulus(stimuli.ArgumentsFilled, step_id=order.step_id, uses=uses, **given)
            case effects.Reason():
                outcome = self.reasoned(driver, order)
                yield stimulus(stimuli.StepsReturned, outcomes=[outcome], uses=[used(30, purpose="reason")])
            case effects.TakeTurn():
                yield stimulus(
                    stimuli.TurnAnswered, uses=[used(40, purpose="direct")], **_turn(self.turn(run, order))
                )
            case effects.Probe():
                outcome, value = self.probe(run, order)
                data = None if value is None else canon.encode(to_tagged(value))
                yield stimulus(stimuli.Probed, step_id=order.step_id, outcome=outcome, output=data)
            case effects.JudgePolicy():
                yield stimulus(stimuli.PolicyJudged, step_id=order.step_id, gated=self.policy(run, order))
            case effects.PrepareChecks():
                yield stimulus(stimuli.ReadsWanted, reads=_read_backs(run, order.step_ids), purpose="checks")
            case effects.CheckSteps():
                checks = [check for name in order.step_ids for check in _output_checks(run, name)]
                checks = self.judge(run, checks + self._read_back(run, order.reads))
                yield stimulus(stimuli.ChecksReturned, checks=_data(checks), rows=len(order.reads))
            case effects.PrepareVerification():
                yield stimulus(stimuli.ReadsWanted, reads=_read_backs(run, list(run.steps)))
            case effects.Judge():
                checks = self.judge(run, self.all_checks(run, order))
                outcome, reason = judge(checks)
                yield stimulus(
                    stimuli.Judged,
                    outcome=outcome,
                    reason=reason,
                    checks=_data(checks),
                    rows=len(order.reads),
                    uses=[used(10, purpose="critic")] if order.critic else [],
                )
            case effects.StorePlan():
                self.stored.append(order)
            case effects.CancelCalls():
                self.cancelled += 1
            case _:
                raise TypeError(order)

    def dispatch(self, driver: Driver, order: effects.Dispatch) -> list[StepOutcome]:
        """Every call of a dispatch; a serial one stops at the first failure, like a host."""
        found: list[StepOutcome] = []
        outputs: dict[str, Any] = {}
        for call in order.calls:
            stopped = order.mode == "serial" and any(one.outcome != "ok" for one in found)
            one = _plain(call, order.wave, "not_started", "tool.not_started") if stopped else None
            found.append(one or self.call(driver, call, order.wave, outputs))
        return found

    def reasoned(self, driver: Driver, order: effects.Reason) -> StepOutcome:
        """What a model made of a reason step's inputs."""
        assert driver.run is not None
        value = self.reason(driver.run, order)
        common: dict[str, Any] = {"step_id": order.step_id, "attempt": order.attempt, "wave": order.wave}
        if isinstance(value, CallFailure):
            return StepOutcome(
                **common, outcome=value.outcome, code=value.code, transient=value.transient, tokens=30
            )
        return StepOutcome(
            **common,
            outcome="ok",
            output=canon.encode(to_tagged(value)),
            arguments=arguments_digest(dict(order.inputs)),
            tokens=30,
        )

    def call(self, driver: Driver, call: Call, wave: int, outputs: dict[str, Any]) -> StepOutcome:
        try:
            arguments = refs.resolve(call.arguments, outputs) if call.template else call.arguments
        except PlanError as error:
            return _plain(call, wave, "error", error.code)
        self.called.append((call.step_id, call.tool, arguments))
        try:
            value = self.tools[call.tool](**from_tagged(arguments))
        except CallFailure as failure:
            return _plain(call, wave, failure.outcome, failure.code, failure.transient)
        outputs[call.step_id] = to_tagged(value)
        return StepOutcome(
            step_id=call.step_id,
            attempt=call.attempt,
            wave=wave,
            outcome="ok",
            output=canon.encode(outputs[call.step_id]),
            receipt=b"receipt",
            arguments=arguments_digest(arguments),
            host="h1",
            node="n1",
            started_ms=driver.clock.now_ms,
            ended_ms=driver.clock.now_ms + 1,
            duration_us=1000,
            rows=1,
            fingerprints=dict(self.fingerprints),
        )

    def all_checks(self, run: Run, order: effects.Judge) -> list[Check]:
        """Schema and rules of every finished step, and the read-backs that the verifier's own host did."""
        assert run.plan is not None
        done = [step.step_id for step in run.plan.steps if run.steps[step.step_id].status in DONE]
        checks = [check for name in done for check in _output_checks(run, name)]
        return checks + self._read_back(run, order.reads) + (self._criticised(run) if order.critic else [])

    def _read_back(self, run: Run, reads: Sequence[Mapping[str, Any]]) -> list[Check]:
        found = []
        for read in reads:
            step = run.step(str(read["step_id"]))
            value = to_tagged(self.tools[read["tool"]](**from_tagged(read["arguments"])))
            found.append(check_read_back(step, gates.resolved(run, step), value))
        return found

    def _criticised(self, run: Run) -> list[Check]:
        """The critic's word on the run as a whole; ``silent`` is none at all."""
        word: Any = self.critic(run)
        if word == "silent":
            return []
        return [Check(check_id="critic", kind="critic", step_id="", outcome=word, reason=f"It says {word}.")]


def _turn(said: str | tuple[str, dict[str, Any]] | DulyError) -> dict[str, Any]:
    if isinstance(said, DulyError):
        return {"error": said}
    if isinstance(said, str):
        return {"answer": said}
    sources = [SourceInput(source=one, semantic_version="1") for one in said[2:]]
    return {"tool": said[0], "arguments": said[1], "why": "to know more", "sources": sources}


def _plain(call: Call, wave: int, outcome: Any, code: str, transient: bool = False) -> StepOutcome:
    return StepOutcome(
        step_id=call.step_id,
        attempt=call.attempt,
        wave=wave,
        outcome=outcome,
        code=code,
        message=f"{call.step_id} did not work",
        transient=transient,
    )


def _draft(answer: Plan | Question | DulyError) -> dict[str, Any]:
    if isinstance(answer, Plan):
        return {"plan": answer, "playbook": "p"}
    return {"question": answer} if isinstance(answer, Question) else {"error": answer}


def _output_checks(run: Run, step_id: str) -> list[Check]:
    step = run.step(step_id)
    return check_output(step, run.output(step_id), run.descriptors.get(step.tool or ""))


def _read_backs(run: Run, names: Collection[str]) -> list[dict[str, Any]]:
    assert run.plan is not None
    found = []
    for step in run.plan.steps:
        wanted = step.verification.independent
        if step.step_id in names and run.steps[step.step_id].status in DONE and isinstance(wanted, ReadBack):
            outputs = {name: run.output(name) for name in run.outputs}
            found.append(
                {
                    "read_id": f"read_back:{step.step_id}",
                    "step_id": step.step_id,
                    "tool": wanted.read_back.full_name,
                    "arguments": refs.resolve(wanted.arguments, outputs),
                }
            )
    return found


def _data(checks: list[Check]) -> list[dict[str, Any]]:
    return [check.to_data() for check in checks]
