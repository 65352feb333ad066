"""A model server that knows its answers and gives them at once: what a call costs when the model costs nothing.

It speaks the chat completions of OpenAI-compatible servers, in a process of its own, so that its work takes no turn of the
interpreter that is measured. An answer is found by the name of the schema that the request asks for.

    with InstantModel({"plan": {"steps": []}}) as model:
        model.base_url        # http://127.0.0.1:PORT/v1
        model.asked()         # completions so far

The process ends when its standard input does, however the script ends that started it.
"""

from __future__ import annotations

import http.client
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

NAME = "openai:instant"
_TOKENS = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


class InstantModel:
    """The server as the script that starts it sees it. ``answers`` are JSON values by the name of a schema."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = dict(answers)
        self.port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        command = [sys.executable, "-P", str(Path(__file__).resolve())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._answers) + "\n")
        self._process.stdin.flush()
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=20)  # closes its input, at which it ends

    def asked(self) -> int:
        """How many completions it has been asked for."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        line.request("GET", "/asked")
        found = json.loads(line.getresponse().read())
        line.close()
        return int(found["asked"])


def _completion(value: Any) -> bytes:
    message = {"role": "assistant", "content": json.dumps(value)}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "instant", "usage": _TOKENS}
    return json.dumps({**body, "choices": [choice]}).encode()


def _handler(
    reply: Callable[[bytes], tuple[int, bytes]], asked: Callable[[], int]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body go out together

        def do_GET(self) -> None:
            self._send(200, json.dumps({"asked": asked()}).encode())

        def do_POST(self) -> None:
            self._send(*reply(self.rfile.read(int(self.headers["content-length"]))))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: what is measured is the call."""

    return Handler


def _serve() -> None:
    answers = {name: _completion(value) for name, value in json.loads(sys.stdin.readline()).items()}
    count = itertools.count()
    seen = [0]

    def reply(data: bytes) -> tuple[int, bytes]:
        seen[0] = next(count) + 1
        name = json.loads(data).get("response_format", {}).get("json_schema", {}).get("name")
        found = answers.get(name)
        return (200, found) if found is not None else (400, b'{"error": {"message": "no such question"}}')

    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(reply, lambda: seen[0]))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    _serve()
