"""The process in which tools run: forked by the zygote, used for one package and one tool server, killed at a deadline.

Host → worker, over one stream socket (`framing`, not canonical: both ends are one host):

    {"op": "open", "id", "package": folder, "digest", "home": folder, "server": name, "secrets": {…}, "concurrent": bool}
    {"op": "describe", "id"}
    {"op": "calls", "calls": [call, …], "outputs": {step: null, …}, "wanted": [step, …]}
        + the argument blobs, then the blobs of the outputs of earlier steps
        call = {"id", "tool", "run_id", "step_id", "key", "rows_max", "template"}

Worker → host, one message a call as soon as it is done, its output as a blob:

    {"id", "outcome": "ok" | "error", "code", "message", "transient", "fingerprints", "rows", "truncated",
     "started_ms", "duration_us"}

The calls of one message run one after the other, in order, and stop at the first failure; arguments of a template are
resolved from the outputs before them. With ``concurrent`` each message gets a thread instead.
"""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.protocol.plan import refs, schema
from duly.protocol.wire import canon, tagged
from duly.protocol.wire.errors import DulyError, Fault, ToolError
from duly.protocol.wire.limits import (
    ARTIFACT_BYTES_MAX,
    CONCURRENT_CALLS_PER_WORKER_MAX,
    ERROR_TEXT_CHARS_MAX,
)
from duly.protocol.wire.plain_view import plain_view

from .framing import BlockingFrames, Message
from .tools import registry
from .tools.context import CallContext, Tool, ToolFailure, plain_text, said

_THREAD_STACK_BYTES = 1 << 20  # 64 threads of the default 8 MiB would use up a quarter of a worker's memory


def serve(sock: socket.socket, scratch: str) -> None:
    """Answers until the host closes its end."""
    Worker(BlockingFrames(sock, canonical=False), Path(scratch)).run()


@dataclass(slots=True)
class _Opened:
    package: Path
    data: Path
    secrets: dict[str, str]
    tools: dict[str, Tool]


class Worker:
    """One socket, one package, the tools of one server of it."""

    def __init__(self, frames: BlockingFrames, scratch: Path) -> None:
        self._frames = frames
        self._scratch = scratch
        self._sending = threading.Lock()
        self._opened: _Opened | None = None
        self._threads: ThreadPoolExecutor | None = None

    def run(self) -> None:
        while (received := self._frames.read()) is not None:
            message, blobs = received
            if message["op"] == "open":
                self._open(message)
            elif message["op"] == "describe":
                self._describe(message)
            elif self._threads is not None:
                self._threads.submit(self._calls, message, blobs)
            else:
                self._calls(message, blobs)

    def _open(self, message: Message) -> None:
        try:
            package = registry.open_package(Path(message["package"]), message["digest"])
            data = Path(message["home"], *package.manifest.package.data.split("/"))
            tools = registry.load(package, only=message["server"])
        except DulyError as problem:
            self._send({"id": message["id"], "outcome": "error", **_error_fields(problem)})
            return
        except (Exception, SystemExit) as problem:  # noqa: BLE001  package code may fail in any way when loaded
            broken = ToolError("tool.package_broken", _text_of(problem), place=message["package"])
            self._send({"id": message["id"], "outcome": "error", **_error_fields(broken)})
            return
        if message["concurrent"]:
            threading.stack_size(_THREAD_STACK_BYTES)
            self._threads = ThreadPoolExecutor(CONCURRENT_CALLS_PER_WORKER_MAX)
        self._opened = _Opened(package.folder, data, message["secrets"], tools)
        self._send({"id": message["id"], "outcome": "ok"})

    def _describe(self, message: Message) -> None:
        tools = [
            {
                "descriptor": tool.descriptor.to_data(),
                "preload": list(tool.preload),
                "secrets": list(tool.secrets),
            }
            for tool in (self._opened.tools.values() if self._opened is not None else ())
        ]
        self._send({"id": message["id"], "outcome": "ok"}, canon.encode(tools))

    def _calls(self, message: Message, blobs: list[bytes]) -> None:
        calls = message["calls"]
        outputs = {
            step: _decoded(blob) for step, blob in zip(message["outputs"], blobs[len(calls) :], strict=True)
        }
        wanted = set(message.get("wanted", ()))
        for call, arguments in zip(calls, blobs, strict=False):
            answer, output = self._call(call, arguments, outputs)
            self._send(answer, output)
            if answer["outcome"] != "ok":
                return
            if call["step_id"] in wanted:
                outputs[call["step_id"]] = _decoded(output)

    def _call(self, call: Message, data: bytes, outputs: dict[str, Any]) -> tuple[Message, bytes]:
        opened = self._opened
        assert opened is not None
        context = CallContext(
            run_id=call["run_id"],
            step_id=call["step_id"],
            package=opened.package,
            data=opened.data,
            scratch=self._scratch,
            idempotency_key=call["key"],
            rows_max=call["rows_max"],
            secrets=opened.secrets,
        )
        answer: Message = {"id": call["id"], "outcome": "ok", "started_ms": time.time_ns() // 1_000_000}
        began = time.perf_counter_ns()
        output = b""
        try:
            output = _run(opened.tools[call["tool"]], context, _arguments(call, data, outputs))
        except DulyError as problem:
            answer.update(_error_fields(problem), outcome="error")
        except MemoryError:
            answer.update(
                outcome="error", code="tool.out_of_memory", message="The call needs too much memory."
            )
        except (Exception, SystemExit) as problem:  # noqa: BLE001  whatever a tool raises is its call's outcome
            answer.update(outcome="error", code="tool.failed", message=_text_of(problem))
        answer["duration_us"] = (time.perf_counter_ns() - began) // 1_000
        # A tool may have left anything here; what is of the wrong kind would not survive the way to the host.
        answer["fingerprints"] = {
            plain_text(str(k)): plain_text(str(v)) for k, v in dict(context.fingerprints).items()
        }
        answer["rows"] = context.rows_scanned if type(context.rows_scanned) is int else 0
        answer["truncated"] = bool(context.truncated)
        return answer, output

    def _send(self, answer: Message, output: bytes = b"") -> None:
        with self._sending:
            self._frames.write(answer, [output] if output else [])


def _arguments(call: Message, data: bytes, outputs: dict[str, Any]) -> Any:
    """The resolved arguments, still in their tagged form."""
    arguments = _decoded(data)
    return refs.resolve(arguments, outputs) if call["template"] else arguments


def _run(tool: Tool, context: CallContext, arguments: Any) -> bytes:
    """One call: input against its schema, the function, output against its schema. Gives the output's bytes."""
    descriptor = tool.descriptor
    faults = schema.faults_of(plain_view(arguments), descriptor.input_schema, "", "tool.bad_arguments")
    if faults:
        raise ToolError(
            "tool.bad_arguments",
            f"The arguments of {descriptor.full_name} do not fit: {_told(faults[0])}",
            faults=faults,
        )
    result = tool.function(context, tagged.from_tagged(arguments))
    try:
        output = tagged.to_tagged(result)
    except DulyError as problem:
        raise ToolError("tool.bad_output", problem.message, place=problem.place, hint=problem.hint) from None
    if descriptor.output_schema:
        faults = schema.faults_of(plain_view(output), descriptor.output_schema, "", "tool.bad_output")
        if faults:
            raise ToolError(
                "tool.bad_output",
                f"{descriptor.full_name} broke its contract: {_told(faults[0])}",
                faults=faults,
            )
    data = canon.encode(output)
    if len(data) > ARTIFACT_BYTES_MAX:
        raise ToolError(
            "tool.output_too_large",
            f"{descriptor.full_name} returned {len(data)} bytes; at most {ARTIFACT_BYTES_MAX} are taken.",
            hint="Ask for less: narrow the filter, or aggregate.",
        )
    return data


def _decoded(data: bytes) -> Any:
    return canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX)


def _error_fields(problem: DulyError) -> Message:
    return {
        "code": plain_text(problem.code),
        "message": plain_text(said(problem))[:ERROR_TEXT_CHARS_MAX],
        "transient": isinstance(problem, ToolFailure) and problem.transient,
    }


def _told(fault: Fault) -> str:
    return f"{fault.path}: {fault.message}" if fault.path else fault.message


def _text_of(problem: BaseException) -> str:
    return plain_text(f"{type(problem).__name__}: {problem}")[:ERROR_TEXT_CHARS_MAX]
