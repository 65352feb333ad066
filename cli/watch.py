"""``duly watch``: follows a run to where it stops, and only looks: Ctrl-C ends the looking, never the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.machine.phases import END_PHASES, WAITING_PHASES
from duly.protocol.views.result import result_object
from duly.protocol.wire.errors import RuntimeFault, StorageError
from duly.storage.home import Home
from duly.storage.recovery import load_run

from . import exit_codes
from .audit import event_object
from .client import FrontDoor
from .layout import labelled
from .output import note, say
from .records import Records, run_named
from .run import text_screen
from .screen import JsonScreen, Screen
from .start import opened

INTERRUPTED = 130  # what a shell says of a program that SIGINT ended
LOST_MAX = 3  # how often a closed connection is opened again before the person is told


def watch(home: Home, name: str, *, after: int = -1, json: bool = False) -> int:
    """Shows the events numbered above ``after`` and then what comes, until the run waits or has ended.

    The exit code says how it stopped, as for ``duly run``. A runtime is started only for a run that nobody goes on with.
    """
    run_id = run_named(home, name)
    screen: Screen = JsonScreen() if json else text_screen(home, run_id)
    try:
        result = _recorded(home, run_id, after, screen) or _followed(home, run_id, after, screen)
    except KeyboardInterrupt:
        screen.say("")
        note(f"Not watching any more; run {run_id} goes on. Look again with `duly watch {run_id}`.")
        return INTERRUPTED
    screen.result(result)
    if not json and result["phase"] == "WAITING_APPROVAL":
        say(labelled("decide", f"duly approve {run_id}, or duly reject {run_id}"))
    return exit_codes.of_phase(str(result["phase"]))


def _recorded(home: Home, run_id: str, after: int, screen: Screen) -> Mapping[str, Any] | None:
    """From the record alone, where no runtime is up and the run has stopped; else ``None``."""
    try:
        FrontDoor.connect(home.socket_path("front")).close()
    except RuntimeFault as fault:
        if fault.code != "runtime.absent":
            raise
    else:
        return None
    with Records.open(home) as records:
        if records.artifacts is None:
            raise StorageError("storage.absent", "The artifacts of this run are missing.", place=run_id)
        run, _ = load_run(records.journal, records.artifacts, run_id)
        if run.phase not in END_PHASES | WAITING_PHASES:
            return None
        for entry in records.journal.read_run(run_id):
            if entry.seq > after:
                screen.answer({"event": event_object(entry.seq, entry.event)})
    return result_object(run)


def _followed(home: Home, run_id: str, after: int, screen: Screen) -> Mapping[str, Any]:
    """Through the front door; a connection that closes is opened again and goes on behind what was seen."""
    lost = 0
    while True:
        try:
            with opened(home) as door:
                for message in door.stream("follow", idle=screen.idle, run_id=run_id, after=after):
                    if "event" in message:
                        after = max(after, message["event"]["seq"])
                    screen.answer(message)
                    if "result" in message:
                        return dict(message["result"])
            raise RuntimeFault("runtime.bad_answer", "The runtime ended its answer without a result.")
        except RuntimeFault as fault:
            lost += 1
            if fault.code != "runtime.lost" or lost > LOST_MAX:
                raise
            screen.say("The runtime closed the connection; looking for the run again.")
