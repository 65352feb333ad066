"""From a package snapshot to its tools: which kinds there are, and what each makes of its part of the manifest."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from duly.protocol.plan.manifest import Manifest, MetricTools, PythonTools, ReportTools, SqliteTools, SqlTools
from duly.protocol.plan.manifest_toml import parse_manifest
from duly.protocol.plan.package import MANIFEST_FILE
from duly.protocol.plan.toml_lines import lines_of
from duly.protocol.wire import canon
from duly.protocol.wire.errors import PackageError
from duly.protocol.wire.ids import digest_bytes
from duly.protocol.wire.limits import PACKAGE_BYTES_MAX, PACKAGE_DEPTH_MAX, PACKAGE_FILES_MAX

from . import python, survey
from .context import Tool

VERIFY_SERVER = "verify"  # the verifier's own recounting, built from nothing that a plan says
OWN_SERVERS = frozenset((survey.SERVER, VERIFY_SERVER))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A package as a worker sees it: its folder, its digest (checked) and what its manifest says."""

    folder: Path
    digest: str
    manifest: Manifest
    files: Mapping[str, bytes]

    def module(self, file: str) -> ModuleType:
        """A Python file of the package, loaded. Runs package code."""
        return python.load_module(self.files[file], self.folder / file, self.digest)


def open_package(folder: Path, digest: str) -> Snapshot:
    """The snapshot in a folder, whose bytes must have exactly this digest.

    Raises ``PackageError``: ``package.missing``, ``package.damaged``, or what is wrong with the manifest.
    """
    files = _files(folder)
    digests = {name: digest_bytes("package.file", data) for name, data in files.items()}
    if canon.digest("package", digests) != digest:
        raise PackageError(
            "package.damaged",
            "The files of this snapshot are not those that its digest names.",
            place=str(folder),
            hint="Remove the folder and submit the request again.",
        )
    manifest = parse_manifest(files[MANIFEST_FILE], str(folder / MANIFEST_FILE))
    return Snapshot(folder, digest, manifest, files)


def load(snapshot: Snapshot, *, only: str = "") -> dict[str, Tool]:
    """The tools of a snapshot by full name, of one server or of all. Runs package code where a server has any."""
    tools: list[Tool] = []
    for name in OWN_SERVERS & set(snapshot.manifest.tools):
        raise PackageError(
            "package.reserved_name", f"The server name {name!r} is duly's own; choose another."
        )
    for server, entry in snapshot.manifest.tools.items():
        if only in ("", server):
            tools += _KINDS[type(entry)](snapshot, server, entry)
    if only in ("", survey.SERVER):
        tools += survey.tools(snapshot.manifest, snapshot.module)
        tools += _policy(snapshot)
    if only in ("", VERIFY_SERVER) and snapshot.manifest.sources:
        from . import tally

        tools += tally.tools(VERIFY_SERVER)
    return {tool.descriptor.full_name: tool for tool in tools}


def _policy(snapshot: Snapshot) -> Iterable[Tool]:
    from . import policy

    lines = lines_of(snapshot.files[MANIFEST_FILE].decode("utf-8"))
    return policy.tools(snapshot.manifest.policy, lines)


def _files(folder: Path) -> dict[str, bytes]:
    """Every file of a snapshot by its path inside, with the bounds of a package; links are not followed."""
    found: dict[str, bytes] = {}
    total = 0
    for path in _walk(folder, 0):
        data = path.read_bytes()
        total += len(data)
        if len(found) >= PACKAGE_FILES_MAX or total > PACKAGE_BYTES_MAX:
            raise PackageError(
                "package.too_large", "This snapshot exceeds the limits of a package.", place=str(folder)
            )
        found[path.relative_to(folder).as_posix()] = data
    if MANIFEST_FILE not in found:
        raise PackageError("package.missing", "There is no such package snapshot here.", place=str(folder))
    return found


def _walk(folder: Path, depth: int) -> Iterable[Path]:
    if depth > PACKAGE_DEPTH_MAX or not folder.is_dir():
        return
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if entry.name == "__pycache__":
            continue  # never read: modules are made of checked bytes
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(Path(entry.path), depth + 1)
        elif stat.S_ISREG(mode):
            yield Path(entry.path)
        else:
            raise PackageError(
                "package.damaged", "A snapshot holds files and folders only.", place=entry.path
            )


def _metrics(snapshot: Snapshot, server: str, entry: MetricTools) -> Iterable[Tool]:
    from . import metrics

    return metrics.tools(server, entry.timeout_seconds)


def _python(snapshot: Snapshot, server: str, entry: PythonTools) -> Iterable[Tool]:
    module = snapshot.module(entry.file)
    return python.tools_of(module, server, entry.functions, entry.timeout_seconds)


def _report(snapshot: Snapshot, server: str, entry: ReportTools) -> Iterable[Tool]:
    from . import report

    return report.tools(server, entry.timeout_seconds)


def _sql(snapshot: Snapshot, server: str, entry: SqlTools) -> Iterable[Tool]:
    from . import sql

    return sql.tools(server, entry, snapshot.manifest.sources)


def _sqlite(snapshot: Snapshot, server: str, entry: SqliteTools) -> Iterable[Tool]:
    from . import sqlite

    return sqlite.tools(server, entry)


_KINDS: dict[type, Callable[..., Iterable[Tool]]] = {
    MetricTools: _metrics,
    ReportTools: _report,
    SqlTools: _sql,
    PythonTools: _python,
    SqliteTools: _sqlite,
}
