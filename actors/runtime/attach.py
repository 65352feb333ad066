"""Creates the actors of a node in a running Ray cluster, and leaves.

    python -P -m duly.actors.runtime.attach HOME SUPERVISOR_PID IDLE_SECONDS ADDRESS

On a head these are the control actors, pinned to control nodes by resource, and the head's executors; on a worker the
worker's executors. Every actor is detached and restarted by Ray without limit; no call is ever repeated by Ray
(``max_task_retries=0``): retries are the harness's business.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError

from duly import __version__
from duly.protocol.wire.envelope import Role
from duly.protocol.wire.errors import RuntimeFault
from duly.storage.home import Home

from ..audit_journal.actor import AuditJournal
from ..executor.actor import Executor
from ..harness.actor import CONTROL, Harness
from ..plan_cache.actor import PlanCache
from ..planner.actor import Planner
from ..verifier.actor import Verifier
from .node import read_node
from .settings import (
    CONTROL_RESOURCE,
    EXECUTORS_PER_NODE,
    NAMESPACE,
    RESOURCE_SHARE,
    Settings,
    executor_prefix,
    node_resource,
)

START_SECONDS_MAX = 90
LOOK_SECONDS = 0.1
CLASSES: dict[Role, type[Any]] = {
    "audit_journal": AuditJournal,
    "plan_cache": PlanCache,
    "planner": Planner,
    "verifier": Verifier,
}


def options(name: str) -> dict[str, Any]:
    """How every actor is created. Actors wait more than they compute, so they reserve no CPU."""
    return {
        "name": name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": 0,
        "max_concurrency": 1_000,
    }


def create_control(settings: Settings) -> Any:
    """Creates the control actors; gives the harness's handle."""
    data = settings.to_data()
    pinned = {"resources": {CONTROL_RESOURCE: RESOURCE_SHARE}}
    for role, name in CONTROL.items():
        ray.remote(CLASSES[role]).options(**options(name), **pinned).remote(data, name)
    return ray.remote(Harness).options(**options("harness"), **pinned).remote(data, "harness")


def create_executors(settings: Settings) -> None:
    """Creates this node's executors, bound to it by its resource: their hosts' sockets are here.

    Ones that exist stay: those of a node that was away are started again by Ray now that the resource is back.
    """
    here = {"resources": {node_resource(settings.node): RESOURCE_SHARE}}
    handles = []
    for index in range(EXECUTORS_PER_NODE):
        name = f"{executor_prefix(settings.node)}{index}"
        actor: Any = ray.remote(Executor).options(**options(name), **here, get_if_exists=True)
        handles.append(actor.remote(settings.to_data(), name))
    _await_all(handles)


def _await_all(handles: list[Any]) -> None:
    """Until each has answered; one that is being started again refuses to be asked for a while."""
    deadline = time.monotonic() + START_SECONDS_MAX
    waiting = list(handles)
    looks = threading.Event()  # never set: Ray does not say when an actor is back, so this looks now and then
    while waiting:
        try:
            ray.get(waiting[0].process.remote(), timeout=max(1, deadline - time.monotonic()))
            waiting.pop(0)
        except ActorUnavailableError:
            if time.monotonic() > deadline:
                raise
            looks.wait(LOOK_SECONDS)


def check_version() -> None:
    """Raises ``RuntimeFault`` ``runtime.version`` where the head is of another version, or no head of duly's."""
    try:
        harness: Any = ray.get_actor("harness", namespace=NAMESPACE)
        version = ray.get(harness.version.remote(), timeout=START_SECONDS_MAX)
    except (ValueError, RayError) as error:
        raise RuntimeFault(
            "runtime.no_harness", f"There is no harness in this cluster ({type(error).__name__})."
        ) from None
    if version != __version__:
        raise RuntimeFault(
            "runtime.version", f"This node is of version {__version__}, the head of version {version}."
        )


def main(argv: list[str]) -> None:
    home, supervisor, idle, address = argv
    node = read_node(Home(Path(home)))
    settings = Settings(home=home, node=node.name, supervisor=int(supervisor), idle_seconds=int(idle))
    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
    if node.mode == "head":
        harness = create_control(settings)
        create_executors(settings)
        print(ray.get(harness.started.remote(), timeout=START_SECONDS_MAX), flush=True)
    else:
        check_version()
        create_executors(settings)
    # A normal exit of a Ray driver takes a second; nothing here needs it.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
