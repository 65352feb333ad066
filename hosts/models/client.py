"""How planners, verifiers and the doctor talk to a model host.

host = ModelHostClient(path)
answer = await host.ask(package, run_id, call, mandate)
answer.value, answer.error, answer.use, answer.request, answer.response
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.model_call import ModelCall, ModelUse
from duly.protocol.plan.model_faults import UnfitAnswer
from duly.protocol.wire.errors import DulyError, ModelError, RuntimeFault, error_of

from ..client import Channel, checked
from ..framing import Frame, Message


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a call gave: ``value`` where ``error`` is ``None``; always what it took and what was sent and received.

    ``error`` is a ``ModelError`` whatever its code, so that a caller has one thing to catch; an ``UnfitAnswer`` where
    there is a value that breaks the schema. ``request`` and ``response`` are the exact bytes without keys, empty where
    nothing was sent or received.
    """

    use: ModelUse
    request: bytes
    response: bytes
    value: Any
    error: ModelError | None


class ModelHostClient(Channel):
    """A model host. Raises ``RuntimeFault`` only: ``runtime.host_unreachable``, ``runtime.host_lost``."""

    async def hello(self) -> Message:
        """Who the host is: ``host, pid``."""
        return (await self._told({"op": "hello"}))[0]

    async def which(self, package: str) -> str:
        """The model that a call for this package would go to, as ``provider:name``; ``""`` for none."""
        return str((await self._told({"op": "which", "package": package}))[0]["model"])

    async def ask(self, package: str, run_id: str, call: ModelCall, mandate: bytes) -> ModelAnswer:
        """Makes a call for a run. Ended from outside, it ends the host's call as well."""
        message = {
            "op": "ask",
            "package": package,
            "run_id": run_id,
            "call": call.to_data(),
            "mandate": mandate,
        }
        try:
            answer, blobs = await self._told(message)
        except RuntimeFault:
            raise
        except (
            DulyError
        ) as problem:  # the call could not even be sent: larger than a frame, a text that is not NFC
            code = "model.context_overflow" if problem.code == "wire.frame_too_large" else problem.code
            return ModelAnswer(
                call.failed(code), b"", b"", None, error_of(ModelError, {**problem.to_data(), "code": code})
            )
        use = ModelUse.from_data(
            answer["use"], error=RuntimeFault, code="runtime.host_lost", what="The answer"
        )
        error = _error(answer) if "error" in answer else None
        request, response = blobs if len(blobs) == 2 else (b"", b"")
        return ModelAnswer(use, request, response, answer.get("value"), error)

    async def cancel(self, run_id: str, ended_until_ms: int = 0) -> int:
        """Ends the calls of a run; gives how many there were. ``ended_until_ms`` is for a run that has ended, and when
        its mandate expires: no further call of it is made (``model.cancelled``)."""
        message = {"op": "cancel", "run_id": run_id, "ended_until_ms": ended_until_ms}
        return int((await self._told(message))[0]["cancelled"])

    async def check(self, package: str) -> dict[str, Any]:
        """Makes one small call: ``model``, ``mode`` (strict, json, text; "" where it failed), ``error`` as data."""
        answer = (await self._told({"op": "check", "package": package}))[0]
        return {name: answer[name] for name in ("model", "mode", "error") if name in answer}

    async def _told(self, message: Message) -> Frame:
        link = await self.connected()
        number, answers = link.open()
        try:
            link.send({**message, "id": number})
            return checked(await answers.get())
        except asyncio.CancelledError:
            if not link.lost:
                link.send(
                    {"op": "drop", "id": 0, "of": number}
                )  # nobody reads the answer, nor what it says to this
            raise
        finally:
            link.forget(number)


def _error(answer: Message) -> ModelError:
    if "unfit" not in answer:
        return error_of(ModelError, answer["error"])
    error = error_of(UnfitAnswer, answer["error"])
    error.value = answer["unfit"]
    return error
