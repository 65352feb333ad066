"""What the harness knows of a package snapshot: its manifest, its tools as the hosts describe them, its catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.scope import Scope
from duly.protocol.wire import canon
from duly.protocol.wire.errors import PackageError, ToolError
from duly.protocol.wire.ids import digest_bytes
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from duly.storage.packages import PackageStore

from ..caller import Caller
from ..messages import DescribePackage, PackageDescribed
from .again import again
from .grants import Wanted
from .one_read import OneRead
from .spread import Spread

SURVEY = "duly.survey"
FINGERPRINT = "duly.fingerprint"


@dataclass(frozen=True, slots=True)
class OpenPackage:
    """A snapshot that is ready for runs. ``descriptors`` holds every tool of it, granted to an agent or not."""

    package: Package
    digest: str
    descriptors: Mapping[str, Descriptor]
    catalogue: bytes
    fingerprints: Mapping[str, str]

    def granted(self, agent: AgentSpec) -> dict[str, Descriptor]:
        """The descriptors of an agent's tools. Raises ``PackageError`` ``package.unknown_tool``."""
        missing = [name for name in agent.tools if name not in self.descriptors]
        if missing:
            raise PackageError(
                "package.unknown_tool",
                f"The agent {agent.name} is granted {', '.join(missing)}, which no host offers.",
                place=f"{self.package.place}/agent.toml",
            )
        return {name: self.descriptors[name] for name in agent.tools}

    def digests(self) -> dict[str, str]:
        """What a run records of the package's parts."""
        return {
            "manifest": self.package.manifest_digest(),
            "semantics": self.package.semantics_digest() or "",
            "policy": self.package.policy_digest(),
            "catalogue": digest_bytes("catalogue", self.catalogue),
        }

    def scope(self) -> Scope:
        """The widest scope of a plan: every source of the package, every resource of its tools."""
        resources = {d.resource for d in self.descriptors.values() if d.resource and not d.reads_only}
        return Scope(sources=sorted(self.package.manifest.sources), resources=sorted(resources))


class Packages:
    """Opens snapshots through an executor of the harness's own node and keeps what was learned."""

    def __init__(
        self, store: PackageStore, caller: Caller, reads: OneRead, spread: Spread, node: str
    ) -> None:
        self._store = store
        self._caller = caller
        self._reads = reads
        self._spread = spread
        self._node = node
        self._open: dict[str, OpenPackage] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def add(self, files: Mapping[str, bytes], place: str) -> OpenPackage:
        """Keeps a snapshot of a package's files and opens it. Raises ``PackageError`` with every fault."""
        load_package(files, place)
        return await self.get(self._store.put(files), place)

    async def get(self, digest: str, place: str = "the package") -> OpenPackage:
        """The open package of a snapshot, its sources looked at again."""
        async with self._locks.setdefault(digest, asyncio.Lock()):
            known = self._open.get(digest)
            if known is not None and await self.fingerprints(known) == known.fingerprints:
                return known
            package = known.package if known else load_package(self._store.get(digest), place)
            descriptors = known.descriptors if known else await self._describe(digest)
            survey = await self._builtin(digest, SURVEY, descriptors)
            catalogue = Catalogue.model_validate(canon.decode(survey, bytes_max=ARTIFACT_BYTES_MAX))
            marks = {name: source.fingerprint for name, source in catalogue.sources.items()}
            self._open[digest] = OpenPackage(package, digest, descriptors, survey, marks)
            await self._spread.opened(digest, _wanted(digest, SURVEY, descriptors))
            return self._open[digest]

    async def fingerprints(self, package: OpenPackage) -> dict[str, str]:
        """The sources' fingerprints as they are now; without a source there is nothing to ask a host about."""
        if not package.package.manifest.sources:
            return {}
        data = await self._builtin(package.digest, FINGERPRINT, package.descriptors)
        return dict(canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX))

    async def _describe(self, digest: str) -> dict[str, Descriptor]:
        async def ask() -> list[bytes]:
            body = DescribePackage(package=digest)
            _, blobs = await self._caller.ask("executor", body, PackageDescribed, node=self._node)
            return blobs

        blobs = await again(ask)
        data = canon.decode(blobs[0], bytes_max=ARTIFACT_BYTES_MAX)
        return {name: Descriptor.model_validate(one) for name, one in data.items()}

    async def _builtin(self, digest: str, tool: str, descriptors: Mapping[str, Descriptor]) -> bytes:
        """Runs one of duly's own reads over a package. It is granted like any other call, each time anew."""
        wanted = _wanted(digest, tool, descriptors)
        try:
            outcome = await self._reads.run(wanted, run_id=f"package-{digest[:16]}", package=digest)
        except ToolError as error:
            if error.code == "tool.failed":
                raise PackageError(
                    "package.not_opened", f"The package could not be opened: {error.message}"
                ) from None
            raise
        assert outcome.output is not None
        return outcome.output


def _wanted(digest: str, tool: str, descriptors: Mapping[str, Descriptor]) -> Wanted:
    return Wanted(
        step_id=tool.replace(".", "-"),
        attempt=1,
        tool=tool,
        descriptor=descriptors[tool].digest(),
        effect="read",
        arguments={"package": digest},
        timeout_seconds=descriptors[tool].timeout_seconds,
    )
