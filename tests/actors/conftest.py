"""A runtime whose models are scripted, for the modules that ask models; one a module, started when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holding import PACKAGE, Holding, holding
from mind import CANARY, Mind, home_of
from runtime_home import Outcome, RuntimeHome
from scripted_model_server import ScriptedModelServer


@pytest.fixture(scope="module")
def mind() -> Mind:
    return Mind()


@pytest.fixture(scope="module")
def model_server(mind: Mind) -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer(mind, key=CANARY) as server:
        yield server


@pytest.fixture(scope="module")
def home(model_server: ScriptedModelServer) -> Iterator[RuntimeHome]:
    with home_of(model_server) as one:
        yield one


@pytest.fixture
def held(home: RuntimeHome) -> Iterator[Holding]:
    with holding(home.root / "tests" / "holding") as one:
        yield one


@pytest.fixture
def ask(home: RuntimeHome, held: Holding, mind: Mind) -> Callable[..., Outcome]:
    """Asks the holding package; what the model says comes by the kind of question."""

    def asking(request: str, *options: str, **says: Any) -> Outcome:
        mind.says, mind.asked = says, []
        return home.ask(PACKAGE, request, *options)

    return asking
