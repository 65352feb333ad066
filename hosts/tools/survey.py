"""The tools that every package has: ``duly.survey`` prepares its data and gives the catalogue, ``duly.fingerprint`` tells
what its sources are now.

A source that names a preparer and lacks one of its outputs, or whose output has no recorded fingerprint, is prepared
first: by one process at a time, into the data folder, aside and then renamed by the preparer.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.manifest import Manifest, Prepare, SourceEntry
from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.limits import SURVEY_SECONDS_MAX

from .context import CallContext, Tool

if TYPE_CHECKING:
    from .duckdb_source import SourceFile

SERVER = "duly"
_INPUT = {"type": "object", "properties": {"package": {"type": "string"}}, "additionalProperties": False}
Load = Callable[[str], ModuleType]


def tools(manifest: Manifest, load: Load) -> tuple[Tool, ...]:
    """Survey and fingerprint of one package; ``load`` gives the module of a file."""
    preload = ("duckdb",) if manifest.sources else ()

    def described(name: str, description: str) -> Descriptor:
        return Descriptor(
            server=SERVER,
            name=name,
            description=description,
            input_schema=_INPUT,
            output_schema={"type": "object"},
            effect="read",
            idempotency="natural",
            timeout_seconds=SURVEY_SECONDS_MAX,
        )

    return (
        Tool(
            described("survey", "Prepares the sources where needed, and gives their catalogue."),
            lambda call, arguments: survey(call, manifest, load),
            preload=preload,
        ),
        Tool(
            described("fingerprint", "The fingerprint of every source as it is now."),
            lambda call, arguments: fingerprints(call, manifest),
            preload=preload,
        ),
    )


def survey(call: CallContext, manifest: Manifest, load: Load) -> dict[str, Any]:
    """The catalogue as data, after whatever has to be prepared. Raises ``ToolError`` and what the preparer raises."""
    for prepare in {(one.file, one.function): one for one in _preparers(manifest)}.values():
        _prepare(call, prepare, load)
    if not manifest.sources:
        return {"sources": {}, "dimensions": {}}
    from .catalogue import catalogue

    return catalogue(call, source_files(call.package, call.data, manifest.sources)).to_data()


def fingerprints(call: CallContext, manifest: Manifest) -> dict[str, str]:
    """Source name → digest of its file. Raises ``ToolError`` where one is missing or not what its preparer wrote."""
    if not manifest.sources:
        return {}
    from .duckdb_fingerprint import check_as_prepared, fingerprint

    for name, file in source_files(call.package, call.data, manifest.sources).items():
        path = Path(os.path.realpath(file.path))
        found = fingerprint(path)
        check_as_prepared(path, found)
        call.fingerprints[name] = found.sha256
    return dict(call.fingerprints)


def source_files(package: Path, data: Path, entries: Mapping[str, SourceEntry]) -> dict[str, SourceFile]:
    """Where the sources of a manifest lie: absolute, in the data folder, or in the package."""
    from .duckdb_source import SourceFile

    return {
        name: SourceFile(
            (package if entry.base == "package" else data) / entry.file, entry.table, tuple(entry.nulls)
        )
        for name, entry in entries.items()
    }


def _preparers(manifest: Manifest) -> Iterator[Prepare]:
    for entry in manifest.sources.values():
        if entry.prepare is not None:
            yield entry.prepare


def _prepare(call: CallContext, prepare: Prepare, load: Load) -> None:
    if not _unprepared(call.data, prepare):
        return
    call.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(call.data):
        if not _unprepared(call.data, prepare):
            return  # another process has done it while this one waited
        function = getattr(load(prepare.file), prepare.function, None)
        if function is None:
            raise ToolError(
                "tool.preparer_failed",
                f"There is no function {prepare.function} in {prepare.file} of the package.",
            )
        function(call.data)
        absent = [name for name in prepare.outputs if not (call.data / name).is_file()]
        if absent:
            raise ToolError(
                "tool.preparer_failed",
                f"The preparer has not made {', '.join(absent)}.",
                place=str(call.data),
            )
        _record(call.data, prepare)


def _unprepared(data: Path, prepare: Prepare) -> list[str]:
    """The outputs that are missing, or whose fingerprint nobody has recorded."""
    return [name for name in prepare.outputs if not (data / name).is_file() or not _is_recorded(data / name)]


def _is_recorded(output: Path) -> bool:
    return output.name in _recorded(output.parent)


def _recorded(folder: Path) -> dict[str, Any]:
    """The record beside the files of a folder: file name → what is known of it."""
    from .duckdb_fingerprint import FINGERPRINTS_FILE, damaged

    try:
        known = json.loads((folder / FINGERPRINTS_FILE).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        known = None
    if not isinstance(known, dict):
        raise damaged(folder / FINGERPRINTS_FILE, "The record of fingerprints is not what a preparer writes.")
    return known


def _record(data: Path, prepare: Prepare) -> None:
    """Notes the fingerprints of outputs that the preparer has not noted itself."""
    from .duckdb_fingerprint import FINGERPRINTS_FILE, fingerprint

    for name in prepare.outputs:
        output = data / name
        known = _recorded(output.parent)
        if output.name not in known:
            known[output.name] = {"sha256": fingerprint(output).sha256}
            aside = output.parent / f".{FINGERPRINTS_FILE}.{os.getpid()}"
            aside.write_text(json.dumps(known, indent=1), encoding="utf-8")
            os.replace(aside, output.parent / FINGERPRINTS_FILE)


@contextlib.contextmanager
def _alone(data: Path) -> Iterator[None]:
    """One preparer at a time over a data folder; the kernel lets go of the lock when its process ends."""
    fd = os.open(data / ".prepare.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
