"""tau-bench's retail rows as plans of real writes, and the recorded shop in which they run.

A row is what people of a shop did: cancellations, changes, returns, exchanges, each with its recorded result or error. Its
tools write or read by their names. Every write is read back through ``get_order_details`` by the order's id: what the
arguments say must stand in the order as the shop keeps it. Where the shop keeps a list in an order of its own (returned and
exchanged items are sorted, changed items keep their places) its elements are agreed one by one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from answers import Answers, CallFailure
from driver import Driver
from duly.protocol.judgement.checks import Check, Outcome
from duly.protocol.machine import effects
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import StepOutcome
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Destination, Escalate, Plan
from duly.protocol.plan.rules import EqualsRule
from duly.protocol.wire import canon
from plans import plan, step, table
from suite_rows import rows

SERVER = "retail"
READER = "get_order_details"
READS = ("get_", "find_", "list_", "calculate", "think")
LEAVES = ("transfer_to_human_agents",)
STATUS = {  # what the shop's manual says of an order after each kind of write
    "cancel_pending_order": "cancelled",
    "exchange_delivered_order_items": "exchange requested",
    "modify_pending_order_address": "pending",
    "modify_pending_order_items": "pending (item modified)",
    "modify_pending_order_payment": "pending",
    "return_delivered_order_items": "return requested",
}
TOOL_ERROR = "tool.error"


def retail_rows(suites: Path) -> list[dict[str, Any]]:
    """Both files' rows, the small one first."""
    return [row for part in ("dev", "train") for row in rows(suites / f"tau_retail_{part}.jsonl")]


def retail_tools(suites: Path) -> dict[str, Descriptor]:
    """The shop's tools by full name: closed inputs, JSON objects as outputs of what concerns an order."""
    listed = json.loads((suites / "tau_retail_tools.json").read_text(encoding="utf-8"))
    return table(*(_descriptor(one["function"]) for one in listed))


def _descriptor(tool: Mapping[str, Any]) -> Descriptor:
    name = tool["name"]
    reads = name.startswith(READS)
    return Descriptor(
        server=SERVER,
        name=name,
        description=tool["description"],
        input_schema={**tool["parameters"], "additionalProperties": False},
        output_schema={"type": "object", "required": ["order_id", "status"]} if "order" in name else {},
        effect="read" if reads else "external" if name in LEAVES else "write",
        resource="" if reads else f"{SERVER}:orders" if "order" in name else f"{SERVER}:users",
    )


def retail_plan(
    row: Mapping[str, Any],
    descriptors: Mapping[str, Descriptor],
    *,
    on_failure: Sequence[Destination] = (Escalate(),),
    **more: Any,
) -> Plan:
    """The row's calls in their order, each accepted by its status and read back."""
    made = []
    for one in row["steps"]:
        tool, given = descriptors[f"{SERVER}.{one['tool']}"], one["arguments"]
        reader = descriptors[f"{SERVER}.{READER}"]
        whole = step(
            one["step_id"],
            tool,
            given,
            reader=reader,
            agree=_agreed(one),
            rules=[
                EqualsRule(rule="equals", path="/order_id", value=given["order_id"]),
                EqualsRule(rule="equals", path="/status", value=STATUS[one["tool"]]),
            ],
            on_failure=on_failure,
        )
        back = whole.verification.independent.model_copy(
            update={"arguments": {"order_id": given["order_id"]}}
        )
        checked = whole.verification.model_copy(update={"independent": back})
        made.append(whole.model_copy(update={"verification": checked}))
    return plan(made, plan_id=row["id"], objective=row["instruction"], **more)


def _agreed(one: Mapping[str, Any]) -> dict[str, str]:
    """Pointer into the order -> pointer into the arguments, for every argument that the order keeps."""
    given = one["arguments"]
    found = {"/order_id": "/order_id"}
    match one["tool"]:
        case "cancel_pending_order":
            found["/cancel_reason"] = "/reason"
        case "modify_pending_order_address":
            found |= {f"/address/{name}": f"/{name}" for name in given if name != "order_id"}
        case "modify_pending_order_payment":
            found["/payment_history/1/payment_method_id"] = "/payment_method_id"
        case "return_delivered_order_items":
            found |= _sorted("return_items", "item_ids", given)
            found["/return_payment_method_id"] = "/payment_method_id"
        case "exchange_delivered_order_items":
            found |= _sorted("exchange_items", "item_ids", given)
            found |= _sorted("exchange_new_items", "new_item_ids", given)
            found["/exchange_payment_method_id"] = "/payment_method_id"
        case "modify_pending_order_items" if not one["is_error"]:
            places = [item["item_id"] for item in json.loads(one["result"])["items"]]
            for number, wanted in enumerate(given["new_item_ids"]):
                at = places.index(wanted)
                places[at] = ""  # the same article may stand twice in an order
                found[f"/items/{at}/item_id"] = f"/new_item_ids/{number}"
    return found


def _sorted(kept: str, name: str, given: Mapping[str, Any]) -> dict[str, str]:
    order = sorted(range(len(given[name])), key=lambda number: given[name][number])
    return {f"/{kept}/{at}": f"/{name}/{number}" for at, number in enumerate(order)}


class Refused(CallFailure):
    """A recorded error of a tool, with its sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(TOOL_ERROR)
        self.sentence = sentence


@dataclass
class Shop:
    """The recorded shop of one row: gives the recorded result of each recorded call and of no other.

    ``effects`` counts what really happened, by tool and canonical arguments; ``happened`` has it in order.
    """

    row: Mapping[str, Any]
    orders: dict[str, Any] = field(default_factory=dict)
    happened: list[tuple[str, Any]] = field(default_factory=list)
    effects: Counter[tuple[str, bytes]] = field(default_factory=Counter)

    def tools(self) -> dict[str, Callable[..., Any]]:
        names = {one["tool"] for one in self.row["steps"]}
        found: dict[str, Callable[..., Any]] = {f"{SERVER}.{name}": self._write(name) for name in names}
        return {**found, f"{SERVER}.{READER}": lambda order_id: self.orders[order_id]}

    def _write(self, name: str) -> Callable[..., Any]:
        recorded = {canon.encode(one["arguments"]): one for one in self.row["steps"] if one["tool"] == name}

        def call(**given: Any) -> Any:
            one = recorded[canon.encode(given)]  # a call that nobody recorded is a wrong argument
            if one["is_error"]:
                raise Refused(one["result"])
            order = json.loads(one["result"])
            self.orders[order["order_id"]] = order
            self.happened.append((name, given))
            self.effects[name, canon.encode(given)] += 1
            return order

        return call

    def holds(self, tool: str, arguments: Any) -> bool:
        """What a person sees who looks whether a call happened."""
        return self.effects[tool.removeprefix(f"{SERVER}."), canon.encode(arguments)] > 0


class ShopAnswers(Answers):
    """The recorded shop as hosts, with the sentences of its errors; a critic who says ``words`` one after the other, the
    last of them for good; a planner who plans the same calls again under another constraint."""

    def __init__(self, shop: Shop, words: Sequence[Outcome]) -> None:
        super().__init__(tools=shop.tools(), draft=_again)
        self.shop = shop
        self.words = words
        self.asked_critic = 0

    def call(self, driver: Driver, call: effects.Call, wave: int, outputs: dict[str, Any]) -> StepOutcome:
        outcome = super().call(driver, call, wave, outputs)
        if outcome.code != TOOL_ERROR:
            return outcome
        return replace(outcome, message=recorded(self.shop.row, call.step_id)["result"])

    def all_checks(self, run: Run, order: effects.Judge) -> list[Check]:
        checks = super().all_checks(run, order)
        if not order.critic:
            return checks
        word = self.words[min(self.asked_critic, len(self.words) - 1)]
        self.asked_critic += 1
        said = Check(check_id="critic", kind="critic", step_id="", outcome=word, reason=f"it said {word}")
        return [*(one for one in checks if one.kind != "critic"), said]


def _again(run: Run, order: effects.Draft) -> Plan:
    assert run.plan is not None
    return run.plan.model_copy(update={"constraints": [f"look again, {order.replan}"], "origin": "model"})


def recorded(row: Mapping[str, Any], step_id: str) -> Mapping[str, Any]:
    """The row's step of that id."""
    found: Mapping[str, Any] = next(one for one in row["steps"] if one["step_id"] == step_id)
    return found


def shop_driver(
    row: Mapping[str, Any],
    descriptors: Mapping[str, Descriptor],
    wanted: Plan,
    *,
    critic: Sequence[Outcome] = ("pass",),
    **settings: Any,
) -> tuple[Driver, Shop]:
    """A driver over the row's shop, not yet submitted; ``settings`` are fields of the mandate."""
    shop = Shop(row)
    driver = Driver(
        ShopAnswers(shop, critic),
        descriptors,
        plan=wanted,
        text=row["instruction"],
        settings=settings,
        submitted={"has_critic": True},
    )
    return driver, shop


def calls_of(row: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    return [(one["step_id"], f"{SERVER}.{one['tool']}", one["arguments"]) for one in row["steps"]]


def written(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The effects that the row recorded, in order."""
    return [(one["tool"], one["arguments"]) for one in row["steps"] if one["effect"] == "write"]


def failing(row: Mapping[str, Any]) -> list[str]:
    return [one["step_id"] for one in row["steps"] if one["is_error"]]


def through(driver: Driver, said: str) -> Run:
    """To the end: every gate is approved, every question answered with the same words."""
    run = driver.submit()
    while run.phase.waits:
        run = driver.approve() if run.gate is not None else driver.answer(said)
    assert driver.refusals == []
    return run


def once_each(shop: Shop, wanted: list[tuple[str, Any]]) -> None:
    assert shop.happened == wanted
    assert shop.effects == Counter((tool, canon.encode(given)) for tool, given in wanted)
    assert set(shop.effects.values()) <= {1}
