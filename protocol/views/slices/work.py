"""What a model is given during a run: for the arguments of a step, for a reason step, for a turn of a direct run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...plan.agent import AgentSpec
from ...plan.descriptor import Descriptor
from ...plan.plan import Step
from ...plan.request import Request
from ...wire.errors import Fault
from ...wire.limits import MODEL_HANDLE_BYTES_MAX, MODEL_SLICE_BYTES_MAX
from .handles import handle, readable
from .marked import message, size
from .planning import request_of
from .tools import tools

Attempts = Sequence[tuple[Any, Sequence[Fault]]]
_TURNS_BYTES = MODEL_SLICE_BYTES_MAX // 2
_SMALL = 400


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a direct run, done: ``outcome`` is ``ok`` or the code of its failure, then ``message`` says more (a tool's words)

    ``output`` is tagged. A ``sensitive`` output is never shown.
    """

    tool: str
    arguments: Mapping[str, Any]
    outcome: str
    output: Any = None
    message: str = ""
    sensitive: bool = False


def arguments(
    step: Step,
    descriptor: Descriptor,
    request: Request,
    inputs: Mapping[str, Any],
    earlier: Attempts = (),
    withheld: Collection[str] = (),
) -> str:
    """For the arguments of one call: the step's objective, its tool, the request, and the step's inputs."""
    return message(
        {
            "step": {"objective": step.objective, "tool": descriptor.full_name},
            "request": request_of(request),
            "tool": tools({descriptor.full_name: descriptor}, gives=False)[0],
            "arguments_so_far": readable(step.tool_contract.arguments) or None,
            "inputs": _inputs(inputs, withheld) or None,
            "earlier_attempts": _earlier(earlier),
        }
    )


def reason(
    step: Step, inputs: Mapping[str, Any], earlier: Attempts = (), withheld: Collection[str] = ()
) -> str:
    """For a reason step: its objective and its inputs, and nothing else."""
    return message(
        {
            "step": {"objective": step.objective},
            "inputs": _inputs(inputs, withheld) or None,
            "earlier_attempts": _earlier(earlier),
        }
    )


def direct(
    request: Request,
    agent: AgentSpec,
    descriptors: Mapping[str, Descriptor],
    turns: Sequence[Turn],
    earlier: Attempts = (),
) -> str:
    """For one turn of a direct run: the request, the tools, and what the calls so far gave, the latest most fully."""
    return message(
        {
            "request": request_of(request),
            "agent": {"name": agent.name, "mission": agent.mission[:4_000]},
            "tools": tools(descriptors) or None,
            "calls": _turns(turns),
            "earlier_attempts": _earlier(earlier),
        }
    )


def _inputs(inputs: Mapping[str, Any], withheld: Collection[str]) -> dict[str, Any]:
    """Handles of inputs; many share the room of one slice."""
    room = max(_SMALL, min(4 * MODEL_HANDLE_BYTES_MAX, MODEL_SLICE_BYTES_MAX // 2 // max(1, len(inputs))))
    return {name: handle(value, room, withheld=name in withheld) for name, value in inputs.items()}


def _turns(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    room = _TURNS_BYTES
    told: list[dict[str, Any]] = []
    for turn in reversed(turns):
        one = _turn(turn, MODEL_HANDLE_BYTES_MAX if room > 0 else _SMALL)
        room -= size(one)
        told.append(one)
    return told[::-1]


def _turn(turn: Turn, room: int) -> dict[str, Any]:
    given = handle(dict(turn.arguments), room)
    told: dict[str, Any] = {"tool": turn.tool, "arguments": given, "outcome": turn.outcome}
    if turn.message and (
        not turn.sensitive or turn.outcome.startswith("gate.")
    ):  # a person's words, no tool's
        told["message"] = turn.message[:2_000]
    if turn.outcome == "ok":
        told["output"] = handle(turn.output, room, withheld=turn.sensitive)
    return told


def _earlier(earlier: Attempts) -> list[dict[str, Any]]:
    return [
        {"answer": handle(value), "faults": [fault.to_data() for fault in faults]}
        for value, faults in earlier
    ]
