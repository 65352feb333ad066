"""A scripted model for a real runtime: what it says by the kind of question, and plans in the words of a model."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from duly.actors.prompt import load
from runtime_fixture import short_home, stop
from runtime_home import RuntimeHome
from scripted_model_server import Asked, ScriptedModelServer, refuses

CANARY = "sk-CANARY/4f1d+9=of~minds"  # its base64, hexadecimal and URL-encoded forms all differ from it
ALWAYS = ("--planning", "always")
NEVER = ("--planning", "never")
_HOMES = itertools.count(1)
_KINDS = (
    ("planner", "plan", "plan"),
    ("planner", "arguments", "arguments"),
    ("planner", "reason", "answer"),
    ("planner", "direct", "turn"),
    ("verifier", "critic", "review"),
)


class Mind:
    """What the scripted model says, by the kind of question; each kind has a list that is used up, or one lasting word.
    A word may be a function of the request."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}
        self.asked: list[tuple[str, str]] = []
        self._arrived = threading.Semaphore(0)

    def wait(self) -> None:
        """Returns once the next question has come."""
        assert self._arrived.acquire(timeout=60), "nobody asked the model"

    def __call__(self, asked: Asked) -> Any:
        kind = _kind_of(asked)
        self.asked.append((kind, asked.texts))
        self._arrived.release()
        word = self.says.get(kind)
        if isinstance(word, list):
            word = word.pop(0) if word else None
        if callable(word):
            word = word(asked)
        return refuses(500, f"nothing to say about {kind}") if word is None else word

    def forget(self) -> None:
        """From now on only what is asked then counts."""
        self.asked, self._arrived = [], threading.Semaphore(0)

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.asked]


def _kind_of(asked: Asked) -> str:
    """The name of the schema that is asked for; by the prompt, where the server is asked in another way."""
    named = asked.body.get("response_format", {}).get("json_schema")
    if named is not None:
        return str(named["name"])
    for room, purpose, kind in _KINDS:
        if load(room, purpose).text.splitlines()[0] in asked.texts:
            return kind
    raise AssertionError(f"no prompt of duly's: {asked.texts[:200]}")


@contextmanager
def home_of(server: ScriptedModelServer, key: str = CANARY) -> Iterator[RuntimeHome]:
    """A runtime of its own whose planner and critic are on that server; stopped, and nothing left, at the end."""
    environment = {
        "DULY_MODEL_PLANNER": "openai:planner",
        "DULY_MODEL_CRITIC": "openai:critic",
        "DULY_MODEL_BASE_URL": server.base_url,
        "DULY_MODEL_API_KEY": key,
    }
    one = RuntimeHome(short_home(f"mind{next(_HOMES)}"), environment)
    started = one.duly("up")
    assert started.code == 0, started.err
    yield one
    stop(one)


def look(step_id: str, name: str | None, **more: Any) -> dict[str, Any]:
    """A step of a plan in the words of the model; ``None`` leaves its argument open."""
    return {
        "id": step_id,
        "kind": "tool",
        "tool": "things.look",
        "objective": f"What is {name or 'there'}?",
        "arguments": None if name is None else {"name": name},
        "after": [],
        "checks": [],
        **more,
    }


def planned(*steps: dict[str, Any]) -> dict[str, Any]:
    """A plan of these steps."""
    return {"steps": list(steps), "report_step": None, "allow_partial": True}


def note(step_id: str, text: str) -> dict[str, Any]:
    """A step that writes, and how it is read back."""
    back = {
        "tool": "things.noted",
        "arguments": {"text": text},
        "agree": [{"read": "/texts/0", "written": "/text"}],
    }
    more = {
        "tool": "things.note",
        "objective": f"Note {text}.",
        "arguments": {"text": text},
        "read_back": back,
    }
    return {**look(step_id, "x"), **more}


def think(step_id: str, *reads: str) -> dict[str, Any]:
    """A step that the model answers by itself, from the outputs of others."""
    return {
        "id": step_id,
        "kind": "reason",
        "objective": "What does it mean?",
        "reads": list(reads),
        "gives": [{"name": "meaning", "type": "string"}],
    }


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A turn of a direct run that asks for a call."""
    return {"turn": {"kind": "call", "tool": tool, "arguments": arguments, "why": "to see"}}


def answer(text: str) -> dict[str, Any]:
    """The turn of a direct run that ends it."""
    return {"turn": {"kind": "answer", "text": text}}
