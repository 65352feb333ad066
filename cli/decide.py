"""``duly approve``, ``reject``, ``answer``, ``guide``, ``cancel``: a person's word on a run, and following it to its next stop."""

from __future__ import annotations

from typing import Any

from duly.protocol.plan.request import new_request
from duly.protocol.wire.errors import RequestError
from duly.storage.home import Home

from . import exit_codes, follow, person
from .layout import labelled
from .output import emit, say
from .records import run_named
from .run import conclude, text_screen
from .screen import JsonScreen, Screen
from .start import opened


def approve(
    home: Home, name: str, *, with_references: bool = False, yes: bool = False, json: bool = False
) -> int:
    """Shows what waits, signs exactly that, and follows the run."""
    follower = follower_of(home, name, json=json, yes=yes)
    follower.with_references = with_references
    waiting = follower.waiting_gate()
    follower.screen.gate(waiting)
    result = follower.approve(waiting)
    follower.with_references = False
    return conclude(follower, result, forced=yes)


def reject(home: Home, name: str, *, feedback: str | None = None, json: bool = False) -> int:
    """Says no. Without feedback the run ends; with feedback another plan is made, and waits again."""
    follower = follower_of(home, name, json=json)
    waiting = follower.waiting_gate()
    return conclude(
        follower, follower.request("reject", run_id=follower.run_id, gate=waiting.gate, feedback=feedback)
    )


def answer(home: Home, name: str, text: str, *, json: bool = False) -> int:
    """Answers the one open question of a run."""
    if not text.strip():
        raise RequestError("request.empty", "The answer is empty.", hint="Say it in a few words.")
    follower = follower_of(home, name, json=json)
    return conclude(follower, follower.request("answer", run_id=follower.run_id, text=text))


def guide(home: Home, name: str, text: str, *, json: bool = False) -> int:
    """Says what every later draft of a run must take into account; at a plan gate another plan is made now."""
    if not text.strip():
        raise RequestError("request.empty", "The guidance is empty.", hint="Say it in a sentence.")
    said = new_request(text).text
    follower = follower_of(home, name, json=json)
    return conclude(follower, follower.request("guide", run_id=follower.run_id, text=said))


def cancel(home: Home, name: str, *, reason: str = "a person", json: bool = False) -> int:
    """Ends a run. What already happened stays; what still runs is killed."""
    run_id = run_named(home, name)
    with opened(home) as door:
        door.call("cancel", run_id=run_id, reason=reason, detach=True)
    if json:
        emit({"run_id": run_id, "cancelled": True})
    else:
        say(labelled("cancelled", run_id, 11))
    return exit_codes.DONE


def follower_of(home: Home, name: str, *, json: bool, yes: bool = False) -> follow.Follower:
    """The run that a person named, followed at a terminal or for a script. Raises as ``Records.summary``."""
    run_id = run_named(home, name)
    screen: Screen = JsonScreen() if json else text_screen(home, run_id)
    decide: Any = follow.nobody
    if yes:
        decide = follow.always
    elif follow.is_interactive() and not json:
        decide = follow.ask
    return follow.Follower(home, run_id, screen, person.key_of(home), decide)
