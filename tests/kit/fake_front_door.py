"""A front door without Ray: a real Unix socket with the real framing, served by threads over a scripted harness."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from duly.hosts.framing import BlockingFrames
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request
from duly.protocol.views.result import result_object
from duly.protocol.wire.errors import DulyError
from scripted_harness import AGENT, QUESTION, READ, SCOPE, WRITE, ScriptedHarness

Reply = Callable[[dict[str, Any]], None]


class FakeFrontDoor:
    """Answers every operation; ``requests`` keeps what came. ``override`` maps an op to another answer.

    ``hold`` makes submit wait, after its first event, until the run is cancelled; the run must be one that asks.
    """

    def __init__(self, harness: ScriptedHarness) -> None:
        self.harness = harness
        self.requests: list[dict[str, Any]] = []
        self.override: dict[str, Callable[[dict[str, Any], Reply], None]] = {}
        self.hold = False
        self.left = 0
        self.cancelled = threading.Event()
        self.followed = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(harness.home.socket_path("front")))
        self._listener.listen(16)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self.cancelled.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
        self.harness.close()

    def ops(self) -> list[str]:
        return [request["op"] for request in self.requests]

    def asked(self, op: str) -> dict[str, Any]:
        """The last request of that operation."""
        return [request for request in self.requests if request["op"] == op][-1]

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            frames = BlockingFrames(peer)
            try:
                while (frame := frames.read()) is not None:
                    self.requests.append(frame[0])
                    self._handle(frame[0], frames.write)
            except (BrokenPipeError, ConnectionResetError):
                self.left += 1  # the command went away in the middle, which is its right

    def _handle(self, request: dict[str, Any], reply: Reply) -> None:
        try:
            op = request["op"].replace(".", "_")
            handler = self.override.get(request["op"]) or getattr(self, f"_{op}")
            handler(request, reply)
        except DulyError as error:
            reply({"error": error.to_data(), "last": True})

    def _hello(self, request: dict[str, Any], reply: Reply) -> None:
        reply({"pid": 1, "epoch": 1, "version": "0", "home": "", "started_ms": 0, "last": True})

    def _status(self, request: dict[str, Any], reply: Reply) -> None:
        processes = [{"role": "harness", "pid": 7, "rss_bytes": 50 << 20, "epoch": 1}]
        reply({"processes": processes, "last": True})

    def _down(self, request: dict[str, Any], reply: Reply) -> None:
        reply({"last": True})

    def _package_open(self, request: dict[str, Any], reply: Reply) -> None:
        reply({"progress": "reading the package"})
        reply(
            {
                "package": "a" * 64,
                "name": "shop",
                "version": "1",
                "agents": [AGENT.to_data()],
                "default_agent": AGENT.name,
                "descriptors": {one.full_name: one.to_data() for one in (READ, WRITE)},
                "scope": SCOPE.to_data(),
                "has_model": False,
                "last": True,
            }
        )

    def _route(self, request: dict[str, Any], reply: Reply) -> None:
        weights = [{"name": "step_budget", "weight": 30, "counted": True}]
        route = {"route": "orchestrated", "score": 30, "weights": weights, "reason": "planning = always"}
        reply(
            {"route": route, "binding": {"playbook": "ranking", "parameters": {"by": "name"}}, "last": True}
        )

    def _draft(self, request: dict[str, Any], reply: Reply) -> None:
        if self.harness.ask:
            reply({"plan": None, "question": QUESTION.to_data(), "rendering": "", "last": True})
        else:
            plan = self.harness.plan(request["text"])
            reply({"plan": plan.to_data(), "question": None, "rendering": "THE PLAN IN FULL\n", "last": True})

    def _submit(self, request: dict[str, Any], reply: Reply) -> None:
        plan = None if request["plan"] is None else Plan.model_validate(request["plan"])
        wish = Request.model_validate(request["request"])

        def work() -> Any:
            return self.harness.submit(request["mandate"], wish, plan)

        if request.get("detach"):
            with self._lock:
                work()
            reply({"last": True, "accepted": True})
            return
        reply({"accepted": True})
        self._streamed(work, reply)

    def _approve(self, request: dict[str, Any], reply: Reply) -> None:
        self._streamed(lambda: self.harness.approve(request["run_id"], request["approval"]), reply)

    def _reject(self, request: dict[str, Any], reply: Reply) -> None:
        self._streamed(
            lambda: self.harness.reject(request["run_id"], request["gate"], request["feedback"]), reply
        )

    def _answer(self, request: dict[str, Any], reply: Reply) -> None:
        self._streamed(lambda: self.harness.answer(request["run_id"], request["text"]), reply)

    def _edit(self, request: dict[str, Any], reply: Reply) -> None:
        plan = Plan.model_validate(request["plan"])
        self._streamed(lambda: self.harness.edit(request["run_id"], request["gate"], plan), reply)

    def _guide(self, request: dict[str, Any], reply: Reply) -> None:
        self._streamed(lambda: self.harness.guide(request["run_id"], request["text"]), reply)

    def _amend(self, request: dict[str, Any], reply: Reply) -> None:
        wish = Request.model_validate(request["request"])
        self._streamed(lambda: self.harness.amend(request["run_id"], request["mandate"], wish), reply)

    def _resume(self, request: dict[str, Any], reply: Reply) -> None:
        """A run that waits or ended says so; nothing else can be met in a harness that works at once."""
        if request.get("detach"):
            reply({"last": True, "accepted": True})
        else:
            self._follow(request, reply)

    def _follow(self, request: dict[str, Any], reply: Reply) -> None:
        reply({"result": result_object(self.harness.runs[request["run_id"]]), "last": True})

    def _gate(self, request: dict[str, Any], reply: Reply) -> None:
        reply({**self.harness.gate(request["run_id"]), "last": True})

    def _cancel(self, request: dict[str, Any], reply: Reply) -> None:
        if self.hold:
            self.cancelled.set()
        else:
            with self._lock:
                self.harness.cancel(request["run_id"])
        reply({"last": True, "accepted": True})

    def _streamed(self, work: Callable[[], Any], reply: Reply) -> None:
        with self._lock:
            events: list[dict[str, Any]] = []
            self.harness.publish = events.append
            run = work()
            for event in events if not self.hold else events[:1]:
                reply({"event": event})
            if self.hold:
                self.followed.set()
                self.cancelled.wait(30)
                self.harness.publish = lambda event: reply({"event": event})
                run = self.harness.cancel(run.run_id)
        reply({"result": result_object(run), "last": True})
