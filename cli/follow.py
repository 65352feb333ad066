"""Following a run through the front door to where it stops, and deciding the gates on the way."""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.wire.errors import DulyError, RunError, RuntimeFault
from duly.storage.home import Home

from . import exit_codes, gate
from .client import FrontDoor
from .interrupts import Interrupts
from .screen import Screen
from .start import opened

Result = dict[str, Any]
LOST_MAX = 3  # how often a closed connection is opened again before the person is told
TYPED_BYTES_MAX = 4_096  # a terminal gives one line at a time
PROMPT = "Type a to approve, r to reject, anything else to leave it waiting: "
ANSWERS = {"a": "approve", "approve": "approve", "r": "reject", "reject": "reject"}


@dataclass(slots=True)
class Follower:
    """One run that a command follows. ``decide`` is asked at every gate: ``approve``, ``reject`` or ``""``."""

    home: Home
    run_id: str
    screen: Screen
    key: Callable[[], Ed25519PrivateKey]
    decide: Callable[[], str]
    with_references: bool = False
    _seen: int = field(default=-1)
    _begun: bool = field(default=False)

    def request(self, op: str, **fields: Any) -> Result:
        """Sends a request and follows the run to its next stop. Ctrl-C once cancels, twice leaves at once.

        A connection that breaks before any answer leaves open whether the request was taken. A submission is sent once
        more, since its mandate names the run and can begin it only once; after any other the run shows what became of it.
        """
        self._begun = False
        with Interrupts() as interrupts:
            lost = 0
            while True:
                try:
                    with opened(self.home) as door:
                        return self._until_stop(door, interrupts, op, fields)
                except RuntimeFault as fault:
                    lost += 1
                    if fault.code != "runtime.lost" or lost > LOST_MAX:
                        raise
                    self.screen.say("The runtime closed the connection; looking for the run again.")
                except RunError as error:
                    if error.code != "run.exists" or not lost:
                        raise
                    self._begun = True
                if op != "submit" or self._begun:
                    op, fields = "follow", {"run_id": self.run_id, "after": self._seen}

    def settle(self, result: Result) -> Result:
        """Decides gates, as far as somebody decides, until the run stops for another reason."""
        while result["phase"] == "WAITING_APPROVAL":
            waiting = self.waiting_gate()
            self.screen.gate(waiting)
            word = self.decide()
            if word == "approve":
                result = self.approve(waiting)
            elif word == "reject":
                result = self.request("reject", run_id=self.run_id, gate=waiting.gate, feedback=None)
            else:
                self.screen.waits(waiting)
                break
        return result

    def waiting_gate(self) -> gate.WaitingGate:
        """The gate at which the run waits, checked and rendered here."""
        with opened(self.home) as door:
            return gate.read(self.run_id, door.call("gate", run_id=self.run_id))

    def approve(self, waiting: gate.WaitingGate) -> Result:
        """Signs what was shown, and follows the run on."""
        envelope = gate.signed(waiting, self.key(), with_references=self.with_references)
        return self.request("approve", run_id=self.run_id, approval=envelope)

    def _until_stop(
        self, door: FrontDoor, interrupts: Interrupts, op: str, fields: Mapping[str, Any]
    ) -> Result:
        door.send(op, **fields)
        while True:
            message = door.receive(interrupts, self.screen.idle)
            if message is None:
                interrupts.taken()
                self._cancel()
                continue
            self._begun = True
            if "event" in message:
                self._seen = max(self._seen, message["event"]["seq"])
            self.screen.answer(message)
            if message.get("last"):
                if "result" not in message:
                    raise RuntimeFault("runtime.bad_answer", "The runtime ended its answer without a result.")
                return dict(message["result"])

    def _cancel(self) -> None:
        """Asks for the end over a connection of its own; the first one goes on and brings the events of it."""
        self.screen.say("Cancelling; press Ctrl-C again to leave at once.")
        with FrontDoor.connect(self.home.socket_path("front")) as door:
            try:
                door.call("cancel", run_id=self.run_id, reason="Ctrl-C", detach=True)
            except DulyError as error:  # it ended by itself in the meantime
                self.screen.say(str(error))


def nobody() -> str:
    """The decision where nobody is asked: leave it waiting."""
    return ""


def always() -> str:
    """The decision of ``--yes``, which the submitter made on the command line."""
    return "approve"


def ask() -> str:
    """The decision of a person at a terminal; everything but a clear word (end of input, Ctrl-C) decides nothing."""
    return ANSWERS.get(typed(PROMPT).lower(), "")


def typed(prompt: str) -> str:
    """One line that a person types, without blanks around it; empty at the end of input and for Ctrl-C."""
    # What was typed before the text was shown is no decision about it.
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    try:
        line = _typed_line(prompt)
    except KeyboardInterrupt:
        line = b""
    if not line.endswith(b"\n"):
        print()
    return line.decode("utf-8", "replace").strip()


def _typed_line(prompt: str) -> bytes:
    """One line of the terminal, empty at its end or for Ctrl-C.

    Waited for together with the signal: a signal just before a blocking read would be seen only after it.
    """
    with Interrupts() as interrupts:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        ready, _, _ = select.select([sys.stdin, interrupts], [], [])
        return b"" if interrupts in ready else os.read(sys.stdin.fileno(), TYPED_BYTES_MAX)


def is_interactive() -> bool:
    """Whether a person can read the text and type an answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def exit_code(result: Mapping[str, Any]) -> int:
    return exit_codes.of_phase(str(result["phase"]))
