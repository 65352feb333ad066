"""A port before a server, that says when a whole request has passed: the moment to kill the server in a call."""

from __future__ import annotations

import contextlib
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Relay:
    """``base_url`` leads to the server behind. ``passed`` is released for each request once the server has it.

    A server that ends without an answer, or is not there, closes the asker's connection without one, too.
    """

    def __init__(self, behind: str) -> None:
        self.passed = passed = threading.Semaphore(0)
        host = urlsplit(behind)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.close_connection = True
                server = HTTPConnection(host.hostname or "", host.port, timeout=300)
                with contextlib.closing(server), contextlib.suppress(OSError, EOFError):
                    server.request("POST", self.path, body, {"Content-Type": "application/json"})
                    passed.release()
                    answer = server.getresponse()
                    self._give(answer.status, answer.read())

            def _give(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        host_name, port = self._server.server_address[:2]
        self.base_url = f"http://{host_name!s}:{port}{host.path}"

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
