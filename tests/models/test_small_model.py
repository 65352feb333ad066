"""A real small model over real HTTP and a real grammar: what it says is schema-valid and mostly wrong, and nothing trusts it.

Every test bounds its tokens: a whole plan of this model would take minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from duly.actors.model_session import Session, user
from duly.actors.planner.model.arguments import extract_arguments
from duly.actors.planner.model.direct import Answer, ToolWish, next_turn
from duly.actors.planner.model.plan import draft_plan
from duly.actors.prompt import load
from duly.actors.verifier.critic import CriticWord, criticise
from duly.hosts.models.client import ModelHostClient
from duly.protocol.judgement.checks import Check
from duly.protocol.judgement.verdict import judge
from duly.protocol.plan import schema, validate
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.model_draft import plan_of
from duly.protocol.plan.package import load_package
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Binding, new_request
from duly.protocol.wire import canon
from duly.protocol.wire.errors import ModelError, PlanError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, DRAFTS_PER_PLAN_MAX, MODEL_RETRIES_MAX
from local_model import model_file
from model_host_world import MANIFEST, ModelHostWorld
from plans import plan, step, tool
from relay import Relay

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("small-model"), pytest.mark.timeout(600)]
T = TypeVar("T")
READY_SECONDS_MAX = 60
TOKENS_OF_ONE_DRAFT = 4_000  # a second one would take a minute
SEND = tool(
    "send",
    "write",
    description="Sends a number of things to a city.",
    input_schema={
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "count": {"type": "integer"},
            "fragile": {"type": "boolean"},
        },
        "required": ["city", "count", "fragile"],
        "additionalProperties": False,
    },
)
LOOK = tool(
    "look",
    description="Looks what lies in a place.",
    input_schema={
        "type": "object",
        "properties": {"place": {"type": "string", "maxLength": 20}},
        "required": ["place"],
        "additionalProperties": False,
    },
)
AGENT = AgentSpec(name="a", version="1", mission="Sends things.", tools=["t.send", "t.look"])
CITIES = ["Oslo", "Lima", "Rome", "Bern", "Kyiv", "Cork", "Bath", "Nice", "Pisa", "Graz"]


class Served:
    """``duly model serve`` over the small model."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-P", "-m", "duly.cli.entry", "model", "serve", str(model_file())]
        # One thread: several wait for each other at every step, for long where other tests take their cores.
        options = ["--home", str(home), "--context", "4096", "--threads", "1", "--json"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], READY_SECONDS_MAX)[0], "it is not ready in time"
        self.said: dict[str, Any] = json.loads(self.process.stdout.readline())

    @property
    def base_url(self) -> str:
        return str(self.said["base_url"])

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(tmp_path_factory.mktemp("served"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def world() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as one:
        yield one


@pytest.fixture
def work(world: ModelHostWorld, served: Served) -> Callable[..., tuple[Any, Session]]:
    """Does some work in a session with the small model: its outcome, or the error it ended with; and the session."""
    return lambda doing, tokens: working(world, served.base_url, doing, tokens)


def working(
    world: ModelHostWorld, base_url: str, doing: Callable[[Session], Awaitable[Any]], tokens: int
) -> tuple[Any, Session]:
    world.renew(base_url, "no-key-is-wanted")

    async def told(client: ModelHostClient) -> tuple[Any, Session]:
        session = Session(
            client,
            package=world.package,
            run_id=world.run_id,
            mandate=world.mandate(),
            tokens_max=tokens,
            sleep=lambda seconds: asyncio.sleep(0),
        )
        try:
            return await doing(session), session
        except (ModelError, PlanError) as error:
            return error, session

    return world.talk(told)


@pytest.mark.parametrize("number", range(20))
def test_arguments_of_described_steps_are_valid_twenty_times_of_twenty(work, number):
    city, fragile = CITIES[number % 10], number % 2 == 0
    objective = f"Send {number + 2} {'glasses, which are fragile' if fragile else 'stones'}, to {city}."
    one = step("s1", SEND).model_copy(update={"objective": objective})
    found, session = work(
        lambda session: extract_arguments(
            session, step=one, descriptor=SEND, request=new_request(objective), inputs={}
        ),
        6_000,
    )
    assert isinstance(found, dict), found
    assert schema.faults_of(found, SEND.input_schema, "", "x", []) == []
    assert len(session.uses) <= 2 and session.uses[0].use.mode == "strict"


@pytest.mark.parametrize("last", [False, True])
def test_a_direct_turn_is_an_answer_or_a_call_within_its_bounds(work, last):
    found, session = work(
        lambda session: next_turn(
            session,
            request=new_request("Send 3 stones to Oslo."),
            agent=AGENT,
            descriptors={"t.send": SEND},
            turns=(),
            last=last,
        ),
        4_000,
    )
    assert isinstance(found, (Answer, ModelError) if last else (Answer, ToolWish, ModelError))
    if isinstance(found, ToolWish):
        assert schema.faults_of(found.arguments, SEND.input_schema, "", "x", []) == []
    assert len(session.uses) <= 2


def test_a_draft_that_is_no_graph_is_refused_with_every_fault_and_never_half_a_plan(work):
    """The model's steps wait for each other in a circle: valid under the schema, and no plan."""
    package = load_package({"agent.toml": MANIFEST.encode()}, "asked")
    tools = {"t.send": SEND, "t.look": LOOK}
    request = new_request("Look what there is, then send 3 stones to Oslo.")
    found, session = work(
        lambda session: draft_plan(
            session,
            request=request,
            binding=Binding(),
            package=package,
            agent=AGENT,
            catalogue=Catalogue(),
            descriptors=tools,
            plan_id="p1",
            version=1,
            provenance=None,
            guidance=(),
            left={"steps": 2, "tool_calls": 2},
        ),
        TOKENS_OF_ONE_DRAFT,
    )
    first = canon.decode(session.uses[0].value, bytes_max=ARTIFACT_BYTES_MAX)
    _, faults = plan_of(
        first,
        package=package,
        descriptors=tools,
        objective=request.text,
        steps_max=2,
        plan_id="p1",
        version=1,
        provenance=None,
    )
    if isinstance(found, Plan):
        assert not faults and validate.faults_of(found, tools) == []
    else:
        assert found.code in ("plan.refused", "model.budget")
        assert faults and all(one.code and one.path for one in faults)
    assert 1 <= len(session.uses) <= DRAFTS_PER_PLAN_MAX


def test_a_server_that_is_killed_in_a_call_is_asked_again_within_bounds(world, tmp_path):
    served = Served(tmp_path)
    long = {"type": "object", "properties": {"tale": {"type": "string"}}, "required": ["tale"]}

    async def tell(session: Session) -> Any:
        asking = session.ask(
            "reason", load("planner", "reason"), [user("Tell a tale of 3,000 words.")], "tale", long
        )
        task = asyncio.ensure_future(asking)
        await asyncio.to_thread(relay.passed.acquire)
        (below,) = children(served.process.pid)
        os.kill(below, signal.SIGKILL)
        return await task

    try:
        with Relay(served.base_url) as relay:
            found, session = working(world, relay.base_url, tell, 8_000)
    finally:
        served.close()
    codes = [one.use.code for one in session.uses]
    assert isinstance(found, ModelError) and found.code in ("model.lost", "model.unreachable")
    assert codes[0] in ("model.lost", "model.unreachable") and len(codes) == 1 + MODEL_RETRIES_MAX


def children(parent: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def test_a_model_that_passes_a_false_number_does_not_make_it_pass(work):
    """There are 23 stones, as a recomputation says; the critic is shown 22, with and without being told."""
    one = plan([step("s1", LOOK, {"place": "Oslo"})], objective="How many stones lie in Oslo?")
    right = Check(check_id="rule:s1", kind="rule", step_id="s1", outcome="pass")
    wrong = Check(check_id="recompute:s1", kind="recompute", step_id="s1", outcome="fail", reason="it is 23")
    words = []
    for shown in ([], [right], [right, wrong]):
        word, _ = work(
            lambda session, shown=shown: criticise(
                session, objective=one.objective, plan=one, outputs={"s1": {"stones": 22}}, checks=shown
            ),
            2_000,
        )
        assert isinstance(word, CriticWord), word
        words.append(word.outcome)
        said = Check(check_id="critic", kind="critic", step_id="", outcome=word.outcome)
        for checks in ([right, wrong, said], [said, wrong, right]):
            assert judge(checks)[0] == "fail"
    assert "pass" in words, "this model passes no false number any more: show it another"
