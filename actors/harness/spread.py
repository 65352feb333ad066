"""Which nodes have a package: its snapshot, and its data prepared. Reads of it are dealt out over these.

The harness's own node has every package that is open. Others get it when it is opened, or as soon as they have joined;
until then, or where their data cannot be prepared, they are left out. No run waits for a node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.limits import SPREAD_SECONDS_MAX

from ..caller import Caller
from ..messages import Done, KeepPackage
from .again import once
from .grants import Wanted
from .one_read import OneRead

log = logging.getLogger("duly")
Place = tuple[str, str]  # package digest and node


class Spread:
    """``files`` gives the files of a snapshot, ``node`` is the harness's own."""

    def __init__(
        self, caller: Caller, reads: OneRead, files: Callable[[str], Mapping[str, bytes]], node: str
    ) -> None:
        self._caller = caller
        self._reads = reads
        self._files = files
        self._node = node
        self._surveys: dict[str, Wanted] = {}
        self._ready: set[Place] = set()
        self._bringing: dict[Place, asyncio.Task[None]] = {}

    async def opened(self, package: str, survey: Wanted) -> None:
        """Brings a package to every node; ``survey`` is the read that prepares its data. Waits, but not for ever."""
        self._surveys[package] = survey
        self.nodes(package)
        under_way = [task for (digest, _), task in self._bringing.items() if digest == package]
        if under_way:
            await asyncio.wait(under_way, timeout=SPREAD_SECONDS_MAX)

    def nodes(self, package: str) -> list[str]:
        """The nodes that can run reads of a package now, the harness's own among them."""
        found = [self._node]
        for node in self._caller.nodes():
            place = (package, node)
            if node == self._node:
                continue
            if place in self._ready:
                found.append(node)
            elif package in self._surveys and place not in self._bringing:
                self._bringing[place] = asyncio.get_running_loop().create_task(self._bring(place))
        return found

    def forget(self, package: str, node: str) -> None:
        """Notes that a node has a package no more: its data directory was replaced."""
        self._ready.discard((package, node))

    async def _bring(self, place: Place) -> None:
        package, node = place
        files = self._files(package)
        keep = KeepPackage(package=package, names=list(files))

        async def ask() -> None:
            await self._caller.ask("executor", keep, Done, blobs=list(files.values()), node=node)
            await self._reads.run(
                self._surveys[package], run_id=f"package-{package[:16]}", package=package, node=node
            )

        try:
            await once(ask)
            self._ready.add(place)
        except DulyError as error:
            log.warning("%s does not get package %s: %s", node, package[:16], error)
        finally:
            del self._bringing[place]
