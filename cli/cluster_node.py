"""``duly node start`` and ``stop``: this machine as a node of a cluster. A node is a data directory with its supervisor.

The head runs the control actors, a worker runs executors over hosts of its own. Two things have to be brought to a
worker before it starts: the cluster's token (``RAY_AUTH_TOKEN_PATH``) and the harness's public key
(``keys/public/harness.pub`` of the head). The public keys of its hosts (``keys/hosts/*.pub``) go to the head's
``keys/hosts``, under names of their own: what a host signs counts only once the head knows its key.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from json import loads as json_of
from pathlib import Path

from duly.actors.runtime.node import NODE_NAME_CHARS_MAX, Node, write_node
from duly.actors.runtime.settings import HARNESS_KEY, READY_FILE, TOKEN_FILE
from duly.protocol.wire.errors import AuthorityError, RequestError, RuntimeFault
from duly.storage.home import Home
from duly.storage.keys import KeyRing

from . import exit_codes, node
from .layout import labelled
from .output import emit, note, say
from .start import start_supervisor
from .supervisor_lock import supervisor_of

TOKEN_VARIABLE = "RAY_AUTH_TOKEN_PATH"
TOKEN_BYTES_MAX = 4_096
# From the range for documentation: nothing is sent there, the kernel only says which address it would send from.
_ELSEWHERE = ("192.0.2.1", 9)


def start(home: Home, this: Node, *, json: bool = False) -> int:
    """Keeps what kind of node this is, and starts its supervisor; returns once it is up."""
    pid = supervisor_of(home)
    if pid is not None:
        raise RuntimeFault(
            "runtime.held",
            f"The runtime of this data directory is held by process {pid}.",
            place=str(home.root),
            hint="Stop it with `duly node stop` first.",
        )
    home.prepare()
    _take_token(home, needed=this.mode == "worker")
    if this.mode == "worker":
        _check_harness_key(home)
    write_node(home, this)
    note(f"starting this node as {this.mode} {this.name}...")
    address = start_supervisor(home, lambda: _address_when_ready(home))
    if json:
        emit({"mode": this.mode, "name": this.name, "address": address, "home": str(home.root)})
    else:
        say(labelled("node", f"{this.name}, {this.mode} of the cluster at {address}"))
        say(labelled("home", str(home.root)))
    return exit_codes.DONE


def stop(home: Home, *, json: bool = False) -> int:
    """Stops the node, head or worker. What kind of node it is stays."""
    return node.down(home, json=json)


def described(
    *, head: bool, worker: bool, address: str, name: str, ip: str, port: int, resources: Sequence[str]
) -> Node:
    """The node that a command line means. Raises ``RequestError`` ``request.bad_option``."""
    if head == worker:
        raise _bad("A node is either --head or --worker.", "Give one of the two.")
    if worker and not address:
        raise _bad(
            "A worker joins a head: its --address is missing.", "Give --address HOST:PORT of the head."
        )
    if head and address:
        raise _bad("A head joins nobody.", "Leave --address out, or give --worker.")
    own = ip or _own_address(address)
    if worker:
        name = name or _host_name()
    given = {"mode": "head" if head else "worker", "address": address, "ip": own, "port": port}
    if name:
        given["name"] = name
    return Node.from_data(
        {**given, "resources": _resources(resources)},
        error=RequestError,
        code="request.bad_option",
        what="The node",
    )


def _address_when_ready(home: Home) -> str | None:
    """The cluster's address once the actors of the supervisor of now are in place."""
    try:
        ready = json_of((home.run / READY_FILE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return str(ready["address"]) if ready["supervisor"] == supervisor_of(home) else None


def _take_token(home: Home, *, needed: bool) -> None:
    """Copies the cluster's token, which the launcher names, to where this node's Ray looks for it; mode 0600."""
    kept = home.run / TOKEN_FILE
    named = os.environ.get(TOKEN_VARIABLE, "")
    if named:
        try:
            with open(Path(named).expanduser(), "rb") as file:
                token = file.read(TOKEN_BYTES_MAX).strip()
        except OSError as error:
            raise RuntimeFault(
                "runtime.no_token", f"The cluster's token cannot be read: {error.strerror}.", place=named
            ) from None
        if not token:
            raise RuntimeFault("runtime.no_token", "The cluster's token is empty.", place=named)
        kept.unlink(missing_ok=True)
        with os.fdopen(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(token)
    elif needed and not kept.exists():
        raise RuntimeFault(
            "runtime.no_token",
            "A worker needs the cluster's token.",
            hint=f"Set {TOKEN_VARIABLE} to a file that holds it; on the head it is {TOKEN_FILE} in its run folder.",
        )


def _check_harness_key(home: Home) -> None:
    try:
        KeyRing(home.keys).public(HARNESS_KEY)
    except AuthorityError as error:
        raise RuntimeFault(
            "runtime.no_harness_key",
            f"This node does not know the harness whose grants it is to run: {error.message}",
            place=str(home.keys / "public" / f"{HARNESS_KEY}.pub"),
            hint="Copy that file from the head.",
        ) from None


def _own_address(head: str) -> str:
    """The address of this machine towards the head, or towards the outside; the loopback where there is no way out."""
    host, _, port = head.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, int(port)) if port.isdigit() else _ELSEWHERE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _host_name() -> str:
    """This machine's name as a node's name."""
    words = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    return words[:NODE_NAME_CHARS_MAX] or "worker"


def _resources(given: Sequence[str]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for text in given:
        name, mark, amount = text.partition("=")
        try:
            found[name] = float(amount)
        except ValueError:
            mark = ""
        if not mark or not name:
            raise _bad(f"A resource reads name=amount, not {text!r}.", "Such as --resource duly_control=1.")
    return found


def _bad(message: str, hint: str) -> RequestError:
    return RequestError("request.bad_option", message, hint=hint)
