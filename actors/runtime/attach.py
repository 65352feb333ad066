"""Creates the actors in a running Ray head, waits for the front door, and leaves.

    python -P -m duly.actors.runtime.attach HOME NODE SUPERVISOR_PID IDLE_SECONDS ADDRESS

Every actor is detached and restarted by Ray without limit; no call is ever repeated by Ray (``max_task_retries=0``):
retries are the harness's business.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import ray

from ..audit_journal.actor import AuditJournal
from ..executor.actor import Executor
from ..harness.actor import Harness, actor_names
from ..plan_cache.actor import PlanCache
from ..planner.actor import Planner
from ..verifier.actor import Verifier
from .settings import NAMESPACE, Settings

START_SECONDS_MAX = 90
CLASSES: dict[str, type[Any]] = {
    "audit_journal": AuditJournal,
    "plan_cache": PlanCache,
    "planner": Planner,
    "verifier": Verifier,
    "executor": Executor,
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


def create(settings: Settings) -> Any:
    """Creates every actor; gives the harness's handle."""
    data = settings.to_data()
    for role, names in actor_names(settings).items():
        for name in names:
            ray.remote(CLASSES[role]).options(**options(name)).remote(data, name)
    return ray.remote(Harness).options(**options("harness")).remote(data, "harness")


def main(argv: list[str]) -> None:
    home, node, supervisor, idle, address = argv
    settings = Settings(home=home, node=node, supervisor=int(supervisor), idle_seconds=int(idle))
    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
    harness = create(settings)
    print(ray.get(harness.started.remote(), timeout=START_SECONDS_MAX), flush=True)
    # A normal exit of a Ray driver takes a second; nothing here needs it.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
