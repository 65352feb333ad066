"""A run that is cancelled while its planner waits to ask a model again: the model is not asked again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holding import PACKAGE, holding
from runtime_fixture import short_home, stop
from runtime_home import RuntimeHome
from scripted_model_server import Asked, ScriptedModelServer, refuses

pytestmark = [pytest.mark.ray, pytest.mark.slow]


class Busy:
    """A server that wants to be left alone for a while, once a run, and then answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.arrived = threading.Semaphore(0)

    def __call__(self, asked: Asked) -> Any:
        (name,) = (one for one in ("first", "second") if f"Are you the {one}?" in asked.texts)
        self.asked.append(name)
        self.arrived.release()
        if self.asked.count(name) == 1:
            return refuses(429, retry_after={"first": 1, "second": 3}[name])
        return {"turn": {"kind": "answer", "text": "Yes."}}


@pytest.fixture
def busy() -> Busy:
    return Busy()


@pytest.fixture
def home(busy: Busy) -> Iterator[RuntimeHome]:
    with ScriptedModelServer(busy) as server:
        environment = {"DULY_MODEL_PLANNER": "openai:planner", "DULY_MODEL_BASE_URL": server.base_url}
        one = RuntimeHome(short_home("busy"), environment)
        assert one.duly("up").code == 0
        yield one
        stop(one)


def test_a_cancelled_run_does_not_ask_again(home, busy):
    """The second run's pause is longer than what is left of the first one's: when it ends, the first has had its turn."""
    with holding(home.root / "tests" / "holding"):
        first = home.begin("run", str(PACKAGE), "Are you the first?", "--json", "--planning", "never")
        assert busy.arrived.acquire(timeout=60)
        first.send_signal(signal.SIGINT)
        assert home.finish(first).code == 5
        second = home.ask(PACKAGE, "Are you the second?", "--planning", "never")
    assert (second.code, second.result["answer"]) == (0, "Yes."), second.err
    assert busy.asked == ["first", "second", "second"]
