"""What an actor is told when it starts: where things lie. No secret is among it, since Ray shows it to everybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.storage.home import Home

HARNESS_KEY = "harness"
LOG_KEY = "log"
ORIGIN = "duly.local/journal"
NAMESPACE = "duly"
EXECUTORS_PER_NODE = 2
EXECUTOR_PREFIX = "executor-"
CONTROL_RESOURCE = "duly_control"  # where control actors may live
TOKEN_FILE = "ray.token"  # in the run folder: the cluster's token, for Ray's processes of this node
READY_FILE = "ready.json"  # in the run folder: the supervisor with actors in place, and its cluster's address
RESOURCE_SHARE = 0.001  # what an actor takes of a resource that only says where it lives


def executor_prefix(node: str) -> str:
    """What the names of a node's executors begin with."""
    return f"{EXECUTOR_PREFIX}{node}-"


def node_of(executor: str) -> str:
    """The node of an executor, by its name."""
    return executor.removeprefix(EXECUTOR_PREFIX).rpartition("-")[0]


def node_resource(node: str) -> str:
    """The Ray resource that only this node has: an actor that asks for some of it lives there and nowhere else."""
    return f"duly_node_{node}"


@dataclass(frozen=True, slots=True)
class Settings:
    """``home`` is the node's data directory, ``node`` its name, ``supervisor`` its supervisor's process id."""

    home: str
    node: str
    supervisor: int
    idle_seconds: int = 0

    def to_data(self) -> dict[str, Any]:
        return {
            "home": self.home,
            "node": self.node,
            "supervisor": self.supervisor,
            "idle_seconds": self.idle_seconds,
        }

    @classmethod
    def of(cls, data: dict[str, Any]) -> Settings:
        return cls(**data)

    @property
    def place(self) -> Home:
        return Home(Path(self.home))

    def host_socket(self, host: str) -> Path:
        return self.place.socket_path(host)
