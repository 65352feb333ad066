"""How planners, verifiers and the doctor talk to a model host.

host = ModelHostClient(path)
answer = await host.ask(package, run_id, call, mandate)
answer.value, answer.error, answer.use, answer.request, answer.response
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.protocol.plan.model_call import ModelCall, ModelUse
from duly.protocol.wire.errors import DulyError, Fault, ModelError, RuntimeFault

from ..client import Link, checked
from ..framing import Frame, Message


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a call gave: ``value`` where ``error`` is ``None``; always what it took and what was sent and received.

    ``request`` and ``response`` are the exact bytes without keys, empty where nothing was sent or received.
    """

    use: ModelUse
    request: bytes
    response: bytes
    value: Any
    error: ModelError | None


class ModelHostClient:
    """A model host by the path of its socket. Connects when it is first used, and again after the host was restarted.

    Raises ``RuntimeFault`` only: ``runtime.host_unreachable``, ``runtime.host_lost``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._link: Link | None = None
        self._connecting = asyncio.Lock()

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
                _unused(call, code), b"", b"", None, _error({**problem.to_data(), "code": code})
            )
        use = ModelUse.from_data(
            answer["use"], error=RuntimeFault, code="runtime.host_lost", what="The answer"
        )
        error = _error(answer["error"]) if "error" in answer else None
        request, response = blobs if len(blobs) == 2 else (b"", b"")
        return ModelAnswer(use, request, response, answer.get("value"), error)

    async def cancel(self, run_id: str) -> int:
        """Ends the calls of a run; gives how many there were."""
        return int((await self._told({"op": "cancel", "run_id": run_id}))[0]["cancelled"])

    async def check(self, package: str) -> dict[str, Any]:
        """Makes one small call: ``model``, ``mode`` (strict, json, text; "" where it failed), ``error`` as data."""
        answer = (await self._told({"op": "check", "package": package}))[0]
        return {name: answer[name] for name in ("model", "mode", "error") if name in answer}

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
            self._link = None

    async def _told(self, message: Message) -> Frame:
        link = await self._connected()
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

    async def _connected(self) -> Link:
        async with self._connecting:
            if self._link is None or self._link.lost:
                self._link = await Link.connect(self._path)
            return self._link


def _error(data: Mapping[str, Any]) -> ModelError:
    """The error of a call: a ``ModelError`` whatever its code, so that a caller has one thing to catch."""
    return ModelError(
        str(data["code"]),
        str(data["message"]),
        place=data.get("place"),
        hint=data.get("hint"),
        story=data.get("story", ()),
        faults=[Fault.from_data(fault) for fault in data.get("faults", ())],
    )


def _unused(call: ModelCall, code: str) -> ModelUse:
    return ModelUse(
        purpose=call.purpose,
        prompt=call.prompt,
        prompt_digest=call.prompt_digest,
        model="",
        mode="strict",
        code=code,
    )
