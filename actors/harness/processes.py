"""The processes of a runtime with their memory, as ``duly status`` shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from duly.hosts.client import HostClient
from duly.hosts.models.client import ModelHostClient
from duly.protocol.wire.errors import DulyError

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory(pid: int) -> dict[str, int | None]:
    """Resident bytes of a process, and its proportional share where the kernel tells it to this user."""
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return {"rss_bytes": None, "pss_bytes": None}
    return {"rss_bytes": resident, "pss_bytes": _share(pid)}


def _share(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    except OSError:
        return None  # a host hides its memory map from everybody but root
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return None


def line(role: str, pid: int, **more: Any) -> dict[str, Any]:
    """One line of the status."""
    return {"role": role, "pid": pid, **memory(pid), **more}


async def hosts(clients: dict[str, HostClient]) -> list[dict[str, Any]]:
    """The hosts of this node; one that does not answer is listed without a process."""
    found = []
    for name, client in clients.items():
        try:
            hello = await client.hello()
            found.append(line(f"host {name}", int(hello["pid"]), epoch=hello["epoch"]))
        except DulyError as error:
            found.append(
                {"role": f"host {name}", "pid": 0, "rss_bytes": None, "pss_bytes": None, "error": error.code}
            )
    return found


async def model_hosts(sockets: dict[str, Path]) -> list[dict[str, Any]]:
    """The model hosts of this node, by role; one that does not answer is listed without a process."""
    found = []
    for role, path in sockets.items():
        client = ModelHostClient(path)
        try:
            found.append(line(f"host {role}", int((await client.hello())["pid"])))
        except DulyError as error:
            found.append(
                {"role": f"host {role}", "pid": 0, "rss_bytes": None, "pss_bytes": None, "error": error.code}
            )
        finally:
            await client.close()
    return found


def others(supervisor: int, known: set[int]) -> list[dict[str, Any]]:
    """The remaining processes below the supervisor: Ray's daemons, workers, wardens."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_text("utf-8", "replace")
            except OSError:
                continue
            name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
            parents[int(entry.name)] = (int(rest[1]), name)
    found = []
    for pid, (_, name) in sorted(parents.items()):
        if pid not in known and _below(pid, supervisor, parents):
            found.append(line(f"({name})", pid))
    return found


def _below(pid: int, top: int, parents: dict[int, tuple[int, str]]) -> bool:
    seen = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid][0]
        if pid == top:
            return True
    return False
