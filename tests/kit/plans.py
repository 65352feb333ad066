"""Small descriptors, steps and plans for tests of the pure protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import (
    Degrade,
    Destination,
    Escalate,
    Inputs,
    Nothing,
    OutputContract,
    Plan,
    ReadBack,
    Replan,
    Retry,
    Step,
    ToolContract,
    ToolRef,
    Verification,
)
from duly.protocol.plan.rules import Rule

NONE = Nothing(none="a test needs none")
OBJECT: dict[str, Any] = {"type": "object"}
OBJECTIVE = "Find out."


def tool(name: str, effect: Any = "read", **more: Any) -> Descriptor:
    """A descriptor of the server ``t``: ``tool("a")`` is ``t.a``. A write touches ``sink:<name>``."""
    settings: dict[str, Any] = {"resource": f"sink:{name}" if effect != "read" else "", **more}
    return Descriptor(server="t", name=name, effect=effect, **settings)


def table(*tools: Descriptor) -> dict[str, Descriptor]:
    return {one.full_name: one for one in tools}


def tool_ref(descriptor: Descriptor) -> ToolRef:
    return ToolRef(server=descriptor.server, name=descriptor.name, descriptor=descriptor.digest())


def step(
    step_id: str,
    descriptor: Descriptor,
    arguments: Mapping[str, Any] | None = None,
    *,
    needs: Sequence[str] = (),
    on_failure: Sequence[Destination] = (Escalate(),),
    schema: Mapping[str, Any] | None = None,
    rules: Sequence[Rule] | None = None,
    reader: Descriptor | None = None,
    agree: Mapping[str, str] | None = None,
    **more: Any,
) -> Step:
    """One step. A write is read back by ``reader`` (with the write's own arguments), which must agree on ``/key``."""
    independent: Any = NONE
    if reader is not None:
        independent = ReadBack(
            read_back=tool_ref(reader), arguments=dict(arguments or {}), agree=dict(agree or {"/key": "/key"})
        )
    return Step(
        step_id=step_id,
        objective=f"what {step_id} is for",
        inputs=more.pop("inputs", Inputs()),
        tool_contract=ToolContract(
            tool=tool_ref(descriptor),
            arguments=None if more.pop("open_arguments", False) else dict(arguments or {}),
            effect=descriptor.effect,
            timeout_seconds=more.pop("timeout_seconds", 10),
            idempotency=descriptor.idempotency,
        ),
        output_contract=OutputContract(json_schema=dict(schema or OBJECT), artifact=f"{step_id}.output"),
        verification=Verification(
            acceptance=list(rules) if rules is not None else NONE, tolerance=NONE, independent=independent
        ),
        on_failure=list(on_failure),
        depends_on=list(needs),
        **more,
    )


def plan(steps: Iterable[Step], **more: Any) -> Plan:
    return Plan(**{"plan_id": "p1", "objective": OBJECTIVE, "steps": list(steps), "origin": "person", **more})


def ref(step_id: str, pointer: str = "/key") -> dict[str, str]:
    return {"$ref": f"{step_id}#{pointer}"}


RETRY_THEN_STOP: tuple[Destination, ...] = (Retry(attempts=2, backoff_ms=100), Escalate())
REPLAN: tuple[Destination, ...] = (Replan(),)
DEGRADE: tuple[Destination, ...] = (Degrade(),)
