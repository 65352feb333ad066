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
from duly.protocol.wire.limits import (
    DIRECT_OBJECTIVE_CHARACTERS_MAX,
    MODEL_ANSWER_CHARS_MAX,
    MODEL_ATTEMPTS_MAX,
)

from ...model_session import Session
from .arguments import arguments_of
from .attempts import Form, attempted

__all__ = ["Answer", "ToolWish", "Turn", "next_turn", "turn_schema"]


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


_NONE = Answer("")  # what stands beside faults


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
    granted = {} if last else {name: descriptors[name] for name in agent.tools if name in descriptors}
    return await attempted(
        session,
        Form("direct", "turn", turn_schema(granted)),
        attempts=MODEL_ATTEMPTS_MAX,
        write=lambda earlier: work.direct(request, agent, granted, turns, earlier),
        read=lambda value: _turn(value, granted),
        refuse=_refusal,
    )


def _refusal(attempts: Sequence[list[Fault]]) -> ModelError:
    faults = attempts[-1]
    return ModelError(
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
        {
            "kind": _only("call"),
            "tool": _only(*tools),
            "arguments": arguments,
            "why": text(DIRECT_OBJECTIVE_CHARACTERS_MAX),
        }
    )


def _turn(value: Any, granted: Mapping[str, Descriptor]) -> tuple[Answer | ToolWish, list[Fault]]:
    """What a model's value says; nothing of it counts beside a fault."""
    turn = value.get("turn") if isinstance(value, dict) else None
    if not isinstance(turn, dict):
        return _NONE, [Fault("turn", "model.bad_answer", "a turn is a map: an answer or a call.")]
    if turn.get("kind") == "answer":
        said = turn.get("text")
        if isinstance(said, str) and said.strip():
            return Answer(said[:MODEL_ANSWER_CHARS_MAX]), []
        return _NONE, [Fault("turn/text", "model.bad_answer", "an answer has a text.")]
    if turn.get("kind") != "call" or not granted:
        allowed = "an answer or a call" if granted else "an answer; no call is left"
        return _NONE, [Fault("turn/kind", "model.bad_answer", f"a turn is {allowed}.")]
    descriptor = granted.get(str(turn.get("tool")))
    if descriptor is None:
        return _NONE, [Fault("turn/tool", "plan.tool_not_granted", "no such tool is granted to this agent.")]
    arguments, faults = arguments_of(turn, descriptor)
    why = str(turn.get("why", ""))[:DIRECT_OBJECTIVE_CHARACTERS_MAX]
    wish = ToolWish(descriptor.full_name, arguments, why)
    return wish, [Fault(f"turn/{fault.path}", fault.code, fault.message) for fault in faults]
