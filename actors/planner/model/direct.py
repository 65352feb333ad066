"""One turn of a direct run: the model answers, or asks for one call, which the harness grants or refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.model_schema import (
    Schema,
    closed,
    defined,
    definitions,
    either,
    fits,
    strict,
    text,
    whole,
)
from duly.protocol.plan.request import Request
from duly.protocol.views.slices import work
from duly.protocol.views.slices.work import Turn
from duly.protocol.wire.errors import Fault, ModelError
from duly.protocol.wire.limits import MODEL_ANSWER_CHARS_MAX, MODEL_ATTEMPTS_MAX

from ...model_session import Session, user
from ...prompt import load
from .arguments import arguments_of
from .attempts import asked

__all__ = ["Answer", "ToolWish", "Turn", "next_turn", "turn_schema"]
_WHY_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's last word; nobody has checked it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolWish:
    """A call that the model asks for: a granted tool, valid arguments in their tagged form."""

    tool: str
    arguments: dict[str, Any]
    why: str


async def next_turn(
    session: Session,
    *,
    request: Request,
    agent: AgentSpec,
    descriptors: Mapping[str, Descriptor],
    turns: Sequence[Turn],
    last: bool,
) -> Answer | ToolWish:
    """The next turn. With ``last`` only an answer is taken. Raises ``ModelError``; ``model.bad_answer`` with faults."""
    granted = {name: descriptors[name] for name in agent.tools if name in descriptors}
    form = turn_schema({} if last else granted)
    prompt = load("planner", "direct")
    earlier: list[tuple[Any, list[Fault]]] = []
    for _ in range(MODEL_ATTEMPTS_MAX):
        written = work.direct(request, agent, {} if last else granted, turns, earlier)
        value, faults = await asked(session, "direct", prompt, [user(written)], "turn", form)
        if not faults:
            found = _turn(value, {} if last else granted)
            if not isinstance(found, list):
                return found
            faults = found
        earlier.append((value, faults))
    faults = earlier[-1][1]
    raise ModelError(
        "model.bad_answer", f"The model neither answered nor asked for a call: {faults[0]}", faults=faults
    )


def turn_schema(descriptors: Mapping[str, Descriptor]) -> Schema:
    """``{"turn": answer | call}``: a call of one of these tools with its arguments, no call where there are none."""
    known = definitions()
    answer = closed({"kind": _only("answer"), "text": text(MODEL_ANSWER_CHARS_MAX)})
    names = sorted(descriptors)
    exact = [_call([name], strict(descriptors[name].input_schema)) for name in names]
    found = whole(closed({"turn": either(answer, *exact)}), known)
    if fits(found) or not names:
        return found
    return whole(closed({"turn": either(answer, _call(names, defined("object")))}), known)


def _only(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def _call(tools: list[str], arguments: Schema) -> Schema:
    return closed(
        {"kind": _only("call"), "tool": _only(*tools), "arguments": arguments, "why": text(_WHY_CHARS_MAX)}
    )


def _turn(value: Any, granted: Mapping[str, Descriptor]) -> Answer | ToolWish | list[Fault]:
    """What a model's value says, or every fault of it."""
    turn = value.get("turn") if isinstance(value, dict) else None
    if not isinstance(turn, dict):
        return [Fault("turn", "model.bad_answer", "a turn is a map: an answer or a call.")]
    if turn.get("kind") == "answer":
        said = turn.get("text")
        if isinstance(said, str) and said.strip():
            return Answer(said[:MODEL_ANSWER_CHARS_MAX])
        return [Fault("turn/text", "model.bad_answer", "an answer has a text.")]
    if turn.get("kind") != "call" or not granted:
        allowed = "an answer or a call" if granted else "an answer; no call is left"
        return [Fault("turn/kind", "model.bad_answer", f"a turn is {allowed}.")]
    descriptor = granted.get(str(turn.get("tool")))
    if descriptor is None:
        return [Fault("turn/tool", "plan.tool_not_granted", "no such tool is granted to this agent.")]
    arguments, faults = arguments_of(turn, descriptor)
    if faults:
        return [Fault(f"turn/{fault.path}", fault.code, fault.message) for fault in faults]
    return ToolWish(descriptor.full_name, arguments, str(turn.get("why", ""))[:_WHY_CHARS_MAX])
