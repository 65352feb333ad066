"""What kind of node this is: ``node.json`` in the data directory, written by ``duly node start``; without it a laptop.

    {"mode": "head" | "worker", "name": "node-1", "address": "host:port" (worker), "ip": "127.0.0.1", "port": 0,
     "resources": {"duly_control": 1}}

A worker node runs hosts and executors; control actors live on the head. Nodes know each other's public keys: the head
has every node's host keys in ``keys/hosts``, a worker has the harness's key in ``keys/public``.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from pydantic import Field, model_validator

from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.model import Model
from duly.storage.home import Home

FILE = "node.json"
NODE_NAME_CHARS_MAX = 41
ADDRESS = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}")


class Node(Model):
    """``ip`` is the address that Ray's processes are reached at, ``port`` the head's (0: a free one), ``resources`` what
    Ray is told that this node has besides."""

    mode: Literal["head", "worker"] = "head"
    name: str = Field(default="node-1", pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=NODE_NAME_CHARS_MAX)
    address: str = ""
    ip: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)
    resources: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _joins(self) -> Node:
        if self.mode == "worker" and not ADDRESS.fullmatch(self.address):
            raise ValueError("a worker names the head's address as host:port")
        return self


def read_node(home: Home) -> Node:
    """The node of a data directory. Raises ``RuntimeFault`` ``runtime.bad_node``."""
    path = home.root / FILE
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Node()
    except (OSError, ValueError) as error:
        raise RuntimeFault(
            "runtime.bad_node", f"The node's file cannot be read: {error}.", place=str(path)
        ) from None
    return Node.from_data(data, error=RuntimeFault, code="runtime.bad_node", what=f"{path}")


def write_node(home: Home, node: Node) -> None:
    """Keeps what kind of node this is for every later start."""
    home.prepare()
    (home.root / FILE).write_text(json.dumps(node.to_data(), indent=1) + "\n", "utf-8")
