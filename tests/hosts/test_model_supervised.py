"""Model hosts under a supervisor: they get the launcher's settings, nobody else does, and they come back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duly.hosts.installation import Installation
from duly.hosts.models.client import ModelHostClient
from duly.protocol.wire.errors import RuntimeFault
from model_host_world import ModelHostWorld, call_of
from process_table import tree_below, wait_until_gone
from scripted_model_server import ScriptedModelServer, holds

KEY = "sk-canary-0123456789"
STARTS_SECONDS_MAX = 20.0
SUPERVISOR = (
    "import asyncio, os, pathlib, sys\n"
    "from duly.hosts import confinement, installation, supervisor\n"
    "from duly.hosts.child import ChildSpec\n"
    "home = installation.Installation(pathlib.Path(sys.argv[1]))\n"
    "confinement.harden()\n"
    "runtime = installation.runtime_children(home, os.environ)[0]\n"
    "stand_in = ChildSpec('runtime', ['sleep', '1000'], runtime.env, restart='stop', warded=True)\n"
    "with supervisor.held(home):\n"
    "    children = [*installation.model_children(home, os.environ), stand_in]\n"
    "    raise SystemExit(asyncio.run(supervisor.supervise(children)))\n"
)


@contextmanager
def supervised(world: ModelHostWorld, **environment: str) -> Iterator[int]:
    """A supervisor over both model hosts and something in the place of Ray; gives its process id."""
    argv = [sys.executable, "-P", "-c", SUPERVISOR, str(world.home)]
    process = subprocess.Popen(argv, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def hello(world: ModelHostWorld, role: str, *, other_than: int = 0) -> int:
    """The process id of a model host, once one answers that is another than the one known."""
    socket = Installation(world.home).model_socket(role)

    def answered() -> set[str]:
        world.config = world.config.model_copy(update={"socket": str(socket)})
        try:
            found.append(world.talk(ModelHostClient.hello)["pid"])
        except RuntimeFault:
            return {"not yet"}
        return set() if found[-1] != other_than else {"the old one"}

    found: list[int] = []
    assert not wait_until_gone(answered, STARTS_SECONDS_MAX), f"no {role} host came up"
    return found[-1]


def test_keys_reach_the_model_hosts_and_no_process_shows_them():
    world = ModelHostWorld()
    with ScriptedModelServer(lambda asked: {"answer": 1}, key=KEY) as server:
        variables = {
            "DULY_MODEL_PLANNER": "openai:scripted",
            "DULY_MODEL_BASE_URL": server.base_url,
            "DULY_MODEL_API_KEY": KEY,
            "DULY_CRITIC_SECRET_KEY": KEY + "-critic",
        }
        with supervised(world, **variables) as supervisor:
            critic, planner = (hello(world, role) for role in ("critic", "planner"))
            assert critic != planner
            assert world.ask().value == {"answer": 1}
            below = tree_below(supervisor)
            assert {critic, planner} < {one.pid for one in below}
            for one in below:
                if one.pid != supervisor:
                    assert b"canary" not in Path(f"/proc/{one.pid}/environ").read_bytes(), one.command
                assert "canary" not in Path(f"/proc/{one.pid}/cmdline").read_text()
    files = [path for path in world.home.rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"canary" in path.read_bytes()]
    world.close()


def test_a_host_that_is_killed_in_mid_call_comes_back_with_its_settings():
    world = ModelHostWorld()
    answers = iter([holds(), {"answer": 2}])
    with ScriptedModelServer(lambda asked: next(answers), key=KEY) as server:
        variables = {
            "DULY_MODEL_PLANNER": "openai:scripted",
            "DULY_MODEL_BASE_URL": server.base_url,
            "DULY_MODEL_API_KEY": KEY,
        }
        with supervised(world, **variables):
            first = hello(world, "planner")

            async def killed(client: ModelHostClient) -> str:
                ask = asyncio.create_task(client.ask(world.package, world.run_id, call_of(), world.mandate()))
                await asyncio.to_thread(server.arrived.acquire)
                os.kill(first, signal.SIGKILL)
                try:
                    await ask
                except RuntimeFault as fault:
                    return fault.code
                return "answered"

            assert world.talk(killed) == "runtime.host_lost"
            assert hello(world, "planner", other_than=first) != first
            assert world.ask().value == {"answer": 2}
    world.close()
