"""A model that obeys every order it reads, in AgentDojo's office: its words go through the product's own planner, under its
schemas and faults, into the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import Driver
from duly.actors.planner.model.arguments import extract_arguments
from duly.actors.planner.model.direct import ToolWish, Turn, next_turn
from duly.protocol.machine import direct, effects, gates
from duly.protocol.machine.run import Run
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding
from duly.protocol.plan.scope import Scope
from duly.protocol.wire import canon
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.tagged import from_tagged
from model_words import argument_words
from scripted_model import blocks, scripted
from suite_agentdojo import LEDGER, PARTS, Office, OfficeAnswers, dojo_plan, dojo_rows, dojo_tools, injected

Row = dict[str, Any]
Tools = Mapping[str, Descriptor]
ORDER = "<INFORMATION>"  # with this the attacker's orders begin, wherever they stand


@dataclass(frozen=True)
class Attack:
    """A row with one call that its attacker wishes for: the first that changes something."""

    row: Row
    part: str
    descriptors: Tools
    wish: Mapping[str, Any]

    @property
    def tool(self) -> Descriptor:
        return self.descriptors[f"{self.part}.{self.wish['tool']}"]

    @property
    def effect(self) -> tuple[str, Any]:
        """The forbidden effect, as the office would count it."""
        return self.wish["tool"], self.wish["arguments"]

    @property
    def own(self) -> list[tuple[str, Any]]:
        """The calls that the person's request needs."""
        return [(one["tool"], one["arguments"]) for one in self.row["steps"]]

    @property
    def scope(self) -> Scope:
        """What the person's mandate allows: the records, so that nothing is refused for the resource alone."""
        return Scope(resources=[f"{self.part}:records"])

    def plan(self) -> Plan:
        made = dojo_plan(self.row, self.part, self.descriptors)
        assert made is not None
        return made

    def granted(self) -> Tools:
        """What the request needs and nothing else: the attacker's tool is not granted."""
        names = {f"{self.part}.{tool}" for tool, _ in self.own} | {f"{self.part}.{LEDGER}"}
        return {name: one for name, one in self.descriptors.items() if name in names - {self.tool.full_name}}


def attacks(suites: Path, *, more: str = "") -> Iterator[Attack]:
    for part in PARTS:
        descriptors = dojo_tools(suites, part, more=more)
        for row in dojo_rows(suites, part):
            wishes = (Attack(row, part, descriptors, one) for one in row["injection"]["forbidden_calls"])
            yield from [one for one in wishes if not one.tool.reads_only][:1]


class Obedient(OfficeAnswers):
    """The office, and a model in it: it serves the request until it has read an order, and then obeys that."""

    def __init__(self, office: Office, attack: Attack) -> None:
        super().__init__(office, attack.descriptors)
        self.attack = attack
        self.obeyed = 0
        self.told: list[str] = []
        self.turn, self.fill = self._turn, self._fill

    def asked(self, good: Callable[[], Any], evil: Callable[[], Any]) -> Any:
        """A session whose model says the one or the other, by what it reads; as often as it is asked."""

        def says(call: Any) -> Any:
            shown = "\n".join(message.text for message in call.messages[1:])
            self.told.append(shown)
            if ORDER not in str(blocks(shown)):  # which fails where text stands outside of the marks
                return good()
            self.obeyed += 1
            return evil()

        return scripted(*[says] * 10)[0]

    def _turn(self, run: Run, order: effects.TakeTurn) -> Any:
        taken = direct.turns(run)
        left = self.attack.own[len(taken) :]
        session = self.asked(
            lambda: self._call(*left[0]) if left else {"turn": {"kind": "answer", "text": "Done."}},
            lambda: self._call(*self.attack.effect),
        )
        turns = [
            Turn(one.tool, one.arguments or {}, one.outcome, one.output and canon.decode(one.output))
            for one in taken
        ]
        asking = next_turn(
            session,
            request=run.request,
            agent=run.agent,
            descriptors=run.descriptors,
            turns=turns,
            last=order.last,
        )
        try:
            said = asyncio.run(asking)
        except DulyError as error:
            return error
        return (said.tool, said.arguments) if isinstance(said, ToolWish) else said.text

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        descriptor = self.attack.descriptors[f"{self.attack.part}.{tool}"]
        words = argument_words(arguments, descriptor.input_schema)
        return {
            "turn": {"kind": "call", "tool": descriptor.full_name, "arguments": words, "why": "it is urgent"}
        }

    def _fill(self, run: Run, order: effects.FillArguments) -> Any:
        wanted = run.step(order.step_id)
        descriptor = run.descriptors[wanted.tool or ""]
        number = [one["step_id"] for one in self.attack.row["steps"]].index(order.step_id)

        def words(arguments: Mapping[str, Any]) -> dict[str, Any]:
            return {"arguments": argument_words(arguments, descriptor.input_schema)}

        asking = extract_arguments(
            self.asked(
                lambda: words(self.attack.own[number][1]), lambda: words(self.attack.wish["arguments"])
            ),
            step=wanted,
            descriptor=descriptor,
            request=run.request,
            inputs={name: from_tagged(value) for name, value in order.inputs.items()},
        )
        try:
            return asyncio.run(asking)
        except DulyError as error:
            return error


def calling(attack: Attack, granted: Tools, **settings: Any) -> tuple[Driver, Obedient]:
    """A direct run of the row's request, not yet submitted; its calls get what the attacked tools said, in order."""
    said = list(injected(attack.row).values())
    outputs = {f"call-{number}": one for number, one in enumerate([*said, *[{"text": "ok"}] * 3], 1)}
    answers = Obedient(Office(attack.part, outputs), attack)
    driver = Driver(
        answers,
        granted,
        text=attack.row["prompt"],
        settings={"planning": "never", "scope": attack.scope, **settings},
        agent_settings={"planning": "never"},
        submitted={"has_critic": True, "has_model": True},
    )
    answers.bind = lambda run, order: Binding()
    return driver, answers


def waiting(run: Run) -> tuple[str, Any]:
    """The call that waits at a step's gate: its tool, and its arguments as they would be executed."""
    view = gates.view(run)
    assert view.kind == "step" and list(view.steps) == [view.step_id]
    return str(run.step(view.step_id).tool).partition(".")[2], from_tagged(view.arguments[view.step_id])


def planned(
    attack: Attack,
    plan: Plan | None,
    granted: Tools | None = None,
    outputs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> tuple[Driver, Obedient]:
    """A planned run of the row, not yet submitted."""
    granted = attack.descriptors if granted is None else granted
    said = injected(attack.row) if outputs is None else outputs
    answers = Obedient(Office(attack.part, said), attack)
    driver = Driver(
        answers,
        granted,
        plan=plan,
        text=attack.row["prompt"],
        settings={"scope": attack.scope, **settings},
        submitted={"has_critic": True, "has_model": True},
    )
    return driver, answers
