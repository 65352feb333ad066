"""What a host knows of the tools of a package snapshot: their descriptors, as a worker of its own describes them.

Package code never runs in the host process, which holds keys; a snapshot is immutable, so one description is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.wire import canon
from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.ids import Digest, is_digest
from duly.protocol.wire.limits import PACKAGE_OPEN_SECONDS_MAX

from .pool import WorkerKind, WorkerPool

PRELOADS = frozenset(("duckdb",))  # what a zygote may load for its workers; a package's code cannot add to it


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool of one package snapshot: descriptor with its digest, and what its worker needs."""

    descriptor: Descriptor
    digest: Digest
    preload: tuple[str, ...]
    secrets: tuple[str, ...]


class KnownTools:
    """Package digest → tools by full name; asks a worker once for each snapshot.

    ``preload`` is loaded into the zygote before the first package is looked at: its readers come next.
    """

    def __init__(
        self,
        pool: WorkerPool,
        packages: Path,
        home: Path,
        secrets: Mapping[str, str],
        *,
        preload: tuple[str, ...],
    ) -> None:
        self._preload = preload
        self._pool = pool
        self._packages = packages
        self._home = home
        self._secrets = secrets
        self._known: dict[str, dict[str, KnownTool]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, package: str) -> dict[str, KnownTool]:
        """The tools of a snapshot. Raises ``ToolError``, ``PackageError`` where it is missing, damaged or broken."""
        if not is_digest(package):
            raise ToolError("tool.unknown_package", "This is no digest of a package.")
        async with self._locks.setdefault(package, asyncio.Lock()):
            if package not in self._known:
                self._known[package] = await self._described(package)
        self._locks.pop(package, None)
        return self._known[package]

    def opening(self, package: str, server: str) -> dict[str, Any]:
        """What a new worker is told: where the snapshot and the data lie, and the secrets of its server only."""
        named = {
            name
            for tool in self._known.get(package, {}).values()
            if tool.descriptor.server == server
            for name in tool.secrets
        }
        return {
            "package": str(self._packages / package),
            "digest": package,
            "home": str(self._home),
            "server": server,
            "secrets": {name: self._secrets[name] for name in sorted(named) if name in self._secrets},
        }

    async def _described(self, package: str) -> dict[str, KnownTool]:
        kind = WorkerKind(package, "")
        async with self._pool.borrow(
            kind, opening=self.opening(package, ""), preload=self._preload
        ) as worker:
            try:
                answer, output = await asyncio.wait_for(
                    worker.link.ask({"op": "describe"}), PACKAGE_OPEN_SECONDS_MAX
                )
            except TimeoutError:
                raise ToolError("tool.package_broken", "Loading the package's tools does not end.") from None
            finally:
                self._pool.kill(worker)  # it has run package code and would be of no use for calls
        if answer is None or answer["outcome"] != "ok":
            raise ToolError("tool.package_broken", "Describing the package's tools ended its process.")
        tools = {}
        for entry in canon.decode(output, bytes_max=len(output)):
            descriptor = Descriptor.from_data(
                entry["descriptor"], error=ToolError, code="tool.bad_descriptor", what="A descriptor"
            )
            tools[descriptor.full_name] = KnownTool(
                descriptor,
                descriptor.digest(),
                tuple(PRELOADS.intersection(entry["preload"])),
                tuple(entry["secrets"]),
            )
        return tools
