"""A small HTTP server that speaks the chat completions of OpenAI-compatible servers, with a script for its answers.

    with ScriptedModelServer([{"steps": []}, refuses(429, retry_after=2), "no JSON at all"]) as server:
        server.base_url       # http://127.0.0.1:PORT/v1
        server.requests       # what was asked, in order

An answer is a text, a JSON value (sent as the text of the message), or a ``Reply`` made by one of the functions below. A
script is a list, used up in order, or a function from the request to an answer. A request after the end of a list is
answered with status 400 and ``exhausted`` becomes true.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Asked:
    """One request: ``body`` is the parsed JSON, ``raw`` the bytes."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    raw: bytes

    @property
    def texts(self) -> str:
        """Every message of the request, one after the other."""
        return "\n".join(_text_of(message.get("content")) for message in self.body.get("messages", []))

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema that the request asks for, if it does so strictly."""
        return self.body.get("response_format", {}).get("json_schema", {}).get("schema")


@dataclass(frozen=True)
class Reply:
    """Bytes to send, and how: ``whole``, ``cut`` (the connection ends before the promised length), ``drop`` (no byte),
    ``chunked`` (without a length, in chunks), ``drip`` (one byte after the other, without end), ``hold`` (nothing until the server is released or closed)."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    manner: str = "whole"
    repeat: int = 1


Scripted = Any
Script = Iterable[Scripted] | Callable[[Asked], Scripted]


def completion(message: Mapping[str, Any], *, finish: str = "stop", usage: Any = (20, 10)) -> bytes:
    """The body of a completion with one choice. ``usage`` is (prompt, answer) in tokens, or ``None`` for none."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", **message},
                "logprobs": None,
            }
        ],
    }
    if usage is not None:
        body["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": usage[0] + usage[1],
        }
    return json.dumps(body).encode()


def says(value: Any, *, finish: str = "stop", usage: Any = (20, 10), headers: Any = None) -> Reply:
    """A completion whose text is ``value``, or its JSON where it is no text."""
    content = value if isinstance(value, str) else json.dumps(value)
    return Reply(body=completion({"content": content}, finish=finish, usage=usage), headers=headers or {})


def calls(name: str, arguments: Any, *, text: str | None = None) -> Reply:
    """A completion that calls a tool, although nobody offered one."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": given}}
    return Reply(body=completion({"content": text, "tool_calls": [call]}, finish="tool_calls"))


def refuses(
    status: int, message: str = "refused", *, code: str | None = None, retry_after: Any = None
) -> Reply:
    """An error in the form of OpenAI's."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply(status, json.dumps(body).encode(), headers=headers)


def raw(body: bytes, *, status: int = 200, content_type: str = JSON) -> Reply:
    """Exactly these bytes."""
    return Reply(status, body, content_type)


def drops() -> Reply:
    """The connection ends without an answer."""
    return Reply(manner="drop")


def cuts(value: Any) -> Reply:
    """The connection ends in the middle of a completion."""
    return Reply(body=says(value).body, manner="cut")


def drips(body: bytes = b" ") -> Reply:
    """``body``, one byte every 20 ms, again and again, until the client has had enough."""
    return Reply(body=body, manner="drip")


def floods(size: int, *, chunked: bool = False) -> Reply:
    """``size`` bytes of text, said to be that long, or in chunks of which nobody says how many will come."""
    manner = "chunked" if chunked else "whole"
    return Reply(body=b"x" * CHUNK_BYTES, repeat=-(-size // CHUNK_BYTES), manner=manner)


def holds() -> Reply:
    """Nothing until ``release`` or the end of the server; then the connection ends."""
    return Reply(manner="hold")


class ScriptedModelServer:
    """The server, a context manager. ``key``: the bearer token that it wants (401 for another), ``models``: its names
    (404 for another), where they are given. ``arrived`` is released once for each request, ``gone`` for each client that
    went away while it was answered."""

    def __init__(
        self, answers: Script, *, key: str | None = None, models: Iterable[str] | None = None
    ) -> None:
        self._answers = answers if callable(answers) else iter(list(answers))
        self._key = key
        self._models = None if models is None else list(models)
        self._lock = threading.Lock()
        self._released = threading.Event()
        self.requests: list[Asked] = []
        self.arrived = threading.Semaphore(0)
        self.gone = threading.Semaphore(0)
        self.exhausted = False
        self.sent = 0  # bytes of whole and chunked answers, as far as they went out
        self._server = _Server(self, _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def release(self) -> None:
        """Lets go of every request that is held or dripped to."""
        self._released.set()

    def wait(self, seconds: float) -> bool:
        """Waits as long as nobody releases the server; whether somebody has."""
        return self._released.wait(seconds)

    def listing(self) -> Reply:
        names = self._models if self._models is not None else ["scripted"]
        data = [{"id": name, "object": "model", "created": 1, "owned_by": "test"} for name in names]
        return Reply(body=json.dumps({"object": "list", "data": data}).encode())

    def reply(self, asked: Asked) -> Reply:
        """What this request gets; the script moves on only where the request is good."""
        with self._lock:
            self.requests.append(asked)
            self.arrived.release()
            if self._key is not None and asked.headers.get("authorization") != f"Bearer {self._key}":
                return refuses(401, "Incorrect API key provided.", code="invalid_api_key")
            if self._models is not None and asked.body.get("model") not in self._models:
                return refuses(
                    404, f"The model {asked.body.get('model')!r} does not exist", code="model_not_found"
                )
            answer = self._answers(asked) if callable(self._answers) else next(self._answers, None)
        if answer is None:
            self.exhausted = True
            return refuses(400, "the script of this server is at its end")
        return answer if isinstance(answer, Reply) else says(answer)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True
    request_queue_size = 64

    def __init__(self, script: ScriptedModelServer, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._script = script

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what many of these tests are about."""
        self._script.gone.release()


def _handler(script: ScriptedModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # head and body go out apart; the second would wait 40 ms for an answer
        )
        timeout = 60

        def do_GET(self) -> None:
            self._send(script.listing() if self.path.endswith("/models") else refuses(404, "no such path"))

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(script.reply(Asked(self.path, headers, json.loads(data), data)))

        def _send(self, reply: Reply) -> None:
            if reply.manner in ("drop", "hold"):
                if reply.manner == "hold":
                    script.wait(60)
                self._end()
                return
            length = len(reply.body) * reply.repeat
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            if reply.manner == "drip":
                self.send_header("Connection", "close")
                self.close_connection = True
            elif reply.manner == "chunked":
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(length))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.manner == "drip":
                self._drip(reply.body)
            elif reply.manner == "cut":
                self.wfile.write(reply.body[: len(reply.body) // 2])
                self._end()
            else:
                chunked = reply.manner == "chunked"
                part = b"%x\r\n%b\r\n" % (len(reply.body), reply.body) if chunked else reply.body
                for _ in range(reply.repeat):
                    self.wfile.write(part)
                    script.sent += len(reply.body)
                self.wfile.write(b"0\r\n\r\n" if chunked else b"")

        def _drip(self, body: bytes) -> None:
            while True:
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    if script.wait(0.02):
                        return

        def _end(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests print for themselves."""

    return Handler


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
