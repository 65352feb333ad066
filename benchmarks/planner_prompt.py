"""What a planner's model is given for one draft, by the code that a run drafts with: over tools that a generator makes.

The generated tools look as those of business systems do: ten servers, a sentence or two about each tool, four to six
described arguments of which two are required, a result of four fields; every fourth tool writes.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import measured_package

from duly.actors.model_session import Session
from duly.actors.planner.model.plan import draft_plan
from duly.hosts.models.client import ModelAnswer
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.model_call import ModelCall
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.request import Binding, new_request
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.limits import DRAFT_TOKENS_MAX

REQUEST = (
    "Find the ten orders of last month that were delivered late, and tell their customers what happened."
)
MISSION = "Looks after the orders of a shop: finds what went wrong, tells customers, and mends what it may."
BYTES_PER_TOKEN = 4  # of English text; JSON takes more tokens
_THINGS = "orders customers invoices shipments tickets products stock payments suppliers returns".split()
_READS = "list get search count history totals export compare audit forecast open latest links notes owners".split()
_WRITES = "create update assign close merge".split()
_ARGUMENTS: Sequence[tuple[str, dict[str, Any]]] = (
    ("account", {"type": "string", "description": "Identifier of the account, as accounts.get returns it."}),
    ("id", {"type": "string", "description": "Identifier of the record, eleven letters and digits."}),
    ("since", {"type": "string", "description": "First day to look at, as YYYY-MM-DD; without it all of them."}),
    ("state", {"type": "string", "enum": ["open", "waiting", "done", "refused"], "description": "Only these."}),
    ("limit", {"type": "integer", "minimum": 1, "maximum": 500, "description": "How many at most."}),
    ("labels", {"type": "array", "items": {"type": "string"}, "description": "Labels, any of which suffices."}),
)  # fmt: skip
_GIVES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "records": {"type": "array", "items": {"type": "object"}},
        "total": {"type": "integer"},
        "currency": {"type": "string"},
        "complete": {"type": "boolean"},
    },
    "required": ["records", "total", "complete"],
}


@dataclass(frozen=True, slots=True)
class Draft:
    """The call of one draft, and the seconds of processor time that writing it took."""

    call: ModelCall
    cpu_s: float

    def row(self, tools: int) -> dict[str, Any]:
        """Bytes of its parts, and tokens: as a model host books them, and at four bytes a token.

        ``attempts``: so many such bookings fit into what one draft may take. Answers and faults of the attempts before,
        which come on top, are about made up for where a server counts fewer tokens than are booked.
        """
        system, message = (len(one.text.encode()) for one in self.call.messages)
        schema = len(json.dumps(self.call.json_schema, separators=(",", ":")))
        booked = self.call.prompt_tokens
        return {
            "tools": tools,
            "system_bytes": system,
            "message_bytes": message,
            "schema_bytes": schema,
            "prompt_bytes": system + message + schema,
            "tokens": (system + message + schema) // BYTES_PER_TOKEN,
            "tokens_booked": booked,
            "attempts": DRAFT_TOKENS_MAX // booked,
            "told": _told(message_of(self.call)),
            "arguments": "entries" if "arguments_1" not in self.call.json_schema["$defs"] else "exact",
            "cpu_ms": round(self.cpu_s * 1e3, 1),
        }


class _Kept:
    """Stands where the model host's client does: keeps the call, and answers that there is no model."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []

    async def ask(self, package: str, run_id: str, call: ModelCall, mandate: bytes) -> ModelAnswer:
        self.calls.append(call)
        error = ModelError("model.none", "Nobody is asked here.")
        return ModelAnswer(call.failed(error.code), b"", b"", None, error)


def draft_of(count: int, tries: int = 1) -> Draft:
    """The call with which a plan over ``count`` generated tools is asked for the first time; its time is the median."""
    tools = generated(count)
    package = load_package(dict(measured_package.FILES), "bench")
    made = [_draft(package, tools) for _ in range(tries)]
    return Draft(made[0].call, statistics.median(one.cpu_s for one in made))


def _draft(package: Package, tools: Mapping[str, Descriptor]) -> Draft:
    agent = AgentSpec(name="clerk", version="1", mission=MISSION, tools=sorted(tools))
    kept = _Kept()
    session = Session(kept, package="", run_id="", mandate=b"", tokens_max=DRAFT_TOKENS_MAX)
    began = time.process_time()
    with suppress(ModelError):
        asyncio.run(
            draft_plan(
                session,
                request=new_request(REQUEST),
                binding=Binding(),
                package=package,
                agent=agent,
                catalogue=Catalogue(),
                descriptors=tools,
                plan_id="p-bench",
                version=1,
                provenance=None,
                guidance=[],
                left=agent.budget,
            )
        )
    return Draft(kept.calls[0], time.process_time() - began)


def generated(count: int) -> dict[str, Descriptor]:
    """So many tools by name, at most 200; fewer are a part of more."""
    fours = list(zip(_READS[0::3], _READS[1::3], _READS[2::3], _WRITES, strict=True))
    names = [(thing, verb) for four in fours for thing in _THINGS for verb in four][:count]
    if len(names) < count:
        raise ValueError(f"there are {len(names)} tools to generate")
    tools = [_tool(thing, verb, number) for number, (thing, verb) in enumerate(names)]
    return {one.full_name: one for one in tools}


def _tool(server: str, verb: str, number: int) -> Descriptor:
    arguments = dict(_ARGUMENTS[: 4 + number % 3])
    writes = verb in _WRITES
    effect = "It changes the record and tells its owner." if writes else "It changes nothing."
    return Descriptor(
        server=server,
        name=verb,
        description=f"{verb.capitalize()} {server} of one account, the newest first, as the back office shows them. {effect}",
        input_schema={
            "type": "object",
            "properties": arguments,
            "required": ["account", "id"],
            "additionalProperties": False,
        },
        output_schema=_GIVES,
        effect="write" if writes else "read",
        resource=f"{server}:records" if writes else "",
    )


def message_of(call: ModelCall) -> str:
    """The marked data of a call; the prompt's text stands before it."""
    return call.messages[1].text


def _told(message: str) -> str:
    """In which of its ways the slice of the tools says what they take."""
    line = message.partition('<data name="tools">\n')[2].partition("\n")[0]
    takes = json.loads(line)[0].get("takes")
    if isinstance(takes, dict):
        return "schema" if "properties" in takes else "signature"
    return "nothing" if takes is None else "names"
