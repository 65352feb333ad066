"""An agent package as a whole: manifest, semantics, playbooks and code, each with the digest that pins it.

    agent.toml  semantics.yaml  playbooks/*.yaml  and any other file that the manifest names (tools.py, prepare.py)

A run works on a package by its digest, so editing files does not change what a waiting run means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..wire import canon
from ..wire.errors import Fault, PackageError, RequestError
from ..wire.ids import Digest, digest_bytes
from ..wire.limits import PACKAGE_FILES_MAX
from . import semantics_yaml
from .agent import AgentSpec
from .manifest import AgentEntry, Manifest, PythonTools
from .manifest_toml import parse_manifest
from .places import Places, refusal, unknown
from .playbook import PLACED, Playbook
from .playbook_yaml import parse_playbook
from .semantics import Semantics

MANIFEST_FILE = "agent.toml"
SEMANTICS_FILE = "semantics.yaml"
PLAYBOOK_FOLDER = "playbooks/"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Package:
    """A package that loaded without a fault. ``digests`` holds the digest of every file by its name."""

    place: str
    manifest: Manifest
    semantics: Semantics | None
    playbooks: Mapping[str, Playbook]
    playbook_files: Mapping[str, str]
    digests: Mapping[str, Digest]
    digest: Digest

    @property
    def name(self) -> str:
        return self.manifest.package.name

    def agent(self, name: str | None = None) -> AgentSpec:
        """The agent of that name, or the first one, with every default filled in.

        Raises ``PackageError`` ``package.unknown_agent``.
        """
        agents = self.manifest.agents
        if name is None:
            return self._resolved(agents[0])
        for entry in agents:
            if entry.name == name:
                return self._resolved(entry)
        message = unknown("agent", name, [entry.name for entry in agents])
        raise PackageError("package.unknown_agent", message, place=self.place)

    def _resolved(self, entry: AgentEntry) -> AgentSpec:
        """An agent with its defaults. What the policy gates in every tier is gated for it, whatever its own entry says."""
        agent = entry.resolved(self.manifest.defaults)
        gated = [name for name in self.manifest.policy.gated() if name in agent.tools]
        names = list(dict.fromkeys((*agent.gated_tools, *gated)))
        return agent.model_copy(update={"gated_tools": names})

    def playbook(self, name: str) -> Playbook:
        """The playbook of that name. Raises ``RequestError`` ``request.unknown_playbook``."""
        found = self.playbooks.get(name)
        if found is None:
            raise RequestError("request.unknown_playbook", unknown("playbook", name, self.playbooks))
        return found

    def playbook_digest(self, name: str) -> Digest:
        """The digest of a playbook's file."""
        return self.digests[self.playbook_files[name]]

    def semantics_digest(self) -> Digest | None:
        return self.digests.get(SEMANTICS_FILE)

    def manifest_digest(self) -> Digest:
        return self.digests[MANIFEST_FILE]

    def policy_digest(self) -> Digest:
        """The digest of what ``[policy]`` means, whatever else changed in the manifest."""
        return canon.digest("policy", self.manifest.policy.to_data())

    def can_do(self) -> list[str]:
        """What the package can do, one sentence part each: its playbooks and its metrics."""
        found = [f"{name}: {playbook.title}" for name, playbook in sorted(self.playbooks.items())]
        if self.semantics is not None:
            labels = ", ".join(metric.label for metric in self.semantics.metrics.values())
            found.append(f"a value of one of its metrics: {labels}")
        return found


def load_package(files: Mapping[str, bytes], place: str) -> Package:
    """The package in ``files`` (path inside of the package, with ``/`` → bytes); ``place`` is its name in errors.

    Raises ``PackageError`` with every fault of every file. Code of the whole: ``package.invalid``, or the one code that
    all faults share.
    """
    faults: list[Fault] = []
    if len(files) > PACKAGE_FILES_MAX:
        message = f"A package has at most {PACKAGE_FILES_MAX} files, this one {len(files)}."
        raise PackageError("package.too_large", message, place=place)
    manifest = semantics = None
    if MANIFEST_FILE in files:
        manifest = _part(lambda: parse_manifest(files[MANIFEST_FILE], f"{place}/{MANIFEST_FILE}"), faults)
    else:
        faults.append(Fault(place, "package.no_manifest", f"There is no {MANIFEST_FILE} here."))
    if SEMANTICS_FILE in files:
        semantics = _part(
            lambda: semantics_yaml.load(files[SEMANTICS_FILE], f"{place}/{SEMANTICS_FILE}"), faults
        )
    playbooks, names = _playbooks(files, place, manifest, faults)
    if manifest is not None:
        _together(manifest, semantics, files, place, faults)
    _names(playbooks, names, semantics, place, SEMANTICS_FILE in files, faults)
    if faults or manifest is None:
        raise refusal("package.invalid", "The package has a fault", faults)
    digests = {name: digest_bytes("package.file", data) for name, data in sorted(files.items())}
    return Package(
        place=place,
        manifest=manifest,
        semantics=semantics,
        playbooks=playbooks,
        playbook_files=names,
        digests=digests,
        digest=canon.digest("package", dict(digests)),
    )


def _part(load: Callable[[], T], faults: list[Fault]) -> T | None:
    """What one file holds; its faults join the others."""
    try:
        return load()
    except PackageError as error:
        faults += error.faults or [Fault(error.place or "", error.code, error.message)]
        return None


def _playbooks(
    files: Mapping[str, bytes], place: str, manifest: Manifest | None, faults: list[Fault]
) -> tuple[dict[str, Playbook], dict[str, str]]:
    playbooks: dict[str, Playbook] = {}
    names: dict[str, str] = {}
    tools = manifest.tool_names() if manifest is not None else None
    for path in sorted(files):
        if not path.startswith(PLAYBOOK_FOLDER) or not path.endswith((".yaml", ".yml")):
            continue
        where = f"{place}/{path}"
        found = _part(lambda path=path, where=where: parse_playbook(files[path], where, tools=tools), faults)  # type: ignore[misc]
        if found is None:
            continue
        if found.name in playbooks:
            message = f"{names[found.name]} has the name {found.name!r} already."
            faults.append(Fault(f"{where}: name", "package.playbook", message))
        playbooks[found.name], names[found.name] = found, path
    return playbooks, names


def _together(
    manifest: Manifest,
    semantics: Semantics | None,
    files: Mapping[str, bytes],
    place: str,
    faults: list[Fault],
) -> None:
    """What the manifest needs of the other files."""
    at = Places(f"{place}/{MANIFEST_FILE}", {}, faults)
    for name, server in manifest.tools.items():
        if server.kind in ("metrics", "report") and SEMANTICS_FILE not in files:
            at.add(
                ("tools", name),
                "package.missing_file",
                f"These tools need {SEMANTICS_FILE}, which is not there.",
            )
        if isinstance(server, PythonTools) and server.file not in files:
            at.add(("tools", name, "file"), "package.missing_file", f"There is no file {server.file!r}.")
    for name, source in manifest.sources.items():
        if source.prepare is not None and source.prepare.file not in files:
            path = ("sources", name, "prepare", "file")
            at.add(path, "package.missing_file", f"There is no file {source.prepare.file!r}.")
    for name in semantics.sources if semantics is not None else ():
        if name not in manifest.sources:
            message = f"{SEMANTICS_FILE} has a source {name!r} that no [sources.{name}] locates."
            at.add(("sources", name), "package.unknown_source", message)


def _names(
    playbooks: Mapping[str, Playbook],
    files: Mapping[str, str],
    semantics: Semantics | None,
    place: str,
    has_semantics: bool,
    faults: list[Fault],
) -> None:
    """What playbooks name of each other and of the semantics."""
    for name, playbook in playbooks.items():
        at = Places(f"{place}/{files[name]}", {}, faults)
        for index, fallback in enumerate(playbook.fallbacks):
            if fallback not in playbooks or fallback == name:
                message = unknown("other playbook", fallback, set(playbooks) - {name})
                at.add(("fallbacks", index), "package.playbook", message)
        for key, parameter in playbook.parameters.items():
            path = ("parameters", key)
            if semantics is None:
                if not has_semantics and parameter.kind not in PLACED:
                    at.add(path, "package.missing_file", f"This parameter needs {SEMANTICS_FILE}.")
            elif parameter.default is not None:
                table = semantics.metrics if parameter.kind == "metric" else semantics.dimensions
                if parameter.default not in table:
                    message = unknown(parameter.kind, parameter.default, table)
                    at.add((*path, "default"), "package.playbook", message)
